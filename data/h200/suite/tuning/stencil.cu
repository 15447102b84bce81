// One step of a five-point stencil on a padded grid; a thread makes ROWS points one below the other. SHARED: the block
// reads its rows into shared memory first. n is a multiple of BX and of BY * ROWS, and a row of the grid has n + 2.
#ifndef BX
#define BX 32
#define BY 8
#define ROWS 1
#define SHARED 0
#endif

extern "C" __global__ void stencil(int n, float centre, float side, const float *in, float *out) {
  int pitch = n + 2;
  int x = blockIdx.x * BX + threadIdx.x + 1;
  int y = (blockIdx.y * BY + threadIdx.y) * ROWS + 1;
#if SHARED
  __shared__ float tile[BY * ROWS + 2][BX + 2];
  int corner = blockIdx.y * BY * ROWS * pitch + blockIdx.x * BX;
  for (int i = threadIdx.y * BX + threadIdx.x; i < (BY * ROWS + 2) * (BX + 2); i += BX * BY)
    tile[i / (BX + 2)][i % (BX + 2)] = in[corner + i / (BX + 2) * pitch + i % (BX + 2)];
  __syncthreads();
#define AT(row, column) tile[threadIdx.y * ROWS + 1 + (row)][threadIdx.x + 1 + (column)]
#else
#define AT(row, column) in[(y + (row)) * pitch + x + (column)]
#endif
  float above = AT(-1, 0), here = AT(0, 0);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    float below = AT(r + 1, 0);
    out[(y + r) * pitch + x] = centre * here + side * (above + below + AT(r, -1) + AT(r, 1));
    above = here;
    here = below;
  }
}
