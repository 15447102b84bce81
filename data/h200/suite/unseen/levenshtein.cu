// Edit distance of a pattern of 64 letters to many texts, by Myers' bit vectors of 64 bits; a text per thread.
extern "C" __global__ void levenshtein(int texts, int length, const unsigned char *__restrict__ pattern,
                                       const unsigned char *__restrict__ text, int *__restrict__ out) {
  __shared__ unsigned long long equal[32];
  if (threadIdx.x < 32) {
    unsigned long long m = 0;
    for (int i = 0; i < 64; i++)
      m |= (unsigned long long)(pattern[i] == threadIdx.x) << i;
    equal[threadIdx.x] = m;
  }
  __syncthreads();
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id >= texts)
    return;
  unsigned long long pv = ~0ull, mv = 0;
  int score = 64, best = 64;
  for (int i = 0; i < length; i++) {
    unsigned long long eq = equal[text[(size_t)i * texts + id] & 31];
    unsigned long long xv = eq | mv, xh = (((eq & pv) + pv) ^ pv) | eq;
    unsigned long long ph = mv | ~(xh | pv), mh = pv & xh;
    if (ph >> 63)
      score++;
    else if (mh >> 63)
      score--;
    ph = ph << 1 | 1;
    mh <<= 1;
    pv = mh | ~(xv | ph);
    mv = ph & xv;
    best = min(best, score);
  }
  out[id] = best;
}
