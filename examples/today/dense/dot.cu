// The dot product of two vectors in two stages of one launch: a sum per block, and the last block to finish adds these.
// Stresses DRAM bandwidth, then the latency of a fence, an atomic and a reduction at the end.
__device__ float block_sum(float sum) {
  __shared__ float sums[32];
  for (int step = 16; step > 0; step /= 2)
    sum += __shfl_xor_sync(0xFFFFFFFF, sum, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0)
    sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0;
  if (threadIdx.x < 32)
    for (int step = 16; step > 0; step /= 2)
      sum += __shfl_xor_sync(0xFFFFFFFF, sum, step);
  return sum; // in the first warp
}

extern "C" __global__ void dot(int n, const float4 *x, const float4 *y, unsigned *out_ticket, float *out_partial,
                               float *out) {
  __shared__ bool last;
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float4 a = x[i], b = y[i];
    sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    out_partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(out_ticket, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last)
    return;
  __threadfence();
  sum = 0;
  for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x)
    sum += ((volatile float *)out_partial)[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    *out = sum;
    *out_ticket = 0; // for the next launch
  }
}
