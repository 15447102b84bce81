// Convolution 3 x 3 with zero padding and ReLU, a thread per pixel, blockIdx.z the output channel.
extern "C" __global__ void conv3x3(int width, int height, int channels, const float *__restrict__ in,
                                   const float *__restrict__ weights, float *__restrict__ out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, o = blockIdx.z;
  if (x >= width || y >= height)
    return;
  float sum = 0.0f;
  for (int c = 0; c < channels; c++) {
    const float *plane = in + c * width * height;
    const float *w = weights + (o * channels + c) * 9;
#pragma unroll
    for (int j = -1; j <= 1; j++)
#pragma unroll
      for (int i = -1; i <= 1; i++) {
        int u = x + i, v = y + j;
        if (u >= 0 && u < width && v >= 0 && v < height)
          sum += plane[v * width + u] * w[(j + 1) * 3 + i + 1];
      }
  }
  out[(o * height + y) * width + x] = fmaxf(sum, 0.0f);
}
