// Inclusive prefix sums within blocks of 4 x blockDim elements, and each block's total.
// Stresses DRAM bandwidth and chains of shuffles around a barrier.
extern "C" __global__ void scan(const int4 *in, int4 *out, int *out_total) {
  __shared__ int totals[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  int4 v = in[at];
  v.y += v.x;
  v.z += v.y;
  v.w += v.z;
  int sum = v.w; // of this thread and those before it in the warp
  for (int step = 1; step < 32; step *= 2) {
    int other = __shfl_up_sync(0xFFFFFFFF, sum, step);
    sum += lane >= step ? other : 0;
  }
  if (lane == 31)
    totals[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    int total = lane < warps ? totals[lane] : 0;
    for (int step = 1; step < 32; step *= 2) {
      int other = __shfl_up_sync(0xFFFFFFFF, total, step);
      total += lane >= step ? other : 0;
    }
    totals[lane] = total;
    if (lane == warps - 1)
      out_total[blockIdx.x] = total;
  }
  __syncthreads();
  int before = sum - v.w + (warp > 0 ? totals[warp - 1] : 0);
  out[at] = make_int4(v.x + before, v.y + before, v.z + before, v.w + before);
}
