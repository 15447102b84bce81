// Writes to shared memory again and again: the words of a warp's threads are `bank` apart, in a part of 512 words that
// is the warp's own. With 0 all threads write the same value to one word.
constexpr int WARPS = 16, PART = 512;

extern "C" __global__ void bank(int writes, int bank, int *out) {
  __shared__ volatile int words[WARPS * PART]; // volatile: every write is made
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int at = warp * PART + lane * bank % PART;
  for (int i = 0; i < writes; ++i)
    words[at] = warp + i;
  __syncwarp();
  out[blockIdx.x * blockDim.x + threadIdx.x] = words[at];
}
