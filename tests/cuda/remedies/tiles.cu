// What a tile with a halo costs to bring: the same kernel with (FETCH) and without it, in a loop over planes or once.
// FETCH: 1 as it comes, 2 with the border repeated, 3 nothing behind the border; 4 and 5: every thread brings its own
// element, and those along the edges of the block what lies beyond (5: nothing behind the border).
#define T (X * Y)
extern "C" __global__ void tiles(int planes, int width, int height, const float *in, float *out) {
  __shared__ float s[H][W];
  int t = threadIdx.y * X + threadIdx.x, left = blockIdx.x * X, top = blockIdx.y * Y;
  float sum = 0;
#ifndef ONCE
#pragma unroll 1
  for (int p = 0; p < planes; ++p) {
    __syncthreads();
#else
  int p = 0;
  {
#endif
#if FETCH >= 4
    int u = threadIdx.x + (W - X) / 2, v = threadIdx.y + (H - Y) / 2, x = left + u, y = top + v;
    const float *at = in + (p * height + y) * width + x;
#define IN(x, y) (FETCH == 4 || (x >= 0 && y >= 0 && x < width && y < height))
    if (IN(x, y)) s[v][u] = at[0];
    if (threadIdx.x < (W - X) / 2 && IN(x - (W - X) / 2, y)) s[v][u - (W - X) / 2] = at[-(W - X) / 2];
    if (threadIdx.x >= X - (W - X) / 2 && IN(x + (W - X) / 2, y)) s[v][u + (W - X) / 2] = at[(W - X) / 2];
#if H > 1
    if (threadIdx.y < (H - Y) / 2 && IN(x, y - (H - Y) / 2)) s[v - (H - Y) / 2][u] = at[-(H - Y) / 2 * width];
    if (threadIdx.y >= Y - (H - Y) / 2 && IN(x, y + (H - Y) / 2)) s[v + (H - Y) / 2][u] = at[(H - Y) / 2 * width];
#endif
#elif defined(FETCH)
    for (int i = t; i < W * H; i += T) {
      int r = i / W, c = i % W;
#if FETCH == 2
      int x = min(left + c, width - 1), y = min(top + r, height - 1);
#else
      int x = left + c, y = top + r;
#endif
#if FETCH == 3
      if (x < width && y < height)
#endif
        s[r][c] = in[(p * height + y) * width + x];
    }
#endif
    __syncthreads();
    sum += s[threadIdx.y][threadIdx.x];
  }
  out[(top + threadIdx.y) * width + left + threadIdx.x] = sum;
}
