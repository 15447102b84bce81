// Histogram of bytes: shared atomics per block, then one global atomic per bin that is not empty.
extern "C" __global__ void histo_shared(int words, const unsigned *__restrict__ data, unsigned *__restrict__ out_bins) {
  __shared__ unsigned bins[256];
  for (int b = threadIdx.x; b < 256; b += blockDim.x)
    bins[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
    unsigned w = data[i];
    atomicAdd(bins + (w & 255), 1u);
    atomicAdd(bins + (w >> 8 & 255), 1u);
    atomicAdd(bins + (w >> 16 & 255), 1u);
    atomicAdd(bins + (w >> 24), 1u);
  }
  __syncthreads();
  for (int b = threadIdx.x; b < 256; b += blockDim.x)
    if (bins[b])
      atomicAdd(out_bins + b, bins[b]);
}
