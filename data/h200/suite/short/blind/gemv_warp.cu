// Matrix times vector plus bias, one warp per row.
extern "C" __global__ void gemv_warp(int rows, int quads, const float4 *__restrict__ matrix, const float4 *__restrict__ x,
                                     const float *__restrict__ bias, float *__restrict__ out) {
  int lane = threadIdx.x & 31, row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
  if (row >= rows)
    return;
  float sum = 0.0f;
  for (int c = lane; c < quads; c += 32) {
    float4 a = matrix[(size_t)row * quads + c], b = x[c];
    sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
  }
  for (int o = 16; o; o >>= 1)
    sum += __shfl_down_sync(~0u, sum, o);
  if (lane == 0)
    out[row] = sum + bias[row];
}
