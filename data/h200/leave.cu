// What of a block is free for the next one when some of its warps have ended: resident blocks and the time of a round.
//   nvcc -O3 -arch=sm_90 -o leave data/h200/leave.cu && ./leave > leave.json
// leave: `warps` per block, of which `stay` wait for SPIN cycles and the others end at once, or one after the other (`apart`
// cycles); `registers` per thread, 0: few.
// tail:  each thread loads a word, the block meets, then its first warp alone waits for `spin` cycles.
// last:  one warp per block; what it does at its end (nothing, a store, a load that nobody waits for, both).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
typedef unsigned u32;
typedef long long i64;
constexpr int SMS = 132, SPIN = 20000;

__device__ __forceinline__ void wait(i64 cycles) { i64 start = clock64(); while (clock64() - start < cycles) { } }

template <int LIVE> __global__ void __launch_bounds__(LIVE > 32 ? 256 : 1024) leave(int stay, int apart, i64 *stamps) {
  int warp = threadIdx.x / 32;
  u32 live[LIVE];
#pragma unroll
  for (int k = 0; k < LIVE; k++) asm volatile("mov.u32 %0, %%clock;" : "=r"(live[k]));
  i64 start = clock64();
  if (warp >= stay) { if (apart) wait((i64)(blockDim.x / 32 - warp) * apart); return; }
  wait(SPIN);
  if (apart < 0) // never: but they must be kept
#pragma unroll
    for (int k = 0; k < LIVE; k++) stamps[k * blockDim.x + threadIdx.x] = live[k];
  u32 sm; asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x == 0) { i64 *row = stamps + 3 * blockIdx.x; row[0] = sm; row[1] = start; row[2] = clock64(); }
}

__global__ void __launch_bounds__(1024) tail(const float *in, float *out, int spin, int stay) {
  float x = __ldg(in + (size_t)blockIdx.x * blockDim.x + threadIdx.x);
  if (x == 1.5f) out[threadIdx.x] = x;
  __syncthreads();
  if (threadIdx.x / 32 >= stay) return;
  if (spin) wait(spin);
  if (threadIdx.x == 0) out[blockIdx.x] = x;
}

__global__ void last(const float *in, float *out, int spin, int what) {
  wait(spin);
  size_t at = (size_t)blockIdx.x * 4096 + threadIdx.x;
  if (what & 1) out[at] = 1;
  if (what & 2) asm volatile("{ .reg .f32 x; ld.volatile.global.f32 x, [%0]; }" :: "l"(in + at));
}

template <class F> static float best(F launch) {
  cudaEvent_t a, b; CHECK(cudaEventCreate(&a)); CHECK(cudaEventCreate(&b));
  float least = 1e30f;
  for (int k = 0; k < 7; k++) {
    CHECK(cudaEventRecord(a)); launch(); CHECK(cudaEventRecord(b)); CHECK(cudaEventSynchronize(b));
    float ms; CHECK(cudaEventElapsedTime(&ms, a, b)); least = std::min(least, ms);
  }
  CHECK(cudaGetLastError());
  return 1e3f * least;
}

// The most blocks at once on an SM, their mean, and the mean time from an end to the next beginning once the SM is full.
static void resident(int warps, int stay, int shared, int registers, int apart, const std::vector<i64> &stamps) {
  int most = 0; double mean = 0, gap = 0; i64 gaps = 0, used = 0;
  for (int sm = 0; sm < SMS; sm++) {
    std::vector<std::pair<i64, int>> events; double held = 0; i64 first = 1LL << 62, end = 0;
    for (size_t b = 0; b < stamps.size() / 3; b++) if (stamps[3 * b] == sm) {
      events.push_back({stamps[3 * b + 1], 1}); events.push_back({stamps[3 * b + 2], -1});
      held += stamps[3 * b + 2] - stamps[3 * b + 1]; first = std::min(first, stamps[3 * b + 1]); end = std::max(end, stamps[3 * b + 2]);
    }
    std::sort(events.begin(), events.end());
    std::vector<i64> ended; size_t k = 0; int now = 0;
    for (auto &e : events) {
      now += e.second; most = std::max(most, now);
      if (e.second < 0) ended.push_back(e.first);
      else if (k < ended.size()) { gap += e.first - ended[k++]; gaps++; }
    }
    if (end > first) { mean += held / (end - first); used++; }
  }
  printf("{\"warps\": %d, \"stay\": %d, \"shared\": %d, \"registers\": %d, \"apart\": %d, \"most\": %d, \"mean\": %.3f, \"gap\": %.1f}",
         warps, stay, shared, registers, apart, most, mean / used, gaps ? gap / gaps : -1.0);
}

