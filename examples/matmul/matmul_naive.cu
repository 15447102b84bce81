// out = a b for square matrices in row-major order: one element per thread, everything from global memory.
extern "C" __global__ void matmul_naive(int n, const float *a, const float *b, float *out) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
  for (int k = 0; k < n; ++k)
    sum += a[row * n + k] * b[k * n + column];
  out[row * n + column] = sum;
}
