// Bilateral filter of a grey image: weights by distance and by likeness, no shared memory.
#ifndef RADIUS
#define RADIUS 3
#endif
extern "C" __global__ void bilateral(int width, int height, float by_space, float by_value, const float *__restrict__ in,
                                     float *__restrict__ out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height)
    return;
  float centre = in[y * width + x], sum = 0.0f, weights = 0.0f;
  for (int j = -RADIUS; j <= RADIUS; j++) {
    int row = min(max(y + j, 0), height - 1) * width;
#pragma unroll
    for (int i = -RADIUS; i <= RADIUS; i++) {
      float v = in[row + min(max(x + i, 0), width - 1)];
      float d = v - centre;
      float w = __expf(-(i * i + j * j) * by_space - d * d * by_value);
      sum += w * v;
      weights += w;
    }
  }
  out[y * width + x] = sum / weights;
}
