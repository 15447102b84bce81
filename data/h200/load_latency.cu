// How long single loads from DRAM take, as a distribution, against the load that all warps make together.
//   nvcc -O3 -arch=sm_90 -o load_latency data/h200/load_latency.cu && ./load_latency > load_latency.json
// As in mix.cu each entry of a 4 GiB array holds the index of the next one; a warp reads the clock around each load.
#include <cstdio>
#include <vector>
const int BINS = 2048, WIDTH = 4;  // cycles

__global__ void fill(unsigned *p, size_t count, unsigned step) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x) p[i] = (unsigned)(i + step);
}

__global__ void chase(const unsigned *p, unsigned section, int rounds, unsigned *counts, long long *cycles, unsigned *sink, int zero) {
  __shared__ unsigned own[BINS];
  for (int i = threadIdx.x; i < BINS; i += blockDim.x) own[i] = 0;
  __syncthreads();
  unsigned x = blockIdx.x * section + threadIdx.x;
  long long start = clock64();
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    unsigned before = clock();
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(x) : "l"(p + x));
    asm volatile("add.u32 %0, %0, %1;" : "+r"(x) : "r"(zero));
    unsigned after = clock();
    unsigned bin = (after - before) / WIDTH;
    if (threadIdx.x % 32 == 0 && r >= 8) atomicAdd(&own[bin < BINS ? bin : BINS - 1], 1);
  }
  start = clock64() - start;
  __syncthreads();
  for (int i = threadIdx.x; i < BINS; i += blockDim.x) if (own[i]) atomicAdd(counts + i, own[i]);
  if (threadIdx.x == 0) cycles[blockIdx.x] = start;
  if (x == 0xffffffffu) sink[0] = x;
}

int main() {
  size_t entries = (size_t)1 << 30;
  unsigned *array, *counts, *sink; long long *cycles;
  cudaMalloc(&array, entries * 4); cudaMalloc(&counts, BINS * 4); cudaMalloc(&sink, 4); cudaMalloc(&cycles, 8 * 264);
  printf("{\"bin_cycles\": %d, \"samples\": [", WIDTH);
  for (int warps : {1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64}) {
    int per_sm = warps > 32 ? 2 : 1, threads = warps / per_sm * 32, blocks = 132 * per_sm, rounds = 400;
    unsigned section = (unsigned)(entries / blocks) / 32 * 32;
    for (int repetition = 0; repetition < 2; repetition++) {  // the second counts
      fill<<<8192, 256>>>(array, entries, threads);
      cudaMemset(counts, 0, BINS * 4);
      chase<<<blocks, threads>>>(array, section, rounds, counts, cycles, sink, 0);
    }
    std::vector<unsigned> found(BINS); std::vector<long long> spent(blocks);
    cudaMemcpy(found.data(), counts, BINS * 4, cudaMemcpyDeviceToHost);
    if (cudaMemcpy(spent.data(), cycles, 8 * blocks, cudaMemcpyDeviceToHost)) fprintf(stderr, "failed\n");
    double mean = 0;
    for (long long c : spent) mean += (double)c / blocks;
    printf("%s\n{\"warps_per_sm\": %d, \"loads_per_cycle_per_sm\": %.6f, \"counts\": [", warps == 1 ? "" : ",", warps, warps * rounds / mean);
    for (int i = 0; i < BINS; i++) printf("%s%u", i ? "," : "", found[i]);
    printf("]}");
  }
  printf("\n]}\n");
}
