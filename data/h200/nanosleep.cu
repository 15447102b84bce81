// What __nanosleep(t) takes: ten in a row, in one warp or 32 of an SM, on one SM or all; cycles of a warp by its clock.
// nvcc -O3 -arch=sm_90 -o nanosleep data/h200/nanosleep.cu && ./nanosleep > data/h200/nanosleep.json
#include <cstdio>
#include <cuda_runtime.h>
const int SLEEPS = 10;
__global__ void sleeps(unsigned t, long long *cycles) {
  long long start = clock64();
#pragma unroll 1
  for (int i = 0; i < SLEEPS; i++) __nanosleep(t);
  if (threadIdx.x % 32 == 0) cycles[(blockIdx.x * blockDim.x + threadIdx.x) / 32] = clock64() - start;
}
int main() {
  static long long host[132 * 32];
  long long *cycles;
  cudaMalloc(&cycles, sizeof host);
  cudaDeviceProp gpu;
  cudaGetDeviceProperties(&gpu, 0);
  printf("{\"gpu\": \"%s\", \"sleeps\": %d, \"points\": [", gpu.name, SLEEPS);
  const char *comma = "\n";
  for (unsigned t : {0u, 20u, 50u, 100u, 200u, 500u, 1000u, 2000u, 5000u, 10000u, 100000u, 1000000u, 4000000u})
    for (int blocks : {1, 132})
      for (int threads : {32, 1024}) {
        for (int again = 0; again < 2; again++) sleeps<<<blocks, threads>>>(t, cycles);
        int warps = blocks * threads / 32;
        cudaMemcpy(host, cycles, 8 * warps, cudaMemcpyDeviceToHost);
        double sum = 0, low = 1e18, high = 0;
        for (int i = 0; i < warps; i++) {
          double each = host[i] / (double)SLEEPS;
          sum += each, low = each < low ? each : low, high = each > high ? each : high;
        }
        printf("%s{\"asked_ns\": %u, \"blocks\": %d, \"threads\": %d, \"mean_cycles\": %.1f, \"min_cycles\": %.1f, "
               "\"max_cycles\": %.1f}", comma, t, blocks, threads, sum / warps, low, high);
        comma = ",\n";
      }
  printf("\n]}\n");
}
