// The cheapest way down a wall: several rows of dynamic programming per launch, with a halo.
#ifndef WIDTH
#define WIDTH 256
#endif
extern "C" __global__ void pathfinder(int cols, int steps, const int *__restrict__ wall, const int *__restrict__ from,
                                      int *__restrict__ out) {
  __shared__ int cost[2][WIDTH];
  int tx = threadIdx.x;
  int inner = WIDTH - 2 * steps;
  int x = (int)blockIdx.x * inner + tx - steps;
  bool inside = x >= 0 && x < cols;
  cost[0][tx] = inside ? from[x] : 0x3fffffff;
  __syncthreads();
  int now = 0;
  for (int t = 0; t < steps; t++) {
    int best = cost[now][tx];
    if (tx > 0)
      best = min(best, cost[now][tx - 1]);
    if (tx < WIDTH - 1)
      best = min(best, cost[now][tx + 1]);
    cost[now ^ 1][tx] = inside ? best + wall[(size_t)t * cols + x] : 0x3fffffff;
    now ^= 1;
    __syncthreads();
  }
  if (inside && tx >= steps && tx < WIDTH - steps)
    out[x] = cost[now][tx];
}
