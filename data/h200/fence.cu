// What a fence costs a warp: cycles of a trip with a store and a fence of the device or of the block, and with neither.
//   nvcc -O3 -arch=sm_90 -o fence data/h200/fence.cu && ./fence > fence.json
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
typedef unsigned long long u64;
enum { NOTHING, STORE, FENCE, STORE_FENCE, STORE_FENCE_BLOCK, STORES8_FENCE, LOAD_FENCE, ATOMIC, STORE_FENCE_ATOMIC, KINDS };
static const char *names[] = {"nothing", "store", "fence", "store_fence", "store_fence_block", "stores8_fence", "load_fence", "atomic", "store_fence_atomic"};
template <int KIND> __global__ void trips(unsigned *data, u64 *out, int count) {
  unsigned *mine = data + (size_t)(blockIdx.x * blockDim.x + threadIdx.x) * 32, sum = 0;
  __syncthreads();
  u64 begin = clock64();
#pragma unroll 1
  for (int t = 0; t < count; t++) {
    if (KIND == STORE || KIND == STORE_FENCE || KIND == STORE_FENCE_BLOCK || KIND == STORE_FENCE_ATOMIC) *(volatile unsigned *)mine = t;
    if (KIND == STORES8_FENCE) for (int k = 0; k < 8; k++) ((volatile unsigned *)mine)[4 * k] = t;
    if (KIND == LOAD_FENCE) sum += *(volatile unsigned *)mine;
    if (KIND == FENCE || KIND == STORE_FENCE || KIND == STORES8_FENCE || KIND == LOAD_FENCE || KIND == STORE_FENCE_ATOMIC) __threadfence();
    if (KIND == STORE_FENCE_BLOCK) __threadfence_block();
    if ((KIND == ATOMIC || KIND == STORE_FENCE_ATOMIC) && threadIdx.x % 32 == 0) sum += atomicAdd(data + (1 << 26) + blockIdx.x * 32, 1);
    if (sum == 0x12345678) break;
  }
  u64 end = clock64();
  if (threadIdx.x % 32 == 0) out[blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32] = end - begin;
  if (sum == 0x12345678) out[0] = 0;
}
static int first = 1;
template <int KIND> void run(unsigned *data, u64 *out, int blocks, int threads) {
  double best[2] = {1e30, 1e30};
  for (int r = 0; r < 3; r++) for (int h = 0; h < 2; h++) {
    trips<KIND><<<blocks, threads>>>(data, out, 200 << h); CHECK(cudaDeviceSynchronize());
    std::vector<u64> t(blocks * threads / 32); CHECK(cudaMemcpy(t.data(), out, t.size() * 8, cudaMemcpyDeviceToHost));
    double mean = 0; for (u64 c : t) mean += (double)c / t.size();
    best[h] = std::min(best[h], mean);
  }
  printf("%s\n{\"kind\": \"%s\", \"blocks\": %d, \"threads\": %d, \"cycles_per_trip\": %.2f}", first ? "" : ",", names[KIND], blocks, threads, (best[1] - best[0]) / 200);
  first = 0;
}
template <int KIND> void all(unsigned *data, u64 *out) {
  for (int blocks : {1, 132}) for (int threads : {32, 256, 1024}) run<KIND>(data, out, blocks, threads);
}
int main() {
  unsigned *data; u64 *out; CHECK(cudaMalloc(&data, 1ull << 29)); CHECK(cudaMemset(data, 0, 1ull << 29)); CHECK(cudaMalloc(&out, 1 << 22));
  printf("{\"points\": [");
  all<NOTHING>(data, out); all<STORE>(data, out); all<FENCE>(data, out); all<STORE_FENCE>(data, out); all<STORE_FENCE_BLOCK>(data, out);
  all<STORES8_FENCE>(data, out); all<LOAD_FENCE>(data, out); all<ATOMIC>(data, out); all<STORE_FENCE_ATOMIC>(data, out);
  printf("\n]}\n");
}
