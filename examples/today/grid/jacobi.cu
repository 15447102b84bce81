// One Jacobi step of Poisson's equation in double precision, with the largest change of each block.
// Stresses DRAM with eight-byte words, fp64 and a reduction by shuffles and shared memory.
extern "C" __global__ void jacobi(int width, int height, const double *u, const double *f, double *out,
                                  double *out_change) {
  __shared__ double largest[32];
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  double change = 0;
  if (x < width && y < height) {
    int at = y * width + x;
    double old = u[at], now = old;
    if (x > 0 && x < width - 1 && y > 0 && y < height - 1)
      now = 0.25 * (u[at - 1] + u[at + 1] + u[at - width] + u[at + width] + f[at]);
    out[at] = now;
    change = fabs(now - old);
  }
  int thread = threadIdx.y * blockDim.x + threadIdx.x, warps = blockDim.x * blockDim.y / 32;
  for (int step = 16; step > 0; step /= 2)
    change = fmax(change, __shfl_xor_sync(0xFFFFFFFF, change, step));
  if (thread % 32 == 0)
    largest[thread / 32] = change;
  __syncthreads();
  if (thread == 0) {
    for (int warp = 1; warp < warps; warp++)
      change = fmax(change, largest[warp]);
    out_change[blockIdx.y * gridDim.x + blockIdx.x] = change;
  }
}
