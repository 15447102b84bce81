// out = a + b, one element per thread.
extern "C" __global__ void vector_add(const float *a, const float *b, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = a[i] + b[i];
}
