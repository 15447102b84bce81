// out[block] = the sum of what the block's threads read: VECTOR floats at a time, UNROLL of these before they are added.
// n is a multiple of VECTOR.
#ifndef THREADS
#define THREADS 256
#define VECTOR 4
#define UNROLL 1
#endif
#if VECTOR == 1
typedef float Vector;
static __device__ float sum_of(Vector v) { return v; }
#elif VECTOR == 2
typedef float2 Vector;
static __device__ float sum_of(Vector v) { return v.x + v.y; }
#else
typedef float4 Vector;
static __device__ float sum_of(Vector v) { return (v.x + v.y) + (v.z + v.w); }
#endif

extern "C" __global__ void __launch_bounds__(THREADS) reduction(int n, const float *in, float *out) {
  __shared__ float of_warp[THREADS / 32];
  const Vector *vectors = (const Vector *)in;
  int count = n / VECTOR, step = gridDim.x * THREADS, i = blockIdx.x * THREADS + threadIdx.x;
  float sum = 0;
  for (; i + (UNROLL - 1) * step < count; i += UNROLL * step) {
    Vector read[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      read[u] = vectors[i + u * step];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      sum += sum_of(read[u]);
  }
  for (; i < count; i += step)
    sum += sum_of(vectors[i]);
#pragma unroll
  for (int lane = 16; lane; lane /= 2)
    sum += __shfl_down_sync(0xffffffff, sum, lane);
  if (threadIdx.x % 32 == 0)
    of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < THREADS / 32; ++w)
      sum += of_warp[w];
    out[blockIdx.x] = sum;
  }
}
