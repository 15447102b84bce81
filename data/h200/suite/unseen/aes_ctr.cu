// AES-128 in counter mode by a table of 256 words in shared memory: one random word per byte and round.
extern "C" __global__ void aes_ctr(int blocks, const unsigned *__restrict__ table, const unsigned *__restrict__ round_keys,
                                   const uint4 *__restrict__ text, uint4 *__restrict__ out) {
  __shared__ unsigned t0[256];
  __shared__ unsigned rk[44];
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    t0[i] = table[i];
  if (threadIdx.x < 44)
    rk[threadIdx.x] = round_keys[threadIdx.x];
  __syncthreads();
  for (int id = blockIdx.x * blockDim.x + threadIdx.x; id < blocks; id += gridDim.x * blockDim.x) {
    unsigned a = rk[0] ^ 0x1234567u, b = rk[1] ^ 0x89abcdefu, c = rk[2], d = rk[3] ^ (unsigned)id;
#pragma unroll 3
    for (int r = 1; r < 10; r++) {
#define MIX(p, q, u, v, k)                                                                                             \
  (t0[(p) & 255] ^ __funnelshift_l(t0[((q) >> 8) & 255], t0[((q) >> 8) & 255], 8) ^                                    \
   __funnelshift_l(t0[((u) >> 16) & 255], t0[((u) >> 16) & 255], 16) ^                                                 \
   __funnelshift_l(t0[(v) >> 24], t0[(v) >> 24], 24) ^ rk[4 * r + k])
      unsigned e = MIX(a, b, c, d, 0), f = MIX(b, c, d, a, 1), g = MIX(c, d, a, b, 2), h = MIX(d, a, b, c, 3);
      a = e; b = f; c = g; d = h;
    }
#define LAST(p, q, u, v, k)                                                                                            \
  (((t0[(p) & 255] >> 8) & 255) ^ (t0[((q) >> 8) & 255] & 0xff00) ^ ((t0[((u) >> 16) & 255] << 8) & 0xff0000) ^        \
   ((t0[(v) >> 24] << 16) & 0xff000000) ^ rk[40 + k])
    uint4 x = text[id];
    x.x ^= LAST(a, b, c, d, 0);
    x.y ^= LAST(b, c, d, a, 1);
    x.z ^= LAST(c, d, a, b, 2);
    x.w ^= LAST(d, a, b, c, 3);
    out[id] = x;
  }
}
