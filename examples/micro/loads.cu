// Walks through an array whose elements all hold the length of a step. With DEPENDENT the loaded value leads to the
// next address, without it the argument does: the same instructions and addresses, and loads that need not wait.
extern "C" __global__ void loads(int steps, unsigned mask, unsigned step, const unsigned *x, unsigned *out) {
  unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned at = thread, sum = 0;
#pragma unroll 8
  for (int i = 0; i < steps; ++i) {
    unsigned loaded = x[at];
    sum += loaded;
#ifdef DEPENDENT
    at = (at + loaded) & mask;
#else
    at = (at + step) & mask;
#endif
  }
  out[thread] = sum;
}
