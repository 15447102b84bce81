// out[i] = values[order[i]]: the order decides how the reads coalesce.
extern "C" __global__ void permute(const int *values, const int *order, int *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = values[order[i]];
}
