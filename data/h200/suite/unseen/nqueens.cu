// Counts the ways to place n queens: a thread takes one placement of the first rows and backtracks from there,
// with its stack in shared memory.
#ifndef DEPTH
#define DEPTH 3
#endif
#define THREADS 128
#define LEVELS 14
extern "C" __global__ void __launch_bounds__(THREADS) nqueens(int n, int prefixes, unsigned *__restrict__ out) {
  __shared__ unsigned saved[LEVELS][4][THREADS];
  int id = blockIdx.x * THREADS + threadIdx.x, t = threadIdx.x;
  if (id >= prefixes)
    return;
  unsigned all = (1u << n) - 1, cols = 0, left = 0, right = 0, count = 0;
  int rest = id;
  bool valid = true;
  for (int r = 0; r < DEPTH; r++) {
    unsigned bit = 1u << (rest % n);
    rest /= n;
    if ((cols | left | right) & bit)
      valid = false;
    cols |= bit;
    left = (left | bit) << 1;
    right = (right | bit) >> 1;
  }
  if (valid) {
    int level = 0, last = n - DEPTH - 1;
    unsigned open = all & ~(cols | left | right);
    while (true) {
      if (open == 0) {
        if (level == 0)
          break;
        level--;
        open = saved[level][0][t];
        cols = saved[level][1][t];
        left = saved[level][2][t];
        right = saved[level][3][t];
        continue;
      }
      unsigned bit = open & (0u - open);
      open ^= bit;
      if (level == last) {
        count++;
        continue;
      }
      saved[level][0][t] = open;
      saved[level][1][t] = cols;
      saved[level][2][t] = left;
      saved[level][3][t] = right;
      level++;
      cols |= bit;
      left = (left | bit) << 1;
      right = (right | bit) >> 1;
      open = all & ~(cols | left | right);
    }
  }
  out[id] = count;
}
