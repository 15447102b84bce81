// Lorenz system in double precision: a few classical Runge-Kutta steps per thread.
struct P {
  double x, y, z;
};
__device__ __forceinline__ P slope(double x, double y, double z) {
  P s = {10.0 * (y - x), x * (28.0 - z) - y, x * y - 2.6666666666666667 * z};
  return s;
}
extern "C" __global__ void lorenz_f64(int n, int steps, double h, const double *__restrict__ in, double *__restrict__ out) {
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id >= n)
    return;
  double x = in[id], y = in[n + id], z = in[2 * n + id];
#pragma unroll 1
  for (int i = 0; i < steps; i++) {
    double g = 0.5 * h;
    P a = slope(x, y, z);
    P b = slope(x + g * a.x, y + g * a.y, z + g * a.z);
    P c = slope(x + g * b.x, y + g * b.y, z + g * b.z);
    P d = slope(x + h * c.x, y + h * c.y, z + h * c.z);
    double s = h / 6.0;
    x += s * (a.x + 2.0 * (b.x + c.x) + d.x);
    y += s * (a.y + 2.0 * (b.y + c.y) + d.y);
    z += s * (a.z + 2.0 * (b.z + c.z) + d.z);
  }
  out[id] = x;
  out[n + id] = y;
  out[2 * n + id] = z;
}
