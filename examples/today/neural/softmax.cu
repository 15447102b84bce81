// Softmax along the rows of a matrix.
// block: one block per row, which is read three times: for the largest element, the sum and the result.
// warp: one warp per row of COLUMNS elements, all kept in registers. Both stress DRAM, shuffles and the exponential.
#ifndef COLUMNS
#define COLUMNS 512
#endif
constexpr int FOURS = COLUMNS / 128; // 128-bit words per lane
constexpr float LOWEST = -3.402823466e38f;

__device__ float warp_max(float x) {
  for (int step = 16; step > 0; step /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFF, x, step));
  return x;
}

__device__ float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2)
    x += __shfl_xor_sync(0xFFFFFFFF, x, step);
  return x;
}

extern "C" __global__ void softmax_block(int columns, const float *in, float *out) {
  __shared__ float parts[2][32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  in += (long long)blockIdx.x * columns;
  out += (long long)blockIdx.x * columns;
  float largest = LOWEST, sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x)
    largest = fmaxf(largest, in[i]);
  largest = warp_max(largest);
  if (lane == 0)
    parts[0][warp] = largest;
  __syncthreads();
  largest = warp_max(lane < warps ? parts[0][lane] : LOWEST);
  for (int i = threadIdx.x; i < columns; i += blockDim.x)
    sum += expf(in[i] - largest);
  sum = warp_sum(sum);
  if (lane == 0)
    parts[1][warp] = sum;
  __syncthreads();
  float factor = 1 / warp_sum(lane < warps ? parts[1][lane] : 0);
  for (int i = threadIdx.x; i < columns; i += blockDim.x)
    out[i] = expf(in[i] - largest) * factor;
}

extern "C" __global__ void softmax_warp(int rows, const float4 *in, float4 *out) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows)
    return;
  float4 v[FOURS];
  float largest = LOWEST, sum = 0;
#pragma unroll
  for (int i = 0; i < FOURS; i++) {
    v[i] = in[row * (COLUMNS / 4) + i * 32 + lane];
    largest = fmaxf(fmaxf(fmaxf(largest, v[i].x), fmaxf(v[i].y, v[i].z)), v[i].w);
  }
  largest = warp_max(largest);
#pragma unroll
  for (int i = 0; i < FOURS; i++) {
    v[i] = make_float4(expf(v[i].x - largest), expf(v[i].y - largest), expf(v[i].z - largest), expf(v[i].w - largest));
    sum += v[i].x + v[i].y + v[i].z + v[i].w;
  }
  float factor = 1 / warp_sum(sum);
#pragma unroll
  for (int i = 0; i < FOURS; i++)
    out[row * (COLUMNS / 4) + i * 32 + lane] =
        make_float4(v[i].x * factor, v[i].y * factor, v[i].z * factor, v[i].w * factor);
}
