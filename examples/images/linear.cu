// Blurs an image: the average of nine pixels, colour by colour. Beyond the border its pixels are repeated.
extern "C" __global__ void linear(int width, int height, const unsigned char *image, unsigned char *out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height)
    return;
  int sum[3] = {0, 0, 0};
  for (int dy = -1; dy <= 1; ++dy)
    for (int dx = -1; dx <= 1; ++dx) {
      int at = 3 * (min(max(y + dy, 0), height - 1) * width + min(max(x + dx, 0), width - 1));
      for (int colour = 0; colour < 3; ++colour)
        sum[colour] += image[at + colour];
    }
  for (int colour = 0; colour < 3; ++colour)
    out[3 * (y * width + x) + colour] = (unsigned char)(sum[colour] / 9);
}
