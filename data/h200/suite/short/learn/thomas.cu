// Thomas algorithm: one tridiagonal system of M rows per thread, systems interleaved.
#ifndef M
#define M 16
#endif
extern "C" __global__ void thomas(int systems, const float *__restrict__ lower, const float *__restrict__ diag,
                                  const float *__restrict__ upper, const float *__restrict__ rhs, float *__restrict__ out) {
  int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= systems)
    return;
  float c[M], d[M];
  float inv = 1.0f / diag[s];
  c[0] = upper[s] * inv;
  d[0] = rhs[s] * inv;
#pragma unroll
  for (int i = 1; i < M; i++) {
    int at = i * systems + s;
    float a = lower[at];
    float r = 1.0f / (diag[at] - a * c[i - 1]);
    c[i] = upper[at] * r;
    d[i] = (rhs[at] - a * d[i - 1]) * r;
  }
  float x = d[M - 1];
  out[(M - 1) * systems + s] = x;
#pragma unroll
  for (int i = M - 2; i >= 0; i--) {
    x = d[i] - c[i] * x;
    out[i * systems + s] = x;
  }
}
