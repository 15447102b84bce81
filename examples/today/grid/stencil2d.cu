// One step of heat diffusion on a plane: five points in single precision, the border kept.
// Stresses DRAM bandwidth. The neighbours come from L1 (naive) or from a tile in shared memory (tiled).
#ifndef TILE_X
#define TILE_X 32
#define TILE_Y 8
#endif

extern "C" __global__ void stencil2d_naive(int width, int height, float k, const float *in, float *out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height)
    return;
  int at = y * width + x;
  float centre = in[at], result = centre;
  if (x > 0 && x < width - 1 && y > 0 && y < height - 1)
    result += k * (in[at - 1] + in[at + 1] + in[at - width] + in[at + width] - 4 * centre);
  out[at] = result;
}

extern "C" __global__ void stencil2d_tiled(int width, int height, float k, const float *in, float *out) {
  __shared__ float tile[TILE_Y + 2][TILE_X + 2];
  int left = blockIdx.x * TILE_X - 1, top = blockIdx.y * TILE_Y - 1;
  for (int i = threadIdx.y * TILE_X + threadIdx.x; i < (TILE_X + 2) * (TILE_Y + 2); i += TILE_X * TILE_Y) {
    int row = i / (TILE_X + 2), column = i % (TILE_X + 2);
    int x = min(max(left + column, 0), width - 1), y = min(max(top + row, 0), height - 1);
    tile[row][column] = in[y * width + x];
  }
  __syncthreads();
  int column = threadIdx.x + 1, row = threadIdx.y + 1, x = left + column, y = top + row;
  if (x >= width || y >= height)
    return;
  float centre = tile[row][column], result = centre;
  if (x > 0 && x < width - 1 && y > 0 && y < height - 1)
    result += k * (tile[row][column - 1] + tile[row][column + 1] + tile[row - 1][column] + tile[row + 1][column] -
                   4 * centre);
  out[y * width + x] = result;
}
