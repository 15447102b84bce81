// Absolute values in place: only negative elements are written back.
extern "C" __global__ void vabs(float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = out[i];
  if (x < 0)
    out[i] = -x;
}
