// Layer norm backward, the parameters' part: sums over a chunk of rows of dy and of dy * normalized x, per column.
#include <cuda_fp16.h>
extern "C" __global__ void layernorm_bwd(int rows, int cols, int chunk, const float *__restrict__ x,
                                         const __half *__restrict__ dy, const float *__restrict__ mean,
                                         const float *__restrict__ rstd, float *__restrict__ out_gamma,
                                         float *__restrict__ out_beta) {
  __shared__ float sg[32][33], sb[32][33];
  int col = blockIdx.x * 32 + threadIdx.x;
  int first = blockIdx.y * chunk, last = min(first + chunk, rows);
  float g = 0.0f, b = 0.0f;
  if (col < cols)
    for (int r = first + threadIdx.y; r < last; r += blockDim.y) {
      float d = __half2float(dy[(size_t)r * cols + col]);
      g += d * (x[(size_t)r * cols + col] - mean[r]) * rstd[r];
      b += d;
    }
  sg[threadIdx.y][threadIdx.x] = g;
  sb[threadIdx.y][threadIdx.x] = b;
  __syncthreads();
  for (int h = blockDim.y >> 1; h; h >>= 1) {
    if (threadIdx.y < h) {
      sg[threadIdx.y][threadIdx.x] += sg[threadIdx.y + h][threadIdx.x];
      sb[threadIdx.y][threadIdx.x] += sb[threadIdx.y + h][threadIdx.x];
    }
    __syncthreads();
  }
  if (threadIdx.y == 0 && col < cols) {
    out_gamma[(size_t)blockIdx.y * cols + col] = sg[0][threadIdx.x];
    out_beta[(size_t)blockIdx.y * cols + col] = sb[0][threadIdx.x];
  }
}
