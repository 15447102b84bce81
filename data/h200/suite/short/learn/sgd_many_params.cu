// Momentum step of mixed-precision training with its sixteen parameters: clipped and scaled half gradients, weight decay,
// Nesterov's variant, a running mean of the weights and their half copy; nothing happens where the gradients overflowed.
#include <cuda_fp16.h>
extern "C" __global__ void sgd_many_params(int n, float lr, float momentum, float dampening, float decay, int nesterov,
                                           float scale, float clip, int first_step, float ema_rate,
                                           const int *__restrict__ overflowed, const __half *__restrict__ grad,
                                           float *__restrict__ out_weight, float *__restrict__ out_buffer,
                                           float *__restrict__ out_mean, __half *__restrict__ out_half) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || *overflowed)
    return;
  float w = out_weight[i];
  float g = fminf(fmaxf(__half2float(grad[i]) * scale, -clip), clip) + decay * w;
  float b = first_step ? g : momentum * out_buffer[i] + (1.0f - dampening) * g;
  out_buffer[i] = b;
  w -= lr * (nesterov ? g + momentum * b : b);
  out_weight[i] = w;
  out_mean[i] += ema_rate * (w - out_mean[i]);
  out_half[i] = __float2half(w);
}
