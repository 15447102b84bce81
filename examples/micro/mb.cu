// A loop with LOADS loads and FP dependent multiply-adds. Neighbouring threads read floats that are SPREAD apart:
// 1 is coalesced; with 8 every thread has a sector of its own.
#ifndef LOADS
#define LOADS 0
#endif
#ifndef FP
#define FP 20
#endif
#ifndef SPREAD
#define SPREAD 1
#endif

extern "C" __global__ void mb(int iterations, unsigned mask, float a, float b, const float *x, float *out) {
  unsigned threads = gridDim.x * blockDim.x;
  unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = thread;
#pragma unroll 1
  for (int i = 0; i < iterations; ++i) {
    float loaded[LOADS + 1];
#pragma unroll
    for (int l = 0; l < LOADS; ++l)
      loaded[l] = x[((i * LOADS + l) * threads + thread) * SPREAD & mask];
#pragma unroll
    for (int f = 0; f < FP; ++f)
      sum = sum * a + (f < LOADS ? loaded[f] : b);
  }
  out[thread] = sum;
}
