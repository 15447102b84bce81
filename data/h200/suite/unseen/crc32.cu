// CRC-32 of many records by eight tables of 256 words in shared memory, a thread per record: neighbouring threads read far apart.
extern "C" __global__ void crc32(int records, int words, const unsigned *__restrict__ tables,
                                 const uint2 *__restrict__ data, unsigned *__restrict__ out) {
  __shared__ unsigned t[8][256];
  for (int i = threadIdx.x; i < 2048; i += blockDim.x)
    t[i >> 8][i & 255] = tables[i];
  __syncthreads();
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id >= records)
    return;
  const uint2 *record = data + (size_t)id * words;
  unsigned crc = 0xffffffffu;
  for (int i = 0; i < words; i++) {
    uint2 v = record[i];
    unsigned lo = v.x ^ crc, hi = v.y;
    crc = t[7][lo & 255] ^ t[6][(lo >> 8) & 255] ^ t[5][(lo >> 16) & 255] ^ t[4][lo >> 24] ^ t[3][hi & 255] ^
          t[2][(hi >> 8) & 255] ^ t[1][(hi >> 16) & 255] ^ t[0][hi >> 24];
  }
  out[id] = ~crc;
}
