// The transpose of a matrix: by scattered writes, through a tile in shared memory, and through a tile with padding.
// Stresses write coalescing (naive), bank conflicts (tiled) and DRAM bandwidth (padded).
#ifndef ROWS
#define ROWS 8
#endif
constexpr int TILE = 32;

extern "C" __global__ void transpose_naive(int width, int height, const float *in, float *out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height)
    out[x * height + y] = in[y * width + x];
}

template <int PITCH> __device__ void through_tile(int width, int height, const float *in, float *out, float *tile) {
  int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE;
  for (int row = threadIdx.y; row < TILE; row += ROWS)
    if (x < width && y + row < height)
      tile[row * PITCH + threadIdx.x] = in[(y + row) * width + x];
  __syncthreads();
  x = blockIdx.y * TILE + threadIdx.x;
  y = blockIdx.x * TILE;
  for (int row = threadIdx.y; row < TILE; row += ROWS)
    if (x < height && y + row < width)
      out[(y + row) * height + x] = tile[threadIdx.x * PITCH + row];
}

extern "C" __global__ void transpose_tiled(int width, int height, const float *in, float *out) {
  __shared__ float tile[TILE * TILE];
  through_tile<TILE>(width, height, in, out, tile);
}

extern "C" __global__ void transpose_padded(int width, int height, const float *in, float *out) {
  __shared__ float tile[TILE * (TILE + 1)];
  through_tile<TILE + 1>(width, height, in, out, tile);
}

// Padding, and 128 bits per access to global memory: eight threads take a row of the tile. Sizes are multiples of four.
extern "C" __global__ void transpose_vector(int width, int height, const float *in, float *out) {
  __shared__ float tile[TILE][TILE + 1];
  int four = 4 * threadIdx.x, row = threadIdx.y;
  int x = blockIdx.x * TILE + four, y = blockIdx.y * TILE + row;
  if (x < width && y < height) {
    float4 v = *(const float4 *)(in + y * width + x);
    tile[row][four] = v.x;
    tile[row][four + 1] = v.y;
    tile[row][four + 2] = v.z;
    tile[row][four + 3] = v.w;
  }
  __syncthreads();
  x = blockIdx.y * TILE + four;
  y = blockIdx.x * TILE + row;
  if (x < height && y < width)
    *(float4 *)(out + y * height + x) =
        make_float4(tile[four][row], tile[four + 1][row], tile[four + 2][row], tile[four + 3][row]);
}
