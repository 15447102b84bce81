// Dot products of many pairs of vectors in double precision: one warp per pair.
extern "C" __global__ void batched_dot_f64(int pairs, int len, double alpha, const double *__restrict__ a,
                                           const double *__restrict__ b, double *__restrict__ out) {
  int pair = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (pair >= pairs)
    return;
  const double *p = a + (size_t)pair * len, *q = b + (size_t)pair * len;
  double sum = 0.0;
  for (int i = lane; i < len; i += 32)
    sum = fma(p[i], q[i], sum);
  for (int d = 16; d; d >>= 1)
    sum += __shfl_down_sync(~0u, sum, d);
  if (lane == 0)
    out[pair] = alpha * sum;
}
