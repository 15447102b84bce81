// One warp iterates the logistic map: every step depends on the one before it.
extern "C" __global__ void logistic_chain(int steps, float rate, const float *__restrict__ start, float *__restrict__ out) {
  float x = start[threadIdx.x];
#pragma unroll 4
  for (int i = 0; i < steps; i++)
    x = rate * x * (1.0f - x);
  out[threadIdx.x] = x;
}