int main() {
  const int blocks = SMS * 128;
  i64 *stamps; CHECK(cudaMalloc(&stamps, 3 * sizeof(i64) * blocks));
  std::vector<i64> host(3 * blocks);
  auto run = [&](auto kernel, int registers, int warps, int stay, int shared, int apart, bool comma) {
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
    for (int k = 0; k < 2; k++) kernel<<<blocks, 32 * warps, shared>>>(stay, apart, stamps);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(host.data(), stamps, 3 * sizeof(i64) * blocks, cudaMemcpyDeviceToHost));
    if (comma) printf(",\n");
    resident(warps, stay, shared, registers, apart, host);
  };
  printf("{\"gpu\": \"NVIDIA H200\", \"command\": \"leave\", \"spin\": %d,\n\"resident\": [\n", SPIN);
  run(leave<1>, 0, 1, 1, 0, 0, false);
  for (int warps : {2, 4, 8, 16, 32}) for (int stay : {1, warps / 2, warps}) run(leave<1>, 0, warps, stay, 0, 0, true);
  for (int apart : {500, 2000}) run(leave<1>, 0, 8, 1, 0, apart, true);
  for (int stay : {1, 8}) run(leave<1>, 0, 8, stay, 24 << 10, 0, true);   // shared memory: 9 blocks
  for (int stay : {1, 8}) run(leave<1>, 0, 8, stay, 12 << 10, 0, true);   // 17 blocks
  for (int stay : {1, 8}) run(leave<52>, 64, 8, stay, 0, 0, true);          // registers: 4 blocks
  for (int stay : {1, 4, 8}) run(leave<112>, 128, 8, stay, 0, 0, true);     // 2 blocks
  printf("],\n\"tail\": [\n");
  const int words = 1 << 24;
  float *in, *out; CHECK(cudaMalloc(&in, (size_t)4 << 28)); CHECK(cudaMalloc(&out, (size_t)4 << 28)); CHECK(cudaMemset(in, 0, (size_t)4 << 28));
  bool comma = false;
  for (int threads : {256, 512, 1024}) for (int stay : {1, threads / 32}) for (int spin : {0, 250, 500, 1000, 2000, 4000}) {
    float one = best([&] { tail<<<words / threads, threads>>>(in, out, spin, stay); });
    float two = best([&] { tail<<<2 * words / threads, threads>>>(in, out, spin, stay); });
    printf("%s{\"threads\": %d, \"stay\": %d, \"spin\": %d, \"words\": %d, \"us\": %.3f, \"us_twice\": %.3f}", comma ? ",\n" : "", threads, stay, spin, words, one, two);
    comma = true;
  }
  printf("],\n\"last\": [\n");
  comma = false;
  for (int warps : {1, 4}) for (int spin : {0, 1000, 4000}) for (int what = 0; what < 4; what++) {
    const int grid = SMS * 256;
    float one = best([&] { last<<<grid, 32 * warps>>>(in, out, spin, what); });
    float two = best([&] { last<<<2 * grid, 32 * warps>>>(in, out, spin, what); });
    printf("%s{\"warps\": %d, \"spin\": %d, \"store\": %d, \"load\": %d, \"grid\": %d, \"us\": %.3f, \"us_twice\": %.3f}", comma ? ",\n" : "", warps, spin, what & 1, what >> 1, grid, one, two);
    comma = true;
  }
  puts("]}");
}
