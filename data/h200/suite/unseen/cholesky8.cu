// Cholesky factors of many 8 x 8 matrices in double precision: a matrix per thread in registers, matrices interleaved.
#define N 8
extern "C" __global__ void cholesky8(int batch, const double *__restrict__ in, double *__restrict__ out) {
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id >= batch)
    return;
  double l[N][N];
  int e = 0;
#pragma unroll
  for (int i = 0; i < N; i++)
#pragma unroll
    for (int j = 0; j <= i; j++)
      l[i][j] = in[(size_t)(e++) * batch + id] + (i == j ? 8.0 : 0.0);
#pragma unroll
  for (int k = 0; k < N; k++) {
    double d = sqrt(l[k][k]), inv = 1.0 / d;
    l[k][k] = d;
#pragma unroll
    for (int i = k + 1; i < N; i++)
      l[i][k] *= inv;
#pragma unroll
    for (int j = k + 1; j < N; j++)
#pragma unroll
      for (int i = j; i < N; i++)
        l[i][j] -= l[i][k] * l[j][k];
  }
  e = 0;
#pragma unroll
  for (int i = 0; i < N; i++)
#pragma unroll
    for (int j = 0; j <= i; j++)
      out[(size_t)(e++) * batch + id] = l[i][j];
}
