// Counts of 256 kinds of bytes: COPIES tables in shared memory for the threads of a block, VECTOR words read at a time,
// UNROLL of these before they are counted. n, in words, is a multiple of VECTOR; out begins as zeros.
#ifndef THREADS
#define THREADS 256
#define COPIES 1
#define VECTOR 1
#define UNROLL 1
#endif
struct alignas(4 * VECTOR) Words {
  unsigned of[VECTOR];
};

extern "C" __global__ void __launch_bounds__(THREADS) histogram(int n, const unsigned *in, unsigned *out) {
  __shared__ unsigned table[COPIES][256 + (COPIES > 1)];
  for (int i = threadIdx.x; i < COPIES * (256 + (COPIES > 1)); i += THREADS)
    table[0][i] = 0;
  __syncthreads();
  unsigned *mine = table[threadIdx.x % COPIES];
  const Words *words = (const Words *)in;
  int count = n / VECTOR, step = gridDim.x * THREADS;
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < count; i += UNROLL * step) {
    Words read[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (u == 0 || i + u * step < count)
        read[u] = words[i + u * step];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (u == 0 || i + u * step < count)
#pragma unroll
        for (int j = 0; j < VECTOR; ++j)
#pragma unroll
          for (int shift = 0; shift < 32; shift += 8)
            atomicAdd(mine + (read[u].of[j] >> shift & 255), 1);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < 256; bin += THREADS) {
    unsigned sum = 0;
#pragma unroll
    for (int c = 0; c < COPIES; ++c)
      sum += table[c][bin];
    atomicAdd(out + bin, sum);
  }
}
