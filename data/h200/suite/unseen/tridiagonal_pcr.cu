// Tridiagonal systems by parallel cyclic reduction, one block each, as many threads as equations.
#ifndef REAL
#define REAL float
#endif
extern __shared__ __align__(8) unsigned char raw[];
extern "C" __global__ void tridiagonal_pcr(const REAL *__restrict__ lower, const REAL *__restrict__ upper,
                                           const REAL *__restrict__ right, REAL *__restrict__ out) {
  int n = blockDim.x, i = threadIdx.x;
  REAL *a = (REAL *)raw, *b = a + n, *c = b + n, *d = c + n;
  size_t at = (size_t)blockIdx.x * n + i;
  REAL ai = i == 0 ? (REAL)0 : lower[at], ci = i == n - 1 ? (REAL)0 : upper[at], bi = (REAL)2.5, di = right[at];
  a[i] = ai;
  b[i] = bi;
  c[i] = ci;
  d[i] = di;
  __syncthreads();
  for (int step = 1; step < n; step *= 2) {
    REAL a2 = 0, c2 = 0, b2 = bi, d2 = di;
    if (i >= step) {
      REAL k = ai / b[i - step];
      a2 = -k * a[i - step];
      b2 -= k * c[i - step];
      d2 -= k * d[i - step];
    }
    if (i + step < n) {
      REAL k = ci / b[i + step];
      c2 = -k * c[i + step];
      b2 -= k * a[i + step];
      d2 -= k * d[i + step];
    }
    __syncthreads();
    a[i] = ai = a2;
    b[i] = bi = b2;
    c[i] = ci = c2;
    d[i] = di = d2;
    __syncthreads();
  }
  out[at] = di / bi;
}
