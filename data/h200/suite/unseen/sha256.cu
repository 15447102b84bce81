// SHA-256 of a block of 64 bytes whose last word is a nonce; several nonces per thread, the least digest wins.
__constant__ unsigned K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
__device__ __forceinline__ unsigned rotr(unsigned x, int n) { return __funnelshift_r(x, x, n); }
extern "C" __global__ void sha256(int nonces_per_thread, const unsigned *__restrict__ header, unsigned *out_best) {
  unsigned id = blockIdx.x * blockDim.x + threadIdx.x, best = 0xffffffffu;
  for (int trial = 0; trial < nonces_per_thread; trial++) {
    unsigned w[16];
#pragma unroll
    for (int i = 0; i < 15; i++)
      w[i] = header[i];
    w[15] = id * nonces_per_thread + trial;
    unsigned a = 0x6a09e667, b = 0xbb67ae85, c = 0x3c6ef372, d = 0xa54ff53a, e = 0x510e527f, f = 0x9b05688c, g = 0x1f83d9ab, h = 0x5be0cd19;
#pragma unroll
    for (int i = 0; i < 64; i++) {
      unsigned word;
      if (i < 16) {
        word = w[i];
      } else {
        unsigned w1 = w[(i + 1) & 15], w14 = w[(i + 14) & 15];
        word = w[i & 15] + (rotr(w1, 7) ^ rotr(w1, 18) ^ (w1 >> 3)) + w[(i + 9) & 15] +
               (rotr(w14, 17) ^ rotr(w14, 19) ^ (w14 >> 10));
        w[i & 15] = word;
      }
      unsigned t1 = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + word;
      unsigned t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g; g = f; f = e; e = d + t1; d = c; c = b; b = a; a = t1 + t2;
    }
    best = min(best, a + 0x6a09e667);
  }
  best = __reduce_min_sync(0xffffffffu, best);
  if ((threadIdx.x & 31) == 0)
    atomicMax(out_best, ~best);
}
