// What a store finds in L1: kinds of stores after loads and stores to the same sectors, to be counted by ncu.
//   nvcc -arch=sm_90 -O3 -o stores stores.cu && ncu --metrics M --csv ./stores
#include <cstdio>
#define N (1 << 22)
template <int KIND, int LINES>
__global__ void stores(unsigned *a, unsigned *b, int wait) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = i & 31, warp = i >> 5;
#pragma unroll 1
  for (int k = 0; k < LINES; k++) {
    volatile unsigned *line = a + (size_t)(warp * LINES + k) * 32;
    unsigned char *bytes = (unsigned char *)line;
    if (KIND == 0) { line[lane] = 1; }                                   // a line once
    if (KIND == 1) { line[lane] = 1; line[lane] = 2; }                   // twice, one after the other
    if (KIND == 2) { line[lane] = 1; line[lane] = 2; line[lane] = 3; line[lane] = 4; }
    if (KIND == 3) { unsigned v = line[lane]; line[lane] = v + 1; }      // after a load
    if (KIND == 4) { line[lane] = 1; __nanosleep(wait); line[lane] = 2; }
    if (KIND == 5) { unsigned v = line[lane]; __nanosleep(wait); line[lane] = v + 1; }
    if (KIND == 6) { for (int j = 0; j < 4; j++) ((volatile unsigned char *)bytes)[4 * lane + j] = j; }  // parts of words
    if (KIND == 7) { line[lane] = 1; unsigned v = line[lane]; if (v == 7) b[0] = 1; }  // load after store
    if (KIND == 8) { if (lane < 16) line[2 * lane] = 1; if (lane < 16) line[2 * lane + 1] = 2; }
    if (KIND == 9) { line[lane] = 1; __nanosleep(wait); unsigned v = line[lane]; if (v == 7) b[0] = 1; }
    if (KIND == 10) { unsigned v = line[lane], u = line[lane + N]; line[lane] = v + u; }  // two loads, a store: saxpy
  }
}
#define RUN(K, L, WARPS, BLOCKS, WAIT) stores<K, L><<<BLOCKS, 32 * WARPS>>>(a, b, WAIT), cudaDeviceSynchronize(), printf("kind %d lines %d warps %d blocks %d wait %d\n", K, L, WARPS, BLOCKS, WAIT);
#define SIZES(K, W) RUN(K, 16, 1, 132, W) RUN(K, 16, 8, 132, W) RUN(K, 16, 8, 1056, W) RUN(K, 1, 8, 8448, W)
int main() {
  unsigned *a, *b;
  cudaMalloc(&a, 16 * N), cudaMalloc(&b, 4096), cudaMemset(a, 0, 16 * N);
  SIZES(0, 0) SIZES(1, 0) SIZES(2, 0) SIZES(3, 0) SIZES(4, 1000) SIZES(5, 1000) SIZES(6, 0) SIZES(7, 0) SIZES(8, 0) SIZES(9, 1000) SIZES(10, 0)
  puts(cudaGetErrorString(cudaGetLastError()));
}
