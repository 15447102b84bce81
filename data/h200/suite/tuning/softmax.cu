// The softmax of every row of a matrix; THREADS threads share a row and a block has ROWS of them. KEEP: a thread keeps
// its elements in registers between the passes. COLUMNS is a multiple of THREADS * VECTOR.
#ifndef THREADS
#define THREADS 128
#define ROWS 1
#define VECTOR 1
#define KEEP 1
#endif
#ifndef COLUMNS
#define COLUMNS 1024
#endif
#define EACH (COLUMNS / (THREADS * VECTOR))
#define WARPS ((THREADS + 31) / 32)

struct alignas(4 * VECTOR) Vector {
  float of[VECTOR];
};

template <class Join> static __device__ float of_row(float value, float *of_warp, Join join) {
#pragma unroll
  for (int lane = (THREADS < 32 ? THREADS : 32) / 2; lane; lane /= 2)
    value = join(value, __shfl_xor_sync(0xffffffff, value, lane));
  if (WARPS == 1)
    return value;
  __syncthreads();
  if (threadIdx.x % 32 == 0)
    of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  value = of_warp[0];
#pragma unroll
  for (int w = 1; w < WARPS; ++w)
    value = join(value, of_warp[w]);
  return value;
}

extern "C" __global__ void __launch_bounds__(THREADS *ROWS) softmax(const float *in, float *out) {
  __shared__ float of_warp[ROWS][WARPS];
  int row = blockIdx.x * ROWS + threadIdx.y;
  const Vector *from = (const Vector *)(in + row * COLUMNS);
  Vector *to = (Vector *)(out + row * COLUMNS);
#if KEEP
  Vector kept[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    kept[i] = from[i * THREADS + threadIdx.x];
#define ELEMENTS(i) kept[i]
#else
#define ELEMENTS(i) from[(i) * THREADS + threadIdx.x]
#endif
  float largest = -1e30f, sum = 0;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    Vector v = ELEMENTS(i);
#pragma unroll
    for (int j = 0; j < VECTOR; ++j)
      largest = fmaxf(largest, v.of[j]);
  }
  largest = of_row(largest, of_warp[threadIdx.y], [](float a, float b) { return fmaxf(a, b); });
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    Vector v = ELEMENTS(i);
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) {
      v.of[j] = __expf(v.of[j] - largest);
      sum += v.of[j];
    }
#if KEEP
    kept[i] = v;
#endif
  }
  float scale = 1 / of_row(sum, of_warp[threadIdx.y], [](float a, float b) { return a + b; });
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    Vector v = ELEMENTS(i);
#pragma unroll
    for (int j = 0; j < VECTOR; ++j)
#if KEEP
      v.of[j] *= scale;
#else
      v.of[j] = __expf(v.of[j] - largest) * scale;
#endif
    to[i * THREADS + threadIdx.x] = v;
  }
}
