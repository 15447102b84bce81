// Two-point angular correlation: a histogram of the angles between all points of two catalogues of the sky, by their
// cosines. A point is a vector; a block takes BLOCK points of the first catalogue and CHUNK of the second.
constexpr int BLOCK = 128, CHUNK = 1024, BINS = 32, WARPS = BLOCK / 32;

__device__ float cosine(float3 a, float3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

// The bin of an angle, given the cosines of the bins' inner ends in falling order.
__device__ int bin_of(float c, const float *ends) {
  int low = 0, high = BINS;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (c <= ends[middle])
      low = middle;
    else
      high = middle;
  }
  return low;
}

// Baseline: the second catalogue comes from global memory, and a block has one histogram.
extern "C" __global__ void angular_baseline(const float *ends, const float3 *first, const float3 *second,
                                            unsigned *out) {
  __shared__ unsigned histogram[BINS];
  int t = threadIdx.x;
  if (t < BINS)
    histogram[t] = 0;
  __syncthreads();
  float3 mine = first[blockIdx.x * BLOCK + t];
  for (int i = 0; i < CHUNK; ++i) {
    float3 other = second[blockIdx.y * CHUNK + i];
    atomicAdd(&histogram[bin_of(cosine(mine, other), ends)], 1u);
  }
  __syncthreads();
  if (t < BINS)
    atomicAdd(&out[t], histogram[t]);
}

// Optimised: tiles of the second catalogue in shared memory (tiling), and a histogram per warp (privatisation).
extern "C" __global__ void angular_tiled(const float *ends, const float3 *first, const float3 *second,
                                         unsigned *out) {
  __shared__ unsigned histogram[WARPS][BINS];
  __shared__ float shared_ends[BINS];
  __shared__ float3 tile[BLOCK];
  int t = threadIdx.x, warp = t / 32;
  histogram[warp][t % 32] = 0; // as many bins as lanes
  if (t < BINS)
    shared_ends[t] = ends[t];
  float3 mine = first[blockIdx.x * BLOCK + t];
  for (int at = 0; at < CHUNK; at += BLOCK) {
    __syncthreads();
    tile[t] = second[blockIdx.y * CHUNK + at + t];
    __syncthreads();
    for (int i = 0; i < BLOCK; ++i)
      atomicAdd(&histogram[warp][bin_of(cosine(mine, tile[i]), shared_ends)], 1u);
  }
  __syncthreads();
  if (t < BINS) {
    unsigned sum = 0;
    for (int w = 0; w < WARPS; ++w)
      sum += histogram[w][t];
    atomicAdd(&out[t], sum);
  }
}
