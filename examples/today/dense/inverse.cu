// Inverses of many 4 x 4 matrices by Gauss and Jordan, one per thread, without pivots: what is given is added to 4 I.
// Stresses 128-bit accesses at a stride of 64 bytes, exact divisions and registers.
extern "C" __global__ void inverse(int n, const float4 *in, float4 *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  float m[4][8];
#pragma unroll
  for (int row = 0; row < 4; row++) {
    float4 v = in[4 * i + row];
    m[row][0] = v.x, m[row][1] = v.y, m[row][2] = v.z, m[row][3] = v.w;
    m[row][row] += 4;
#pragma unroll
    for (int column = 0; column < 4; column++)
      m[row][4 + column] = row == column;
  }
#pragma unroll
  for (int pivot = 0; pivot < 4; pivot++) {
    float factor = 1 / m[pivot][pivot];
#pragma unroll
    for (int column = 0; column < 8; column++)
      m[pivot][column] *= factor;
#pragma unroll
    for (int row = 0; row < 4; row++)
      if (row != pivot) {
        float times = m[row][pivot];
#pragma unroll
        for (int column = 0; column < 8; column++)
          m[row][column] -= times * m[pivot][column];
      }
  }
#pragma unroll
  for (int row = 0; row < 4; row++)
    out[4 * i + row] = make_float4(m[row][4], m[row][5], m[row][6], m[row][7]);
}
