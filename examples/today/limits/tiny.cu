// A step of gradient descent with momentum on a handful of parameters.
// Stresses the launch itself: a few microseconds, of which most is the way to the SM, one read and one write.
extern "C" __global__ void tiny(int n, float rate, float momentum, const float *weights, const float *gradients,
                                const float *velocities, float *out_weights, float *out_velocities) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  float velocity = momentum * velocities[i] + gradients[i];
  out_velocities[i] = velocity;
  out_weights[i] = weights[i] - rate * velocity;
}
