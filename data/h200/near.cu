// Neighbouring SMs that read the same past L1, with 1 to 16 blocks on each: how much do their requests meet before L2?
//   The r-th block of `size` neighbouring SMs read the same; blocks of one SM read different things. To be counted by ncu.
#include <cstdio>
__global__ void near(const uint4 *x, unsigned *out, int size, int lines, int passes, int step) {
  int sm = blockIdx.x % 132, turn = blockIdx.x / 132;
  const uint4 *own = x + (long long)(sm / size + turn * 132) * lines * 8;
  unsigned sum = 0;
  for (int p = 0; p < passes; p++)
    for (int i = threadIdx.x; i < lines * 8; i += blockDim.x * 4) {
      uint4 v[4];
#pragma unroll
      for (int k = 0; k < 4; k++) v[k] = __ldcg(own + i + k * blockDim.x);
#pragma unroll
      for (int k = 0; k < 4; k++) sum ^= v[k].x + v[k].y + v[k].z + v[k].w;
      if (step) __syncthreads();
    }
  if (sum == 12345) out[blockIdx.x] = sum;
}
int main() {
  uint4 *x;
  unsigned *out;
  cudaMalloc(&x, (size_t)132 * 16 * 16384), cudaMalloc(&out, 1 << 20), cudaMemset(x, 0, (size_t)132 * 16 * 16384);
  cudaFuncSetAttribute(near, cudaFuncAttributeMaxDynamicSharedMemorySize, 220000);
  for (int step : {0, 1})
    for (int blocks : {1, 2, 4, 8, 16})
      for (int size : {1, 2, 4, 12, 132}) {
        near<<<132 * blocks, 128, 220000 / blocks - 1024>>>(x, out, size, 128, 512 / blocks, step), cudaDeviceSynchronize();
        printf("step %d blocks %d size %d\n", step, blocks, size);
      }
  puts(cudaGetErrorString(cudaGetLastError()));
}
