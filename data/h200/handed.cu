// Three questions of how work begins and meets, each by its own loop.
//   handed:  blocks that multiply for a while, by their number and length: is the time in which the first blocks are handed out added to
//            that of the work, or does work go on meanwhile? Microseconds between two events.
//   barrier: turns of K reads of shared memory (or K multiply-adds) and a barrier, or none: what a barrier takes of the data path and of the
//            issue slots. Cycles of an SM per turn of a warp.
//   walk:    every block walks along the same lines, a step at a time, each behind a barrier; the lines in L2, or only in DRAM. Cycles per step.
//   nvcc -O3 -arch=sm_90 -o handed data/h200/handed.cu && ./handed > handed.json   (kept as handed.json.gz)
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
typedef unsigned u32;
typedef unsigned long long u64;
static int printed = 0;
static cudaEvent_t from, to;
__global__ void delay(long long ns) { u64 a, b; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(a)); do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(b)); } while (b - a < ns); }
__global__ void read(const float4 *p, float *q, int n) {
  float x = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x += p[i].x + p[i].w;
  if (x == 1.5f) *q = x;
}
template <typename F> double timed(F f, int repeats = 21) {
  std::vector<float> all;
  for (int i = 0; i < repeats; i++) {
    delay<<<1, 1>>>(100000);
    CHECK(cudaEventRecord(from)); f(); CHECK(cudaEventRecord(to)); CHECK(cudaEventSynchronize(to));
    float ms; CHECK(cudaEventElapsedTime(&ms, from, to)); if (i) all.push_back(ms * 1e3f);
  }
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}
static const char *comma() { return printed++ ? ",\n" : "\n"; }

__global__ void multiply(float *p, float a, int n) {
  float x = a, y = a + 1, z = a + 2, w = a + 3;
  for (int i = 0; i < n; i += 16) {
#pragma unroll
    for (int k = 0; k < 4; k++) asm volatile("fma.rn.f32 %0, %0, %4, %4; fma.rn.f32 %1, %1, %4, %4; fma.rn.f32 %2, %2, %4, %4; fma.rn.f32 %3, %3, %4, %4;" : "+f"(x), "+f"(y), "+f"(z), "+f"(w) : "f"(a));
  }
  if (x + y + z + w == 12345.0f) p[threadIdx.x] = x;
}
__global__ void copy(const float *in, float *out, int each) {
  size_t step = (size_t)gridDim.x * blockDim.x, at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = 0; i < each; i++, at += step) out[at] = in[at];
}

__device__ __forceinline__ u32 lds(u32 at) { u32 v; asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v) : "r"(at)); return v; }
// WHAT 0: K reads without conflicts; 1: K reads of 8 words to a bank; 2: K multiply-adds; 3: K stores to shared memory
template <int K, int WHAT, bool BARRIER> __global__ void turns(u64 *out, int n, float a) {
  __shared__ u32 tile[512];
  u32 base = (u32)__cvta_generic_to_shared(tile), lane = threadIdx.x % 32, at = base + (WHAT == 1 ? lane * 32 : lane * 4), sum = 0;
  float x = a, y = a + 1;
  __syncthreads();
  u64 begin = clock64();
#pragma unroll 1
  for (int t = 0; t < n; t++) {
    u32 v[K];
#pragma unroll
    for (int k = 0; k < K; k++) {
      if (WHAT < 2) v[k] = lds(at + 128 * (k % 4));
      if (WHAT == 2) { if (k & 1) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(a)); else asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(y) : "f"(a)); }
      if (WHAT == 3) asm volatile("st.volatile.shared.u32 [%0], %1;" :: "r"(at + 128 * (k % 4)), "r"(t));
    }
    if (WHAT < 2)
