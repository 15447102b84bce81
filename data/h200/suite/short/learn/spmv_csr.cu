// y = alpha A x + beta y0, A in rows of few entries: one thread per row.
extern "C" __global__ void spmv_csr(int rows, float alpha, float beta, const int *__restrict__ begin,
                                    const int *__restrict__ length, const int *__restrict__ col,
                                    const float *__restrict__ val, const float *__restrict__ x,
                                    const float *__restrict__ y0, float *__restrict__ out) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows)
    return;
  int b = begin[r], e = b + length[r];
  float sum = 0.0f;
  for (int k = b; k < e; k++)
    sum += val[k] * x[col[k]];
  out[r] = alpha * sum + beta * y0[r];
}
