// Backward of dropout(relu(x)): the mask is drawn again from a counter hash.
extern "C" __global__ void relu_dropout_bwd(int n, unsigned seed, float keep, const float *__restrict__ grad,
                                            const float *__restrict__ pre, float *__restrict__ out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  unsigned s = (unsigned)i * 747796405u + seed;
  s = ((s >> ((s >> 28) + 4)) ^ s) * 277803737u;
  s = (s >> 22) ^ s;
  float u = (float)(s >> 8) * 5.9604645e-8f;
  float g = grad[i];
  out[i] = (pre[i] > 0.0f && u < keep) ? g / keep : 0.0f;
}
