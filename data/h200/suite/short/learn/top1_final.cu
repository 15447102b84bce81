// Second stage of a top-1: every block reduces one row of (value, index) partial results, ties to the smaller index.
extern "C" __global__ void top1_final(int parts, const float *__restrict__ best, const int *__restrict__ where,
                                      float *__restrict__ out_value, int *__restrict__ out_where) {
  __shared__ float sv[32];
  __shared__ int si[32];
  const float *b = best + (size_t)blockIdx.x * parts;
  const int *w = where + (size_t)blockIdx.x * parts;
  float v = -1e30f;
  int k = 0x7fffffff;
  for (int i = threadIdx.x; i < parts; i += blockDim.x) {
    float x = b[i];
    int j = w[i];
    if (x > v || (x == v && j < k)) {
      v = x;
      k = j;
    }
  }
  for (int d = 16; d; d >>= 1) {
    float x = __shfl_xor_sync(~0u, v, d);
    int j = __shfl_xor_sync(~0u, k, d);
    if (x > v || (x == v && j < k)) {
      v = x;
      k = j;
    }
  }
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  if (lane == 0) {
    sv[warp] = v;
    si[warp] = k;
  }
  __syncthreads();
  if (warp == 0) {
    int warps = blockDim.x >> 5;
    v = lane < warps ? sv[lane] : -1e30f;
    k = lane < warps ? si[lane] : 0x7fffffff;
    for (int d = 16; d; d >>= 1) {
      float x = __shfl_xor_sync(~0u, v, d);
      int j = __shfl_xor_sync(~0u, k, d);
      if (x > v || (x == v && j < k)) {
        v = x;
        k = j;
      }
    }
    if (lane == 0) {
      out_value[blockIdx.x] = v;
      out_where[blockIdx.x] = k;
    }
  }
}
