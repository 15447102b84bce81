// Histograms of whole numbers in one array of counts.
// global: an atomic addition in L2 for each value. private: counts in shared memory first, then one addition per bin
// and block. Stresses atomics: spread over many addresses, over few, or all at one.
#ifndef BINS
#define BINS 256
#endif

extern "C" __global__ void histogram_global(int n, const unsigned *values, unsigned *out) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&out[values[i] % BINS], 1u);
}

#if BINS <= 8192 // what shared memory holds
extern "C" __global__ void histogram_private(int n, const unsigned *values, unsigned *out) {
  __shared__ unsigned counts[BINS];
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
    counts[bin] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&counts[values[i] % BINS], 1u);
  __syncthreads();
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
    if (counts[bin] > 0)
      atomicAdd(&out[bin], counts[bin]);
}
#endif
