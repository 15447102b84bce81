// On which SM each block of a grid runs: one line per size of dynamic shared memory (1, 2, 4, 8 and 8 blocks per SM).
//   nvcc -arch=sm_90 -O3 -o blocks blocks.cu && ./blocks
#include <cstdio>

__global__ void where(int* sm, int spin) {
  unsigned id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  long long start = clock64();
  while (clock64() - start < spin) {
  }
  if (threadIdx.x == 0) sm[blockIdx.x] = id;
}

int main() {
  const int blocks = 132 * 20;
  int* sm;
  cudaMallocManaged(&sm, blocks * sizeof(int));
  for (int shared : {200000, 100000, 50000, 25000, 0}) {
    cudaFuncSetAttribute(where, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    where<<<blocks, 256, shared>>>(sm, 20000);
    cudaDeviceSynchronize();
    printf("%d:", shared);
    for (int i = 0; i < blocks; i++) printf(" %d", sm[i]);
    puts("");
  }
  puts(cudaGetErrorString(cudaGetLastError()));
}
