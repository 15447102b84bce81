// How L1 joins stores that fill a sector in parts: sectors that reach L2, and times. Run as it is, and under ncu.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

__device__ __forceinline__ void put(float *p, float v) { asm volatile("st.global.f32 [%0], %1;" ::"l"(p), "f"(v) : "memory"); }

// A thread owns S neighbouring words and stores K of them, one after the other, GAP dependent operations apart.
template <int S, int K, int GAP> __global__ void in_a_row(float *out, float v) {
  extern __shared__ float unused[];
  long t = (long)blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll
  for (int k = 0; k < K; ++k) {
#pragma unroll
    for (int g = 0; g < GAP; ++g) v = fmaf(v, v, 1.0f);
    put(out + t * S + k, v);
  }
}

// As in_a_row, but the warp stores its rows of 32 S words for R turns: other sectors come in between.
template <int S, int R> __global__ void turns(float *out, float v) {
  long warp = ((long)blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < S; ++k)
#pragma unroll
    for (int r = 0; r < R; ++r) put(out + ((warp * R + r) * 32 + lane) * S + k, v);
}

// The W warps of a block fill the same sectors, a word of each group of W.
template <int W> __global__ void across(float *out, float v) {
  long lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int r = 0; r < 8; ++r) put(out + (((long)blockIdx.x * 8 + r) * 32 + lane) * W + warp, v);
}

// The same words K times.
template <int K> __global__ void again(float *out, float v) {
  long t = (long)blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll
  for (int k = 0; k < K; ++k) put(out + t, v + k);
}

// A row that begins one word behind a sector's start: each warp's first and last sectors are shared with its neighbours.
template <int SHIFT> __global__ void shifted(float *out, float v) {
  put(out + (long)blockIdx.x * blockDim.x + threadIdx.x + SHIFT, v);
}

int main() {
  const long words = 64l << 20;
  float *out;
  if (cudaMalloc(&out, 4 * words + 4096)) return 1;
  cudaEvent_t a, b;
  cudaEventCreate(&a), cudaEventCreate(&b);
  struct Case { std::string name; long words_stored; std::function<void()> run; };
  std::vector<Case> cases;
  auto grid = [&](long per_block) { return (unsigned)(words / per_block); };
#define ROW(S, K, GAP, BLOCK, SHARED) \
  cases.push_back({"in_a_row S=" #S " K=" #K " GAP=" #GAP " block=" #BLOCK " shared=" #SHARED, words / S * K, [=] { \
    cudaFuncSetAttribute(in_a_row<S, K, GAP>, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED); \
    in_a_row<S, K, GAP><<<grid(S * BLOCK), BLOCK, SHARED>>>(out, 0.5f); }});
  ROW(1, 1, 0, 256, 0) ROW(2, 1, 0, 256, 0) ROW(2, 2, 0, 256, 0) ROW(4, 1, 0, 256, 0) ROW(4, 2, 0, 256, 0) ROW(4, 4, 0, 256, 0)
  ROW(8, 1, 0, 256, 0) ROW(8, 4, 0, 256, 0) ROW(8, 8, 0, 256, 0) ROW(16, 16, 0, 256, 0)
  ROW(4, 4, 4, 256, 0) ROW(4, 4, 16, 256, 0) ROW(4, 4, 64, 256, 0) ROW(4, 4, 256, 256, 0)
  ROW(4, 4, 0, 32, 0) ROW(4, 4, 0, 32, 200000) ROW(4, 4, 0, 256, 200000) ROW(4, 4, 16, 32, 200000) ROW(4, 4, 64, 32, 200000)
  ROW(4, 4, 256, 32, 200000) ROW(2, 2, 0, 32, 200000) ROW(8, 8, 0, 32, 200000)
#define TURNS(S, R) cases.push_back({"turns S=" #S " R=" #R, words, [=] { turns<S, R><<<grid(S * R * 256), 256>>>(out, 0.5f); }});
  TURNS(4, 2) TURNS(4, 4) TURNS(4, 8)
#define ACROSS(W) cases.push_back({"across W=" #W, words, [=] { across<W><<<grid(W * 256), W * 32>>>(out, 0.5f); }});
  ACROSS(2) ACROSS(4) ACROSS(8)
#define AGAIN(K) cases.push_back({"again K=" #K, words * K, [=] { again<K><<<grid(256), 256>>>(out, 0.5f); }});
  AGAIN(2) AGAIN(4)
#define SHIFTED(S) cases.push_back({"shifted " #S, words, [=] { shifted<S><<<grid(256), 256>>>(out, 0.5f); }});
  SHIFTED(1) SHIFTED(4)
  bool once = getenv("ONCE") != nullptr;
  for (auto &c : cases) {
    float best = 1e9f, ms;
    for (int i = 0; i < (once ? 1 : 7); ++i) {
      cudaEventRecord(a), c.run(), cudaEventRecord(b);
      cudaError_t e = cudaEventSynchronize(b);
      if (e == cudaSuccess) e = cudaGetLastError();
      if (e) { printf("%s: %s\n", c.name.c_str(), cudaGetErrorString(e)); return 1; }
      cudaEventElapsedTime(&ms, a, b);
      if (ms < best) best = ms;
    }
    printf("%s | %ld words stored | %.2f us\n", c.name.c_str(), c.words_stored, 1e3 * best);
  }
}
