// Halves of lines (64 bytes) whose other halves other blocks touch, so many blocks later: what DRAM takes for them.
//   nvcc -O3 -arch=sm_90 -o halves data/h200/halves.cu && ./halves
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
typedef unsigned long long u64;

// A block touches the same half of 256 lines: those of a place in 256 rows that are `wide` lines long (1: in a row, one
// after the other). Blocks b and b + later touch the two halves of the same lines. `mixed`: places in no order.
__device__ __forceinline__ u64 place_of(unsigned later, unsigned wide, unsigned mixed, unsigned places, u64 *half) {
  unsigned b = blockIdx.x, within = b % (2 * later), place = b / (2 * later) * later + within % later;
  *half = within / later;
  if (mixed) place = (unsigned)((u64)place * 2654435761u % places);  // places: a power of two; the factor is odd
  return (u64)(place / wide) * 256 * wide + place % wide;            // the first line
}
// 256 threads: 16 lines at a time, a word each; 16 times. KIND 0: load, 1: store, 2: copy.
template <int KIND> __global__ void __launch_bounds__(256)
halves(const float *in, float *out, unsigned later, unsigned wide, unsigned mixed, unsigned places) {
  u64 half, line = place_of(later, wide, mixed, places, &half);
  u64 first = (line + (u64)(threadIdx.x / 16) * wide) * 32 + half * 16 + threadIdx.x % 16;
  float v[16], sum = 0;
#pragma unroll
  for (int k = 0; k < 16; k++) v[k] = KIND == 1 ? 1.0f : in[first + (u64)k * 16 * wide * 32];
#pragma unroll
  for (int k = 0; k < 16; k++) sum += v[k];
#pragma unroll
  for (int k = 0; k < 16; k++) if (KIND) out[first + (u64)k * 16 * wide * 32] = v[k];
  if (!KIND && sum == 12345.0f) out[0] = sum;
}
// The same bytes as whole lines, by as many blocks: each touches 128 lines.
template <int KIND> __global__ void __launch_bounds__(256) lines(const float *in, float *out, unsigned wide) {
  u64 line = (u64)(blockIdx.x / wide) * 128 * wide + blockIdx.x % wide, first = (line + (u64)(threadIdx.x / 32) * wide) * 32 + threadIdx.x % 32;
  float v[16], sum = 0;
#pragma unroll
  for (int k = 0; k < 16; k++) v[k] = KIND == 1 ? 1.0f : in[first + (u64)k * 8 * wide * 32];
#pragma unroll
  for (int k = 0; k < 16; k++) sum += v[k];
#pragma unroll
  for (int k = 0; k < 16; k++) if (KIND) out[first + (u64)k * 8 * wide * 32] = v[k];
  if (!KIND && sum == 12345.0f) out[0] = sum;
}
static int printed = 0;
template <int KIND> void run(const float *in, float *out, unsigned later, unsigned wide, unsigned mixed) {
  cudaEvent_t a, b; CHECK(cudaEventCreate(&a)); CHECK(cudaEventCreate(&b));
  float ms[2][5];
  for (int h = 0; h < 2; h++) for (int r = 0; r < 6; r++) {
    unsigned blocks = 32768u << h;  // of 16 KB each
    CHECK(cudaEventRecord(a));
    if (later) halves<KIND><<<blocks, 256>>>(in, out, std::min(later, blocks / 2), wide, mixed, blocks / 2);
    else lines<KIND><<<blocks, 256>>>(in, out, wide);
    CHECK(cudaEventRecord(b)); CHECK(cudaEventSynchronize(b));
    float t; CHECK(cudaEventElapsedTime(&t, a, b)); if (r) ms[h][r - 1] = t;
  }
  for (int h = 0; h < 2; h++) std::sort(ms[h], ms[h] + 5);
  double bytes = 32768.0 * 16384 * (KIND == 2 ? 2 : 1);  // of the 2N blocks less N
  printf("%s{\"kind\": \"%s\", \"later_blocks\": %u, \"row_lines\": %u, \"mixed\": %u, \"us\": [%.2f, %.2f], \"tb_per_s\": %.3f}", printed++ ? ",\n" : "\n",
         KIND == 0 ? "load" : KIND == 1 ? "store" : "copy", later, wide, mixed, 1e3 * ms[0][2], 1e3 * ms[1][2], bytes / (ms[1][2] - ms[0][2]) * 1e-9);
}
int main() {
  float *in, *out; u64 bytes = 1ull << 30;
  CHECK(cudaMalloc(&in, bytes)); CHECK(cudaMalloc(&out, bytes)); CHECK(cudaMemset(in, 0, bytes)); CHECK(cudaMemset(out, 0, bytes));
  printf("{\"gpu\": \"NVIDIA H200\", \"points\": [");
  for (unsigned wide : {1u, 128u}) for (unsigned mixed : {0u, 1u})  // 0 later: whole lines
    for (unsigned later : {0u, 1u, 2u, 8u, 32u, 128u, 512u, 1024u, 2048u, 4096u, 8192u, 65536u}) {
      if (!later && mixed) continue;
      run<0>(in, out, later, wide, mixed); run<1>(in, out, later, wide, mixed); run<2>(in, out, later, wide, mixed);
    }
  printf("\n]}\n");
}
