// Ages an image: each colour becomes a mix of the three. Colours are bytes, red, green and blue of a pixel together.
__device__ unsigned char mixed(float r, float g, float b, float of_r, float of_g, float of_b) {
  return (unsigned char)fminf(of_r * r + of_g * g + of_b * b, 255.0f);
}

extern "C" __global__ void sepia(int width, int height, const unsigned char *image, unsigned char *out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height)
    return;
  int at = 3 * (y * width + x);
  float r = image[at], g = image[at + 1], b = image[at + 2];
  out[at] = mixed(r, g, b, 0.393f, 0.769f, 0.189f);
  out[at + 1] = mixed(r, g, b, 0.349f, 0.686f, 0.168f);
  out[at + 2] = mixed(r, g, b, 0.272f, 0.534f, 0.131f);
}
