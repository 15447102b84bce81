// out = a b for square matrices, through tiles in shared memory. n is a multiple of TILE.
#ifndef TILE
#define TILE 16
#endif

extern "C" __global__ void matmul_tiled(int n, const float *a, const float *b, float *out) {
  __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
  int x = threadIdx.x, y = threadIdx.y;
  int column = blockIdx.x * TILE + x;
  int row = blockIdx.y * TILE + y;
  float sum = 0;
  for (int at = 0; at < n; at += TILE) {
    a_tile[y][x] = a[row * n + at + x];
#ifdef CONFLICTS // the tile of b lies on its side: the threads of a row read and write down a column of banks
    b_tile[x][y] = b[(at + y) * n + column];
#else
    b_tile[y][x] = b[(at + y) * n + column];
#endif
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; ++k)
#ifdef CONFLICTS
      sum += a_tile[y][k] * b_tile[x][k];
#else
      sum += a_tile[y][k] * b_tile[k][x];
#endif
    __syncthreads();
  }
  out[row * n + column] = sum;
}
