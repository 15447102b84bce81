// Start of a generator's states: five words by splitmix64, sixteen steps of warming up, and 24 bytes per thread to memory.
struct State {
  unsigned x[5], d;
};
__device__ __forceinline__ unsigned long long splitmix(unsigned long long &s) {
  unsigned long long z = s += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
extern "C" __global__ void xorwow_init(int n, unsigned long long seed, State *__restrict__ out) {
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id >= n)
    return;
  unsigned long long s = seed ^ ((unsigned long long)id << 20);
  unsigned long long p = splitmix(s), q = splitmix(s), r = splitmix(s);
  State z;
  z.x[0] = (unsigned)p; z.x[1] = (unsigned)(p >> 32);
  z.x[2] = (unsigned)q; z.x[3] = (unsigned)(q >> 32);
  z.x[4] = (unsigned)r; z.d = (unsigned)(r >> 32);
#pragma unroll 1
  for (int i = 0; i < 16; i++) {
    unsigned t = z.x[0] ^ (z.x[0] >> 2);
    z.x[0] = z.x[1]; z.x[1] = z.x[2]; z.x[2] = z.x[3]; z.x[3] = z.x[4];
    z.x[4] = z.x[4] ^ (z.x[4] << 4) ^ t ^ (t << 1);
    z.d += 362437;
  }
  out[id] = z;
}
