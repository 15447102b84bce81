// Bitonic sort of ELEMENTS keys per block in shared memory, two keys per thread.
// Stresses shared memory and barriers: log^2 steps, of which the short strides meet in banks.
#ifndef ELEMENTS
#define ELEMENTS 1024
#endif

extern "C" __global__ void __launch_bounds__(ELEMENTS / 2) bitonic(const unsigned *in, unsigned *out) {
  __shared__ unsigned keys[ELEMENTS];
  int t = threadIdx.x, first = blockIdx.x * ELEMENTS;
  keys[t] = in[first + t];
  keys[t + ELEMENTS / 2] = in[first + t + ELEMENTS / 2];
  for (int size = 2; size <= ELEMENTS; size *= 2)
    for (int stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      int low = 2 * t - (t & (stride - 1)), high = low + stride;
      unsigned a = keys[low], b = keys[high];
      bool up = (low & size) == 0;
      if ((a > b) == up) {
        keys[low] = b;
        keys[high] = a;
      }
    }
  __syncthreads();
  out[first + t] = keys[t];
  out[first + t + ELEMENTS / 2] = keys[t + ELEMENTS / 2];
}
