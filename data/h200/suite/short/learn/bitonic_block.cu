// Bitonic sort of blockDim keys with their payload in shared memory, one block per segment.
extern "C" __global__ void bitonic_block(int n, const unsigned *__restrict__ key, unsigned *__restrict__ out_key,
                                         unsigned *__restrict__ out_from) {
  __shared__ unsigned k[1024], p[1024];
  int t = threadIdx.x, at = blockIdx.x * blockDim.x + t;
  k[t] = at < n ? key[at] : 0xffffffffu;
  p[t] = at;
  __syncthreads();
  for (int size = 2; size <= (int)blockDim.x; size <<= 1)
    for (int step = size >> 1; step; step >>= 1) {
      int o = t ^ step;
      if (o > t) {
        unsigned a = k[t], b = k[o];
        if ((a > b) == ((t & size) == 0)) {
          k[t] = b;
          k[o] = a;
          unsigned q = p[t];
          p[t] = p[o];
          p[o] = q;
        }
      }
      __syncthreads();
    }
  if (at < n) {
    out_key[at] = k[t];
    out_from[at] = p[t];
  }
}
