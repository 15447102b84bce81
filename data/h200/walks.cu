// What L1 finds where each thread walks along a row of its own, word by word: AT_ONCE words are asked for, then waited for.
//   nvcc -arch=sm_90 -O3 -o walks walks.cu && ncu --metrics M --csv ./walks
// Kinds: 0 rows `pitch` words apart, 1 rows anywhere, 2 the warps of an SM walk along the same rows.
#include <cstdio>
template <int KIND, int AT_ONCE>
__global__ void walk(const float *a, float *out, int words, int pitch, int rows) {
  unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  if (KIND == 1) t = t * 2654435761u >> 8;
  if (KIND == 2) t = blockIdx.x % 132 * 32 + (threadIdx.x & 31);
  const float *row = a + (size_t)(t % rows) * pitch;
  float sum = 0;
#pragma unroll 1
  for (int j = 0; j < words; j += AT_ONCE) {
    float v[AT_ONCE];
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) asm volatile("ld.global.f32 %0, [%1];" : "=f"(v[k]) : "l"(row + j + k));
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) sum += v[k];
    row += sum == 12345.0f;  // never, but nobody knows before all are there
  }
  if (sum == 12345.0f) out[0] = sum;
}
#define RUN(K, N, WARPS, PER_SM, WORDS, PITCH) \
  walk<K, N><<<132 * PER_SM, 32 * WARPS>>>(a, b, WORDS, PITCH, (1 << 28) / PITCH - 1), cudaDeviceSynchronize(), \
      printf("kind %d at_once %d warps %d per_sm %d words %d pitch %d\n", K, N, WARPS, PER_SM, WORDS, PITCH);
#define OCCUPANCIES(K, N, WORDS, PITCH) RUN(K, N, 1, 1, WORDS, PITCH) RUN(K, N, 8, 1, WORDS, PITCH) RUN(K, N, 8, 2, WORDS, PITCH) RUN(K, N, 8, 4, WORDS, PITCH) RUN(K, N, 8, 6, WORDS, PITCH) RUN(K, N, 8, 8, WORDS, PITCH) RUN(K, N, 8, 32, WORDS, PITCH)
int main() {
  float *a, *b;
  cudaMalloc(&a, 1ull << 30), cudaMalloc(&b, 4096), cudaMemset(a, 0, 1ull << 30);
  OCCUPANCIES(0, 1, 32, 32) OCCUPANCIES(0, 4, 32, 32) OCCUPANCIES(0, 8, 32, 32) OCCUPANCIES(0, 1, 64, 64) OCCUPANCIES(0, 1, 64, 992) OCCUPANCIES(0, 1, 16, 16)
  OCCUPANCIES(1, 1, 8, 32) OCCUPANCIES(1, 1, 32, 32) OCCUPANCIES(1, 4, 32, 32) OCCUPANCIES(1, 8, 32, 32)
  OCCUPANCIES(2, 1, 32, 32) OCCUPANCIES(2, 4, 32, 32)
  puts(cudaGetErrorString(cudaGetLastError()));
}