#pragma unroll
      for (int k = 0; k < K; k++) sum ^= v[k];
    if (BARRIER) __syncthreads();
  }
  u64 end = clock64();
  u32 sm; asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (lane == 0) { size_t w = (size_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; out[3 * w] = begin; out[3 * w + 1] = end; out[3 * w + 2] = sm; }
  if (sum == 12345 || x + y == 12345.0f) out[0] = 0;
}
static u64 *stamps;
template <int K, int WHAT, bool BARRIER> void one(int warps, int per_sm) {
  double best[2] = {1e30, 1e30};
  for (int r = 0; r < 4; r++) for (int h = 0; h < 2; h++) {
    turns<K, WHAT, BARRIER><<<132 * per_sm, 32 * warps>>>(stamps, 200 << h, 1.0f); CHECK(cudaDeviceSynchronize());
    std::vector<u64> t(3 * 132 * per_sm * warps), low(132, ~0ull), high(132, 0); CHECK(cudaMemcpy(t.data(), stamps, t.size() * 8, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < t.size(); i += 3) low[t[i + 2]] = std::min(low[t[i + 2]], t[i]), high[t[i + 2]] = std::max(high[t[i + 2]], t[i + 1]);
    double sum = 0; for (int i = 0; i < 132; i++) sum += double(high[i] - low[i]);  // from the first start to the last end on each SM
    if (r) best[h] = std::min(best[h], sum / 132);
  }
  printf("%s{\"part\": \"barrier\", \"what\": \"%s\", \"count\": %d, \"barrier\": %d, \"warps\": %d, \"blocks_per_sm\": %d, \"cycles\": %.3f}", comma(),
         WHAT == 0 ? "read" : WHAT == 1 ? "read8" : WHAT == 2 ? "multiply" : "store", K, BARRIER, warps, per_sm, (best[1] - best[0]) / 200 / (warps * per_sm));
}
template <int K, int WHAT> void both() {
  for (int warps : {4, 8, 16, 32}) for (int held : {32, 64}) if (held / warps <= 16) { one<K, WHAT, false>(warps, held / warps); one<K, WHAT, true>(warps, held / warps); }
}

__global__ void walk(const float *in, float *out, u64 *clocks, int steps, int own) {
  __shared__ float kept;
  float sum = 0;
  const float *p = in + (size_t)(own ? blockIdx.x : 0) * steps * blockDim.x + threadIdx.x;
  __syncthreads();
  u64 begin = clock64();
#pragma unroll 1
  for (int i = 0; i < steps; i++) { float v; asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(p + (size_t)i * blockDim.x)); sum += v; if (sum == 12345.0f) kept = sum; __syncthreads(); }
  u64 end = clock64();
  if (threadIdx.x == 0) clocks[blockIdx.x] = end - begin;
  if (sum == 12345.0f) out[0] = sum + kept;
}

int main() {
  CHECK(cudaEventCreate(&from)); CHECK(cudaEventCreate(&to));
  float *in, *out; size_t bytes = 1ull << 30;
  CHECK(cudaMalloc(&in, bytes)); CHECK(cudaMalloc(&out, bytes)); CHECK(cudaMalloc(&stamps, 8 << 20)); CHECK(cudaMemset(in, 0, bytes)); CHECK(cudaMemset(out, 0, bytes));
  printf("{\"gpu\": \"NVIDIA H200\", \"command\": \"./handed\", \"points\": [");
  struct Shape { int blocks, threads; } shapes[] = {{132, 1024}, {264, 1024}, {528, 512}, {1056, 256}, {2112, 128}, {4224, 64}, {4224, 32}};
  for (Shape s : shapes) for (int n : {0, 64, 128, 256, 512, 1024, 2048, 4096}) {
    double us = timed([&] { multiply<<<s.blocks, s.threads>>>(out, 1.0f, n); });
    printf("%s{\"part\": \"handed\", \"what\": \"multiply\", \"blocks\": %d, \"threads\": %d, \"n\": %d, \"us\": %.3f}", comma(), s.blocks, s.threads, n, us);
  }
  for (Shape s : shapes) for (int n : {1, 2, 4, 8, 16}) {
    double us = timed([&] { copy<<<s.blocks, s.threads>>>(in, out, n); });
    printf("%s{\"part\": \"handed\", \"what\": \"copy\", \"blocks\": %d, \"threads\": %d, \"n\": %d, \"us\": %.3f}", comma(), s.blocks, s.threads, n, us);
  }
  both<2, 0>(); both<4, 0>(); both<8, 0>(); both<16, 0>(); both<32, 0>();
  both<4, 1>(); both<16, 1>(); both<16, 2>(); both<4, 3>(); both<16, 3>();
  for (int per_sm : {1, 2, 4, 8}) for (int own : {0, 1}) for (int flushed : {0, 1}) {
    int steps = own ? 32 : 512;
    std::vector<double> all;
    for (int r = 0; r < 7; r++) {
      walk<<<132 * per_sm, 128>>>(in, out, stamps, steps, own); CHECK(cudaDeviceSynchronize());
      if (flushed) read<<<1056, 256>>>((const float4 *)out, out, 1 << 25);
      walk<<<132 * per_sm, 128>>>(in, out, stamps, steps, own); CHECK(cudaDeviceSynchronize());
      std::vector<u64> t(132 * per_sm); CHECK(cudaMemcpy(t.data(), stamps, t.size() * 8, cudaMemcpyDeviceToHost));
      double sum = 0; for (u64 x : t) sum += double(x); if (r) all.push_back(sum / t.size() / steps);
    }
    std::sort(all.begin(), all.end());
    printf("%s{\"part\": \"walk\", \"own\": %d, \"flushed\": %d, \"blocks_per_sm\": %d, \"cycles\": %.1f}", comma(), own, flushed, per_sm, all[all.size() / 2]);
  }
  printf("\n]}\n");
}
