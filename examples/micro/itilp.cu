// ILP chains of multiply-adds that do not depend on one another, and the same number of instructions for every ILP.
#ifndef ILP
#define ILP 1
#endif
constexpr int BODY = 48; // a multiple of 1, 2, 3 and 4

extern "C" __global__ void itilp(int iterations, float a, float b, float *out) {
  int thread = blockIdx.x * blockDim.x + threadIdx.x;
  float x[ILP];
  for (int chain = 0; chain < ILP; ++chain)
    x[chain] = thread + chain;
#pragma unroll 1
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (int k = 0; k < BODY; ++k)
      x[k % ILP] = x[k % ILP] * a + b;
  }
  float sum = 0;
  for (int chain = 0; chain < ILP; ++chain)
    sum += x[chain];
  out[thread] = sum;
}
