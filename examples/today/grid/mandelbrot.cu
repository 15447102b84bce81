// The Mandelbrot set: how many steps each point needs to leave a circle.
// Stresses fp32 with dependent chains; lanes and blocks end at very different times, and nothing is read.
extern "C" __global__ void mandelbrot(int width, int height, int limit, float left, float top, float step, int *out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height)
    return;
  float real = left + step * x, imaginary = top + step * y, a = 0, b = 0;
  int steps = 0;
  while (steps < limit && a * a + b * b < 4) {
    float next = a * a - b * b + real;
    b = 2 * a * b + imaginary;
    a = next;
    steps++;
  }
  out[y * width + x] = steps;
}
