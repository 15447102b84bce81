// Particles to a grid, cloud in cell: four atomic additions each; the order of particles decides how much they collide.
extern "C" __global__ void charge_deposit(int particles, int side, const float *__restrict__ px,
                                          const float *__restrict__ py, const float *__restrict__ charge, float *out_grid) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= particles)
    return;
  float x = px[i] * (side - 2), y = py[i] * (side - 2), q = charge[i];
  int cx = (int)x, cy = (int)y;
  float fx = x - cx, fy = y - cy;
  float *cell = out_grid + (size_t)cy * side + cx;
  atomicAdd(cell, q * (1 - fx) * (1 - fy));
  atomicAdd(cell + 1, q * fx * (1 - fy));
  atomicAdd(cell + side, q * (1 - fx) * fy);
  atomicAdd(cell + side + 1, q * fx * fy);
}
