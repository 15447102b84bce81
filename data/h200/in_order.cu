// Whether a load that hits in L1 waits for loads of other warps that miss: chains of hits beside streams of misses.
//   nvcc -O3 -arch=sm_90 -o in_order data/h200/in_order.cu && ./in_order > in_order.json
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
typedef unsigned u32;
typedef unsigned long long u64;
// The first `hitters` warps follow a chain within a line (or in shared memory); the others load from `data`, a line each time, `each` loads in flight.
template <int EACH, int SHARED> __global__ void __launch_bounds__(1024) beside(const u32 *small, const u32 *data, u64 *out, int hitters, int trips, u32 mask, int lines) {
  __shared__ u32 chain[32];
  __shared__ volatile int done;
  u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, sum = 0;
  if (threadIdx.x < 32) chain[threadIdx.x] = (u32)__cvta_generic_to_shared(chain) + 4 * threadIdx.x;
  if (threadIdx.x == 0) done = 0;
  const u32 *mine = small + lane;
  u32 x = 0;
  for (int i = 0; i < 64; i++) asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(x) : "l"(mine + x));
  __syncthreads();
  u64 begin = clock64();
  u64 count = 0;
  if ((int)warp < hitters) {
    u32 s = (u32)__cvta_generic_to_shared(chain) + 4 * lane;
#pragma unroll 1
    for (int t = 0; t < trips; t++)
#pragma unroll
      for (int u = 0; u < 8; u++)
        if (SHARED) asm volatile("ld.volatile.shared.u32 %0, [%0];" : "+r"(s));
        else asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(x) : "l"(mine + x) : "memory");
    count = (u64)trips * 8;
    sum = x + s;
    if (lane == 0) done = done + 1;
  } else {
    u32 at = (blockIdx.x * 32 + warp) * 65536;
#pragma unroll 1
    for (int t = 0; done < hitters && t < 100000; t++) {
      u32 v[EACH];
#pragma unroll
      for (int u = 0; u < EACH; u++)
        asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(v[u]) : "l"(data + ((at + (u32)(t * EACH + u) * 32 * lines + lane * lines) & mask)));
#pragma unroll
      for (int u = 0; u < EACH; u++) sum += v[u];
      count += EACH;
    }
  }
  u64 end = clock64();
  if (lane == 0) out[2 * (blockIdx.x * 32 + warp)] = end - begin, out[2 * (blockIdx.x * 32 + warp) + 1] = count;
  if (sum == 0x12345678) out[0] = 0;
}
static u32 *small, *data;
static u64 *out;
static int first = 1;
template <int EACH, int SHARED> void run(int hitters, int missers, u32 words, int lines, int blocks) {
  for (int r = 0; r < 2; r++) { beside<EACH, SHARED><<<blocks, 32 * (hitters + missers)>>>(small, data, out, hitters, 400, words - 1, lines); CHECK(cudaDeviceSynchronize()); }
  std::vector<u64> t(2 * blocks * 32);
  CHECK(cudaMemcpy(t.data(), out, t.size() * 8, cudaMemcpyDeviceToHost));
  double hit = 0, miss = 0, hits = 0, misses = 0;
  for (int b = 0; b < blocks; b++) for (int w = 0; w < hitters + missers; w++) {
    double c = (double)t[2 * (b * 32 + w)], n = (double)t[2 * (b * 32 + w) + 1];
    if (w < hitters) hit += c, hits += n; else miss += c, misses += n;
  }
  printf("%s\n{\"chain\": \"%s\", \"hitters\": %d, \"missers\": %d, \"loads_each\": %d, \"lines\": %d, \"footprint\": %llu, \"blocks\": %d, \"hit_cycles\": %.2f, \"miss_cycles_each\": %.2f, \"misses_per_cycle\": %.4f}",
         first ? "" : ",", SHARED ? "shared" : "l1", hitters, missers, EACH, lines, 4ull * words, blocks, hit / hits, misses ? miss / misses * 1.0 : 0.0,
         hit ? misses / (hit / hitters) : 0.0);
  first = 0;
}
int main() {
  CHECK(cudaMalloc(&small, 4096)); CHECK(cudaMemset(small, 0, 4096));
  CHECK(cudaMalloc(&data, 1ull << 32)); CHECK(cudaMemset(data, 0, 1ull << 32));
  CHECK(cudaMalloc(&out, 1 << 22));
  printf("{\"points\": [");
  for (u32 words : {4u << 20, 1u << 30}) for (int blocks : {1, 132}) for (int lines : {1, 8}) for (int missers : {0, 1, 2, 4, 8, 16, 24}) {
    run<1, 0>(1, missers, words, lines, blocks); run<4, 0>(1, missers, words, lines, blocks); run<4, 0>(8, missers, words, lines, blocks); run<4, 1>(1, missers, words, lines, blocks);
  }
  printf("\n]}\n");
}
