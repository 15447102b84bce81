// One step of heat diffusion in space: seven points in single precision, the border kept.
// Stresses DRAM and L2. A naive thread reads seven words; a tile marches through DEPTH planes, with the plane in shared
// memory and the points above and below in registers.
#ifndef TILE_X
#define TILE_X 32
#define TILE_Y 8
#endif
#ifndef DEPTH
#define DEPTH 16
#endif

extern "C" __global__ void stencil3d_naive(int width, int height, int depth, float k, const float *in, float *out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
  if (x >= width || y >= height)
    return;
  int plane = width * height, at = z * plane + y * width + x;
  float centre = in[at], result = centre;
  if (x > 0 && x < width - 1 && y > 0 && y < height - 1 && z > 0 && z < depth - 1)
    result += k * (in[at - 1] + in[at + 1] + in[at - width] + in[at + width] + in[at - plane] + in[at + plane] -
                   6 * centre);
  out[at] = result;
}

extern "C" __global__ void stencil3d_tiled(int width, int height, int depth, float k, const float *in, float *out) {
  __shared__ float tile[TILE_Y + 2][TILE_X + 2];
  int x = blockIdx.x * TILE_X + threadIdx.x, y = blockIdx.y * TILE_Y + threadIdx.y;
  int column = threadIdx.x + 1, row = threadIdx.y + 1, plane = width * height;
  bool inside = x < width && y < height;
  bool within = x > 0 && x < width - 1 && y > 0 && y < height - 1;
  int z = blockIdx.z * DEPTH, end = min(z + DEPTH, depth), at = z * plane + y * width + x;
  float below = inside && z > 0 ? in[at - plane] : 0, centre = inside ? in[at] : 0;
  for (; z < end; z++, at += plane) {
    float above = inside && z < depth - 1 ? in[at + plane] : 0;
    __syncthreads();
    tile[row][column] = centre;
    if (threadIdx.x == 0 && inside && x > 0)
      tile[row][0] = in[at - 1];
    if (threadIdx.x == TILE_X - 1 && x < width - 1 && y < height)
      tile[row][TILE_X + 1] = in[at + 1];
    if (threadIdx.y == 0 && inside && y > 0)
      tile[0][column] = in[at - width];
    if (threadIdx.y == TILE_Y - 1 && x < width && y < height - 1)
      tile[TILE_Y + 1][column] = in[at + width];
    __syncthreads();
    float result = centre;
    if (within && z > 0 && z < depth - 1)
      result += k * (tile[row][column - 1] + tile[row][column + 1] + tile[row - 1][column] + tile[row + 1][column] +
                     below + above - 6 * centre);
    if (inside)
      out[at] = result;
    below = centre;
    centre = above;
  }
}
