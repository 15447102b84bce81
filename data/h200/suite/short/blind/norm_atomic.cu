// Sum of squares (a gradient's norm): blocks walk the array, reduce in shared memory, and add up by one atomic each.
extern "C" __global__ void norm_atomic(int n, const float *__restrict__ in, float *out_total) {
  __shared__ float part[1024];
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    sum += in[i] * in[i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = blockDim.x >> 1; half; half >>= 1) {
    if (threadIdx.x < half)
      part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0)
    atomicAdd(out_total, part[0]);
}
