// The sum of an array, one partial sum per block: seven steps from a naive kernel to a good one.
constexpr int BLOCK = 256;

// What a thread brings along: its element, or zero behind the end.
__device__ float element(const float *x, int i, int n) { return i < n ? x[i] : 0; }

// K0: interleaved. Every second, fourth, ... thread works, so all warps diverge.
extern "C" __global__ void reduce0(int n, const float *x, float *out) {
  __shared__ float sums[BLOCK];
  int t = threadIdx.x;
  sums[t] = element(x, blockIdx.x * BLOCK + t, n);
  __syncthreads();
  for (int stride = 1; stride < blockDim.x; stride *= 2) {
    if (t % (2 * stride) == 0)
      sums[t] += sums[t + stride];
    __syncthreads();
  }
  if (t == 0)
    out[blockIdx.x] = sums[0];
}

// K1: the first threads work, on the same elements. Warps stay together, but meet in the same banks.
extern "C" __global__ void reduce1(int n, const float *x, float *out) {
  __shared__ float sums[BLOCK];
  int t = threadIdx.x;
  sums[t] = element(x, blockIdx.x * BLOCK + t, n);
  __syncthreads();
  for (int stride = 1; stride < blockDim.x; stride *= 2) {
    int at = 2 * stride * t;
    if (at < blockDim.x)
      sums[at] += sums[at + stride];
    __syncthreads();
  }
  if (t == 0)
    out[blockIdx.x] = sums[0];
}

// K2: sequential. Neighbouring threads use neighbouring banks.
extern "C" __global__ void reduce2(int n, const float *x, float *out) {
  __shared__ float sums[BLOCK];
  int t = threadIdx.x;
  sums[t] = element(x, blockIdx.x * BLOCK + t, n);
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (t < stride)
      sums[t] += sums[t + stride];
    __syncthreads();
  }
  if (t == 0)
    out[blockIdx.x] = sums[0];
}

// K3: the first addition while loading. Half as many blocks, and no thread that only loads.
extern "C" __global__ void reduce3(int n, const float *x, float *out) {
  __shared__ float sums[BLOCK];
  int t = threadIdx.x, i = blockIdx.x * 2 * BLOCK + t;
  sums[t] = element(x, i, n) + element(x, i + BLOCK, n);
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (t < stride)
      sums[t] += sums[t + stride];
    __syncthreads();
  }
  if (t == 0)
    out[blockIdx.x] = sums[0];
}

// The sum of 64 elements by one warp, without barriers of the block.
__device__ float warp_sum(const float *sums, int lane) {
  float sum = sums[lane] + sums[lane + 32];
#pragma unroll
  for (int stride = 16; stride > 0; stride /= 2)
    sum += __shfl_down_sync(0xFFFFFFFF, sum, stride);
  return sum;
}

// K4: the last warp unrolled.
extern "C" __global__ void reduce4(int n, const float *x, float *out) {
  __shared__ float sums[BLOCK];
  int t = threadIdx.x, i = blockIdx.x * 2 * BLOCK + t;
  sums[t] = element(x, i, n) + element(x, i + BLOCK, n);
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 32; stride /= 2) {
    if (t < stride)
      sums[t] += sums[t + stride];
    __syncthreads();
  }
  if (t < 32) {
    float sum = warp_sum(sums, t);
    if (t == 0)
      out[blockIdx.x] = sum;
  }
}

// The tree of a block whose size the compiler knows: no loop is left.
template <int SIZE> __device__ void block_sum(float *sums, int t, float *out) {
#pragma unroll
  for (int stride = SIZE / 2; stride > 32; stride /= 2) {
    if (t < stride)
      sums[t] += sums[t + stride];
    __syncthreads();
  }
  if (t < 32) {
    float sum = warp_sum(sums, t);
    if (t == 0)
      *out = sum;
  }
}

// K5: all unrolled.
extern "C" __global__ void reduce5(int n, const float *x, float *out) {
  __shared__ float sums[BLOCK];
  int t = threadIdx.x, i = blockIdx.x * 2 * BLOCK + t;
  sums[t] = element(x, i, n) + element(x, i + BLOCK, n);
  __syncthreads();
  block_sum<BLOCK>(sums, t, out + blockIdx.x);
}

// K6: many elements per thread, and as many blocks as the GPU holds.
extern "C" __global__ void reduce6(int n, const float *x, float *out) {
  __shared__ float sums[BLOCK];
  int t = threadIdx.x;
  float sum = 0;
  for (int i = blockIdx.x * 2 * BLOCK + t; i < n; i += gridDim.x * 2 * BLOCK)
    sum += element(x, i, n) + element(x, i + BLOCK, n);
  sums[t] = sum;
  __syncthreads();
  block_sum<BLOCK>(sums, t, out + blockIdx.x);
}
