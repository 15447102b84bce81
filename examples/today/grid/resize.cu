// An image of four bytes per pixel, made smaller or larger by bilinear interpolation.
// Stresses L1 with neighbouring reads at a fractional stride, and conversions between bytes and floats.
extern "C" __global__ void resize(int in_width, int in_height, int width, int height, float scale_x, float scale_y,
                                  const unsigned *in, unsigned *out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height)
    return;
  float u = fmaxf((x + 0.5f) * scale_x - 0.5f, 0), v = fmaxf((y + 0.5f) * scale_y - 0.5f, 0);
  int left = min((int)u, in_width - 1), top = min((int)v, in_height - 1);
  int right = min(left + 1, in_width - 1), bottom = min(top + 1, in_height - 1);
  float across = u - left, down = v - top;
  unsigned a = in[top * in_width + left], b = in[top * in_width + right];
  unsigned c = in[bottom * in_width + left], d = in[bottom * in_width + right];
  unsigned pixel = 0;
#pragma unroll
  for (int shift = 0; shift < 32; shift += 8) {
    float first = a >> shift & 255, second = b >> shift & 255, third = c >> shift & 255, fourth = d >> shift & 255;
    float upper = first + across * (second - first), lower = third + across * (fourth - third);
    pixel |= (unsigned)(upper + down * (lower - upper) + 0.5f) << shift;
  }
  out[y * width + x] = pixel;
}
