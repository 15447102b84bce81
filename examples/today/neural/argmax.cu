// The largest element of each row and the first place where it stands, one block per row.
// Stresses DRAM bandwidth, comparisons and a reduction of pairs at the end of each row.
constexpr float LOWEST = -3.402823466e38f;

struct Best {
  float value;
  int at;
};

__device__ Best better(Best a, Best b) {
  bool second = b.value > a.value || (b.value == a.value && b.at < a.at);
  return second ? b : a;
}

__device__ Best warp_best(Best best) {
  for (int step = 16; step > 0; step /= 2) {
    Best other = {__shfl_xor_sync(0xFFFFFFFF, best.value, step), __shfl_xor_sync(0xFFFFFFFF, best.at, step)};
    best = better(best, other);
  }
  return best;
}

extern "C" __global__ void argmax(int columns, const float *in, int *out, float *out_value) {
  __shared__ Best parts[32];
  int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  in += (long long)blockIdx.x * columns;
  Best best = {LOWEST, 0x7FFFFFFF};
#pragma unroll 4
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    Best here = {in[i], i};
    best = better(best, here);
  }
  best = warp_best(best);
  if (lane == 0)
    parts[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x < 32) {
    Best none = {LOWEST, 0x7FFFFFFF};
    best = warp_best(lane < warps ? parts[lane] : none);
    if (lane == 0) {
      out[blockIdx.x] = best.at;
      out_value[blockIdx.x] = best.value;
    }
  }
}
