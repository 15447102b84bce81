// Bloom filter: a key's four hashed bits, leaving at the first that is not set; a ballot writes 32 answers at once.
__device__ __forceinline__ unsigned mix(unsigned h) {
  h ^= h >> 16; h *= 0x85ebca6bu; h ^= h >> 13; h *= 0xc2b2ae35u;
  return h ^ (h >> 16);
}
extern "C" __global__ void bloom_query(int n, unsigned mask, const unsigned *__restrict__ keys,
                                       const unsigned *__restrict__ bits, unsigned *__restrict__ out) {
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  bool found = false;
  if (id < n) {
    unsigned key = keys[id], h = mix(key), step = mix(key ^ 0x9e3779b9u) | 1u;
    found = true;
#pragma unroll 1
    for (int i = 0; i < 4; i++) {
      unsigned at = (h + i * step) & mask;
      if (!((bits[at >> 5] >> (at & 31)) & 1u)) {
        found = false;
        break;
      }
    }
  }
  unsigned answers = __ballot_sync(~0u, found);
  if ((threadIdx.x & 31) == 0 && id < n)
    out[id >> 5] = answers;
}
