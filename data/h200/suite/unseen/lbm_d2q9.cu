// Lattice Boltzmann in a plane, nine directions: pull, collide, write; the borders are periodic.
#ifdef DOUBLE
typedef double real;
#else
typedef float real;
#endif
extern "C" __global__ void lbm_d2q9(int nx, int ny, real omega, const real *__restrict__ f, real *__restrict__ out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= nx)
    return;
  const int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
  const real w[9] = {(real)(4.0 / 9), (real)(1.0 / 9), (real)(1.0 / 9), (real)(1.0 / 9), (real)(1.0 / 9),
                     (real)(1.0 / 36), (real)(1.0 / 36), (real)(1.0 / 36), (real)(1.0 / 36)};
  size_t plane = (size_t)nx * ny;
  real p[9], rho = 0, ux = 0, uy = 0;
#pragma unroll
  for (int i = 0; i < 9; i++) {
    int sx = x - cx[i], sy = y - cy[i];
    sx = sx < 0 ? nx - 1 : sx >= nx ? 0 : sx;
    sy = sy < 0 ? ny - 1 : sy >= ny ? 0 : sy;
    p[i] = f[i * plane + (size_t)sy * nx + sx];
    rho += p[i];
    ux += cx[i] * p[i];
    uy += cy[i] * p[i];
  }
  real inv = (real)1 / rho;
  ux *= inv;
  uy *= inv;
  real base = (real)1 - (real)1.5 * (ux * ux + uy * uy);
#pragma unroll
  for (int i = 0; i < 9; i++) {
    real cu = (real)3 * (cx[i] * ux + cy[i] * uy);
    real eq = w[i] * rho * (base + cu + (real)0.5 * cu * cu);
    out[i * plane + (size_t)y * nx + x] = p[i] + omega * (eq - p[i]);
  }
}
