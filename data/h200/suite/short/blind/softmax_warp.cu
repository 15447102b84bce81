// Masked softmax, one warp per row held in registers; a row sees only its first lengths[row] columns.
#ifndef COLS
#define COLS 128
#endif
extern "C" __global__ void softmax_warp(int rows, float scale, const float *__restrict__ scores,
                                        const int *__restrict__ lengths, float *__restrict__ out) {
  int lane = threadIdx.x & 31, row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
  if (row >= rows)
    return;
  const float *from = scores + (size_t)row * COLS;
  float *to = out + (size_t)row * COLS;
  int length = lengths[row];
  float v[COLS / 32], top = -1e30f, sum = 0.0f;
#pragma unroll
  for (int k = 0; k < COLS / 32; k++) {
    int c = k * 32 + lane;
    v[k] = c < length ? from[c] * scale : -1e30f;
    top = fmaxf(top, v[k]);
  }
#pragma unroll
  for (int o = 16; o; o >>= 1)
    top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
#pragma unroll
  for (int k = 0; k < COLS / 32; k++) {
    v[k] = __expf(v[k] - top);
    sum += v[k];
  }
#pragma unroll
  for (int o = 16; o; o >>= 1)
    sum += __shfl_xor_sync(~0u, sum, o);
  float inverse = 1.0f / sum;
#pragma unroll
  for (int k = 0; k < COLS / 32; k++)
    to[k * 32 + lane] = v[k] * inverse;
}
