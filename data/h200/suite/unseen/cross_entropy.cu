// Cross entropy of bfloat16 logits: running maximum and sum over a row, then the loss and the gradient of each logit.
#include <cuda_bf16.h>
extern "C" __global__ void cross_entropy(int vocabulary, float scale, const __nv_bfloat162 *__restrict__ logits,
                                         const int *__restrict__ label, float *__restrict__ out_loss,
                                         __nv_bfloat162 *__restrict__ out_gradient) {
  __shared__ float s_max[32], s_sum[32];
  int pairs = vocabulary / 2, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const __nv_bfloat162 *row = logits + (size_t)blockIdx.x * pairs;
  float top = -1e30f, sum = 0.0f;
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    float2 v = __bfloat1622float2(row[i]);
    float next = fmaxf(top, fmaxf(v.x, v.y));
    sum = sum * __expf(top - next) + __expf(v.x - next) + __expf(v.y - next);
    top = next;
  }
  for (int d = 16; d > 0; d >>= 1) {
    float t = __shfl_xor_sync(0xffffffffu, top, d), s = __shfl_xor_sync(0xffffffffu, sum, d);
    float next = fmaxf(top, t);
    sum = sum * __expf(top - next) + s * __expf(t - next);
    top = next;
  }
  if (lane == 0) {
    s_max[warp] = top;
    s_sum[warp] = sum;
  }
  __syncthreads();
  int warps = blockDim.x >> 5;
  top = lane < warps ? s_max[lane] : -1e30f;
  sum = lane < warps ? s_sum[lane] : 0.0f;
  for (int d = 16; d > 0; d >>= 1) {
    float t = __shfl_xor_sync(0xffffffffu, top, d), s = __shfl_xor_sync(0xffffffffu, sum, d);
    float next = fmaxf(top, t);
    sum = sum * __expf(top - next) + s * __expf(t - next);
    top = next;
  }
  float lse = top + logf(sum);
  int target = label[blockIdx.x];
  if (threadIdx.x == 0)
    out_loss[blockIdx.x] = lse - __bfloat162float(((const __nv_bfloat16 *)row)[target]);
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    float2 v = __bfloat1622float2(row[i]);
    float a = __expf(v.x - lse) - (2 * i == target ? 1.0f : 0.0f);
    float b = __expf(v.y - lse) - (2 * i + 1 == target ? 1.0f : 0.0f);
    out_gradient[(size_t)blockIdx.x * pairs + i] = __floats2bfloat162_rn(a * scale, b * scale);
  }
}
