// Median of 3 x 3 bytes, four pixels to a word, by a network of minima and maxima.
#define SORT(a, b) { unsigned lo = __vminu4(a, b); b = __vmaxu4(a, b); a = lo; }
extern "C" __global__ void median3(int words, int height, const unsigned *__restrict__ in, unsigned *__restrict__ out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= words || y >= height)
    return;
  unsigned p[9];
#pragma unroll
  for (int j = 0; j < 3; j++) {
    const unsigned *row = in + (size_t)min(max(y + j - 1, 0), height - 1) * words;
    unsigned l = row[max(x - 1, 0)], c = row[x], r = row[min(x + 1, words - 1)];
    p[3 * j] = __byte_perm(l, c, 0x6543);
    p[3 * j + 1] = c;
    p[3 * j + 2] = __byte_perm(c, r, 0x4321);
  }
  SORT(p[1], p[2]) SORT(p[4], p[5]) SORT(p[7], p[8]) SORT(p[0], p[1]) SORT(p[3], p[4]) SORT(p[6], p[7])
  SORT(p[1], p[2]) SORT(p[4], p[5]) SORT(p[7], p[8]) SORT(p[0], p[3]) SORT(p[5], p[8]) SORT(p[4], p[7])
  SORT(p[3], p[6]) SORT(p[1], p[4]) SORT(p[2], p[5]) SORT(p[4], p[7]) SORT(p[4], p[2]) SORT(p[6], p[4]) SORT(p[4], p[2])
  out[(size_t)y * words + x] = p[4];
}
