// out = the transpose of a rows x columns matrix, by way of a tile in shared memory with PAD words between its rows.
// A block of BX x BY threads moves TILES tiles of BX x TY elements, one below the other.
#ifndef BX
#define BX 32
#define BY 8
#define TY 32
#define PAD 1
#define TILES 1
#endif

extern "C" __global__ void transpose(int rows, int columns, const float *in, float *out) {
  __shared__ float tile[TY][BX + PAD];
  int thread = threadIdx.y * BX + threadIdx.x;
  int first_column = blockIdx.x * BX;
  for (int t = 0; t < TILES; ++t) {
    int first_row = (blockIdx.y * TILES + t) * TY;
#pragma unroll
    for (int y = threadIdx.y; y < TY; y += BY)
      tile[y][threadIdx.x] = in[(first_row + y) * columns + first_column + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = thread; i < BX * TY; i += BX * BY)
      out[(first_column + i / TY) * rows + first_row + i % TY] = tile[i % TY][i / TY];
    if (t + 1 < TILES)
      __syncthreads();
  }
}
