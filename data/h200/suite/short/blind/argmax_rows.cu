// Greedy sampling: the place of the largest of a row of logits, one block per row; ties go to the smaller index.
__device__ __forceinline__ void better(float &v, int &at, float w, int b) {
  if (w > v || (w == v && b < at)) {
    v = w;
    at = b;
  }
}
extern "C" __global__ void argmax_rows(int cols, const float *__restrict__ logits, int *__restrict__ out) {
  __shared__ float values[32];
  __shared__ int places[32];
  const float *row = logits + (size_t)blockIdx.x * cols;
  float v = -1e30f;
  int at = 0x7fffffff;
  for (int c = threadIdx.x; c < cols; c += blockDim.x)
    better(v, at, row[c], c);
  for (int o = 16; o; o >>= 1)
    better(v, at, __shfl_down_sync(~0u, v, o), __shfl_down_sync(~0u, at, o));
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  if (lane == 0) {
    values[warp] = v;
    places[warp] = at;
  }
  __syncthreads();
  if (warp)
    return;
  v = lane < (blockDim.x >> 5) ? values[lane] : -1e30f;
  at = lane < (blockDim.x >> 5) ? places[lane] : 0x7fffffff;
  for (int o = 16; o; o >>= 1)
    better(v, at, __shfl_down_sync(~0u, v, o), __shfl_down_sync(~0u, at, o));
  if (lane == 0)
    out[blockIdx.x] = at;
}
