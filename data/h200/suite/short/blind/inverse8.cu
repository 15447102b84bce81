// Inverse of an 8 x 8 matrix per thread by Gauss-Jordan in registers; the diagonal is made strong first.
extern "C" __global__ void inverse8(int n, float damping, const float4 *__restrict__ in, float4 *__restrict__ out) {
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id >= n)
    return;
  union {
    float4 q[16];
    float a[8][8];
  } m;
#pragma unroll
  for (int i = 0; i < 16; i++)
    m.q[i] = in[(size_t)id * 16 + i];
#pragma unroll
  for (int i = 0; i < 8; i++)
    m.a[i][i] += damping;
#pragma unroll
  for (int p = 0; p < 8; p++) {
    float r = 1.0f / m.a[p][p];
    m.a[p][p] = 1.0f;
#pragma unroll
    for (int j = 0; j < 8; j++)
      m.a[p][j] *= r;
#pragma unroll
    for (int i = 0; i < 8; i++)
      if (i != p) {
        float f = m.a[i][p];
        m.a[i][p] = 0.0f;
#pragma unroll
        for (int j = 0; j < 8; j++)
          m.a[i][j] -= f * m.a[p][j];
      }
  }
#pragma unroll
  for (int i = 0; i < 16; i++)
    out[(size_t)id * 16 + i] = m.q[i];
}
