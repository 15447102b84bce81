// SFU special-function instructions per eight multiply-adds, all independent within a trip.
#ifndef SFU
#define SFU 0
#endif

extern "C" __global__ void sfu(int iterations, float a, float b, float *out) {
  int thread = blockIdx.x * blockDim.x + threadIdx.x;
  float x[8], y[8];
#pragma unroll
  for (int k = 0; k < 8; ++k)
    x[k] = y[k] = thread + k + 1;
#pragma unroll 4
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      x[k] = x[k] * a + b;
      if (k < SFU)
        y[k] = rsqrtf(y[k]);
    }
  }
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k)
    sum += x[k] + y[k];
  out[thread] = sum;
}
