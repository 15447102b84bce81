// What L1 still has of lines that a warp has just loaded: each warp loads LINES lines, uses them all, then touches them again.
//   nvcc -arch=sm_90 -O3 -o again again.cu && ncu --metrics M --csv ./again
// Kinds: 0 stores to them, 1 loads them again (an address that depends on what was loaded), 2 the lines of the warp before it in the block, after a barrier.
// ROUNDS: how often a warp does so, each time with other lines.
#include <cstdio>
template <int KIND, int LINES>
__global__ void again(float *a, float *out, int rounds) {
  int lane = threadIdx.x & 31, warps = blockDim.x >> 5, in_block = threadIdx.x >> 5;
  float sum = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    size_t group = (size_t)(r * gridDim.x + blockIdx.x) * warps;
    float *mine = a + (group + in_block) * LINES * 32 + lane, v[LINES], all = 0;
#pragma unroll
    for (int k = 0; k < LINES; k++) v[k] = mine[32 * k];
#pragma unroll
    for (int k = 0; k < LINES; k++) all += v[k];
    int later = all == 12345.0f;  // 0, but nobody knows before all are there
    if (KIND == 2) __syncthreads();
    float *there = a + (group + (KIND == 2 ? (in_block + 1) % warps : in_block)) * LINES * 32 + lane + later;
#pragma unroll
    for (int k = 0; k < LINES; k++) {
      if (KIND == 0) there[32 * k] = v[k] + 1.0f;
      else { float u; asm volatile("ld.global.f32 %0, [%1];" : "=f"(u) : "l"(there + 32 * k)); sum += u; }
    }
  }
  if (sum == 12345.0f) out[0] = sum;
}
#define RUN(K, L, WARPS, PER_SM, ROUNDS) \
  again<K, L><<<132 * PER_SM, 32 * WARPS>>>(a, b, ROUNDS), cudaDeviceSynchronize(), \
      printf("kind %d lines %d warps %d per_sm %d rounds %d\n", K, L, WARPS, PER_SM, ROUNDS);
#define OCCUPANCIES(K, L) RUN(K, L, 1, 1, 64) RUN(K, L, 4, 1, 32) RUN(K, L, 8, 1, 16) RUN(K, L, 8, 2, 16) RUN(K, L, 8, 4, 16) RUN(K, L, 8, 8, 16) RUN(K, L, 8, 64, 1) RUN(K, L, 32, 2, 16)
int main() {
  float *a, *b;
  cudaMalloc(&a, 2ull << 30), cudaMalloc(&b, 4096), cudaMemset(a, 0, 2ull << 30);
  OCCUPANCIES(0, 1) OCCUPANCIES(0, 2) OCCUPANCIES(0, 4) OCCUPANCIES(0, 8)
  OCCUPANCIES(1, 1) OCCUPANCIES(1, 2) OCCUPANCIES(1, 4) OCCUPANCIES(1, 8)
  OCCUPANCIES(2, 2) OCCUPANCIES(2, 8)
  puts(cudaGetErrorString(cudaGetLastError()));
}
