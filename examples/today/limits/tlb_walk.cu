// Single words at random places of an array of up to 16 GiB, each address by the word before (which holds zero).
// Stresses the translation of addresses and the latency of memory; hardly any bandwidth. `mask` is the words less one.
extern "C" __global__ void tlb_walk(int touches, unsigned long long mask, const unsigned *x, unsigned *out) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
  unsigned long long state = i * 0x9E3779B97F4A7C15ull + 1;
  for (int touch = 0; touch < touches; touch++) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    unsigned long long at = (state >> 24) & mask;
    unsigned value = x[at];
    state += value;
    sum += value + (unsigned)at;
  }
  out[i] = sum;
}
