// A state of 64 words per thread, mixed for some rounds: more than a low register limit holds.
// Stresses local memory: with a limit, words are written to L1 and read back in every round.
constexpr int SIZE = 64;

extern "C" __global__ void spill(int n, int rounds, const unsigned *in, unsigned *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  unsigned state[SIZE], seed = in[i];
#pragma unroll
  for (int j = 0; j < SIZE; j++)
    state[j] = seed = seed * 1664525u + 1013904223u;
  for (int round = 0; round < rounds; round++)
#pragma unroll
    for (int j = 0; j < SIZE; j++)
      state[j] = (state[j] ^ state[(j + 29) % SIZE]) * 5 + (state[(j + 47) % SIZE] >> 3);
  unsigned sum = 0;
#pragma unroll
  for (int j = 0; j < SIZE; j++)
    sum ^= state[j];
  out[i] = sum;
}
