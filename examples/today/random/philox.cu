// Random bits by Philox 4x32 with ten rounds, four words per counter; PER_THREAD counters for each thread.
// Stresses 32-bit multiplications (both halves) and write bandwidth; nothing is read.
#ifndef PER_THREAD
#define PER_THREAD 4
#endif

__device__ uint4 philox4(uint4 counter, unsigned key0, unsigned key1) {
#pragma unroll
  for (int round = 0; round < 10; round++) {
    unsigned high0 = __umulhi(0xD2511F53u, counter.x), low0 = 0xD2511F53u * counter.x;
    unsigned high1 = __umulhi(0xCD9E8D57u, counter.z), low1 = 0xCD9E8D57u * counter.z;
    counter = make_uint4(high1 ^ counter.y ^ key0, low1, high0 ^ counter.w ^ key1, low0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

extern "C" __global__ void philox(unsigned key0, unsigned key1, uint4 *out) {
  unsigned first = blockIdx.x * blockDim.x * PER_THREAD + threadIdx.x;
#pragma unroll
  for (int i = 0; i < PER_THREAD; i++) {
    unsigned at = first + i * blockDim.x;
    out[at] = philox4(make_uint4(at, 0, 0, 0), key0, key1);
  }
}
