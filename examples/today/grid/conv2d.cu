// A layer of 3 x 3 convolutions over several channels, without padding: in[channel][y][x], weights[filter][channel][9].
// Stresses L1 (direct: every thread reads its own 3 x 3 window for one filter) or shared memory and registers (tiled:
// a tile of the plane serves FILTERS filters at once).
#ifndef FILTERS
#define FILTERS 8
#endif
constexpr int TILE = 16;

extern "C" __global__ void conv2d_direct(int channels, int width, int height, const float *in, const float *weights,
                                         float *out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, filter = blockIdx.z;
  int out_width = width - 2, out_height = height - 2;
  if (x >= out_width || y >= out_height)
    return;
  const float *w = weights + filter * channels * 9;
  float sum = 0;
  for (int channel = 0; channel < channels; channel++, w += 9) {
    const float *window = in + (channel * height + y) * width + x;
#pragma unroll
    for (int i = 0; i < 9; i++)
      sum += window[i / 3 * width + i % 3] * w[i];
  }
  out[(filter * out_height + y) * out_width + x] = sum;
}

extern "C" __global__ void conv2d_tiled(int channels, int width, int height, const float *in, const float *weights,
                                        float *out) {
  __shared__ float tile[TILE + 2][TILE + 2];
  __shared__ float w[FILTERS][9];
  int thread = threadIdx.y * TILE + threadIdx.x, filter = blockIdx.z * FILTERS;
  int left = blockIdx.x * TILE, top = blockIdx.y * TILE;
  float sums[FILTERS] = {};
  for (int channel = 0; channel < channels; channel++) {
    __syncthreads();
    for (int i = thread; i < (TILE + 2) * (TILE + 2); i += TILE * TILE) {
      int row = i / (TILE + 2), column = i % (TILE + 2);
      int x = min(left + column, width - 1), y = min(top + row, height - 1);
      tile[row][column] = in[(channel * height + y) * width + x];
    }
    if (thread < FILTERS * 9)
      w[thread / 9][thread % 9] = weights[((filter + thread / 9) * channels + channel) * 9 + thread % 9];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 9; i++) {
      float value = tile[threadIdx.y + i / 3][threadIdx.x + i % 3];
#pragma unroll
      for (int j = 0; j < FILTERS; j++)
        sums[j] += value * w[j][i];
    }
  }
  int x = left + threadIdx.x, y = top + threadIdx.y, out_width = width - 2, out_height = height - 2;
  if (x < out_width && y < out_height)
    for (int j = 0; j < FILTERS; j++)
      out[((filter + j) * out_height + y) * out_width + x] = sums[j];
}
