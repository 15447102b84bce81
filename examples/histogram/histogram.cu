// A histogram per block in shared memory, which the blocks leave in global memory one after the other.
constexpr int BINS = 256;

extern "C" __global__ void histogram(int n, const int *values, unsigned *out) {
  __shared__ unsigned counts[BINS];
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
    counts[bin] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&counts[values[i]], 1u);
  __syncthreads();
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
    out[blockIdx.x * BINS + bin] = counts[bin];
}
