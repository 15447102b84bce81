// Histogram of bytes: 256 bins in shared memory per block, then added to the global ones.
extern "C" __global__ void hist_bytes(int words, const uchar4 *__restrict__ in, unsigned *out_bins) {
  __shared__ unsigned bins[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    bins[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
    uchar4 v = in[i];
    atomicAdd(&bins[v.x], 1u);
    atomicAdd(&bins[v.y], 1u);
    atomicAdd(&bins[v.z], 1u);
    atomicAdd(&bins[v.w], 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    if (bins[i])
      atomicAdd(&out_bins[i], bins[i]);
}
