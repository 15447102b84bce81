// The eight greatest of each row: sorted lists in registers, then eight rounds of the block's maximum.
#define K 8
extern "C" __global__ void topk_row(int columns, const float *__restrict__ in, float *__restrict__ out_value,
                                    int *__restrict__ out_index) {
  __shared__ float warp_best[32];
  __shared__ int warp_who[32];
  __shared__ int winner;
  float v[K];
  int at[K];
#pragma unroll
  for (int i = 0; i < K; i++) {
    v[i] = -1e30f;
    at[i] = -1;
  }
  const float *row = in + (size_t)blockIdx.x * columns;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    float x = row[c];
    if (x > v[K - 1]) {
      v[K - 1] = x;
      at[K - 1] = c;
#pragma unroll
      for (int i = K - 1; i > 0; i--)
        if (v[i] > v[i - 1]) {
          float t = v[i];
          v[i] = v[i - 1];
          v[i - 1] = t;
          int s = at[i];
          at[i] = at[i - 1];
          at[i - 1] = s;
        }
    }
  }
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  for (int k = 0; k < K; k++) {
    float best = v[0];
    int who = threadIdx.x;
    for (int d = 16; d > 0; d >>= 1) {
      float other = __shfl_xor_sync(0xffffffffu, best, d);
      int name = __shfl_xor_sync(0xffffffffu, who, d);
      if (other > best || (other == best && name < who)) {
        best = other;
        who = name;
      }
    }
    if (lane == 0) {
      warp_best[warp] = best;
      warp_who[warp] = who;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int w = 0;
      for (int i = 1; i < warps; i++)
        if (warp_best[i] > warp_best[w])
          w = i;
      winner = warp_who[w];
    }
    __syncthreads();
    if (threadIdx.x == winner) {
      out_value[blockIdx.x * K + k] = v[0];
      out_index[blockIdx.x * K + k] = at[0];
#pragma unroll
      for (int i = 0; i < K - 1; i++) {
        v[i] = v[i + 1];
        at[i] = at[i + 1];
      }
      v[K - 1] = -1e30f;
    }
  }
}
