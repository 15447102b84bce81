// Heat in a chip: several time steps of a power/temperature stencil in one launch, on a tile that shrinks with each step.
#ifndef TILE
#define TILE 16
#endif
#ifndef STEPS
#define STEPS 2
#endif
extern "C" __global__ void hotspot(int rows, int cols, float rx, float ry, float rz, float step_over_cap, float ambient,
                                   const float *__restrict__ power, const float *__restrict__ temp,
                                   float *__restrict__ out) {
  __shared__ float now[TILE][TILE], next[TILE][TILE], watts[TILE][TILE];
  const int inner = TILE - 2 * STEPS;
  int tx = threadIdx.x, ty = threadIdx.y;
  int x = blockIdx.x * inner + tx - STEPS, y = blockIdx.y * inner + ty - STEPS;
  bool inside = x >= 0 && x < cols && y >= 0 && y < rows;
  if (inside) {
    now[ty][tx] = temp[(long long)y * cols + x];
    watts[ty][tx] = power[(long long)y * cols + x];
  }
  __syncthreads();
  int w = x <= 0 ? tx : tx - 1, e = x >= cols - 1 ? tx : tx + 1;
  int n = y <= 0 ? ty : ty - 1, s = y >= rows - 1 ? ty : ty + 1;
  for (int t = 1; t <= STEPS; t++) {
    bool live = inside && tx >= t && tx < TILE - t && ty >= t && ty < TILE - t;
    if (live) {
      float c = now[ty][tx];
      next[ty][tx] = c + step_over_cap * (watts[ty][tx] + (now[s][tx] + now[n][tx] - 2.0f * c) * ry +
                                          (now[ty][e] + now[ty][w] - 2.0f * c) * rx + (ambient - c) * rz);
    }
    __syncthreads();
    if (live)
      now[ty][tx] = next[ty][tx];
    __syncthreads();
  }
  if (inside && tx >= STEPS && tx < TILE - STEPS && ty >= STEPS && ty < TILE - STEPS)
    out[(long long)y * cols + x] = now[ty][tx];
}
