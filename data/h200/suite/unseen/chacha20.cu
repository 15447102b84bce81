// ChaCha20: a thread makes one block of 64 bytes of key stream and mixes it with the text.
__device__ __forceinline__ unsigned rotl(unsigned x, int n) { return __funnelshift_l(x, x, n); }
#define QUARTER(a, b, c, d)                                                                                            \
  a += b; d = rotl(d ^ a, 16); c += d; b = rotl(b ^ c, 12); a += b; d = rotl(d ^ a, 8); c += d; b = rotl(b ^ c, 7);
#ifndef ROUNDS
#define ROUNDS 20
#endif
extern "C" __global__ void chacha20(int blocks, const unsigned *__restrict__ key, const uint4 *__restrict__ text,
                                    uint4 *__restrict__ out) {
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id >= blocks)
    return;
  unsigned s[16], x[16];
  s[0] = 0x61707865; s[1] = 0x3320646e; s[2] = 0x79622d32; s[3] = 0x6b206574;
  for (int i = 0; i < 8; i++)
    s[4 + i] = key[i];
  s[12] = id;
  for (int i = 0; i < 3; i++)
    s[13 + i] = key[8 + i];
#pragma unroll
  for (int i = 0; i < 16; i++)
    x[i] = s[i];
#pragma unroll 2
  for (int r = 0; r < ROUNDS / 2; r++) {
    QUARTER(x[0], x[4], x[8], x[12]) QUARTER(x[1], x[5], x[9], x[13])
    QUARTER(x[2], x[6], x[10], x[14]) QUARTER(x[3], x[7], x[11], x[15])
    QUARTER(x[0], x[5], x[10], x[15]) QUARTER(x[1], x[6], x[11], x[12])
    QUARTER(x[2], x[7], x[8], x[13]) QUARTER(x[3], x[4], x[9], x[14])
  }
#pragma unroll
  for (int i = 0; i < 4; i++) {
    uint4 t = text[(size_t)id * 4 + i];
    t.x ^= x[4 * i] + s[4 * i];
    t.y ^= x[4 * i + 1] + s[4 * i + 1];
    t.z ^= x[4 * i + 2] + s[4 * i + 2];
    t.w ^= x[4 * i + 3] + s[4 * i + 3];
    out[(size_t)id * 4 + i] = t;
  }
}
