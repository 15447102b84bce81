// A pass of a radix sort by eight bits: the histogram of each block's keys, and the stable scatter of the keys to where
// given offsets, [digit][block], say that each block's keys with each digit begin. A block has KEYS keys, 256 threads.
// Stresses shared-memory atomics (histogram); match, shared memory and scattered writes (scatter).
#ifndef ROUNDS
#define ROUNDS 8
#endif
constexpr int THREADS = 256, WARPS = 8, KEYS = THREADS * ROUNDS, DIGITS = 256;

extern "C" __global__ void __launch_bounds__(THREADS) radix_histogram(int shift, const unsigned *keys, unsigned *out) {
  __shared__ unsigned counts[DIGITS];
  counts[threadIdx.x] = 0;
  __syncthreads();
#pragma unroll
  for (int round = 0; round < ROUNDS; round++)
    atomicAdd(&counts[keys[blockIdx.x * KEYS + round * THREADS + threadIdx.x] >> shift & 255], 1u);
  __syncthreads();
  out[threadIdx.x * gridDim.x + blockIdx.x] = counts[threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    radix_scatter(int shift, const unsigned *keys, const unsigned *offsets, unsigned *out) {
  __shared__ unsigned counts[WARPS][DIGITS];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int i = 0; i < WARPS; i++)
    counts[i][threadIdx.x] = 0;
  __syncthreads();
  unsigned mine[ROUNDS], ranks[ROUNDS];
#pragma unroll
  for (int round = 0; round < ROUNDS; round++) {
    mine[round] = keys[blockIdx.x * KEYS + (warp * ROUNDS + round) * 32 + lane];
    unsigned digit = mine[round] >> shift & 255, same = __match_any_sync(0xFFFFFFFF, digit);
    unsigned before = counts[warp][digit];
    __syncwarp();
    if (lane == __ffs(same) - 1)
      counts[warp][digit] = before + __popc(same);
    __syncwarp();
    ranks[round] = before + __popc(same & ((1u << lane) - 1));
  }
  __syncthreads();
  unsigned start = offsets[threadIdx.x * gridDim.x + blockIdx.x];
  for (int i = 0; i < WARPS; i++) {
    unsigned count = counts[i][threadIdx.x];
    counts[i][threadIdx.x] = start;
    start += count;
  }
  __syncthreads();
#pragma unroll
  for (int round = 0; round < ROUNDS; round++)
    out[counts[warp][mine[round] >> shift & 255] + ranks[round]] = mine[round];
}
