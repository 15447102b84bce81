// Lookups of L2 for translation: one word of random lines of arrays of 64 MiB to 32 GiB, to be counted by ncu.
#include <cstdio>
__device__ unsigned mixed(unsigned x) { x ^= x >> 16, x *= 0x7feb352du; x ^= x >> 15, x *= 0x846ca68bu; return x ^ x >> 16; }
__global__ void walk(const float *a, unsigned long long n, float *out, int per) {
  float sum = 0;
  unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = 0; k < per; k++) sum += __ldcg(a + (mixed(thread * 1024u + k) * n >> 32));
  if (sum == 123.456f) *out = sum;
}
int main() {
  float *a, *out;
  cudaMalloc(&a, (size_t)32 << 30), cudaMalloc(&out, 4), cudaMemset(a, 0, (size_t)32 << 30);
  for (int mebibytes : {64, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192, 32768}) {
    walk<<<1056, 256>>>(a, (unsigned long long)mebibytes << 18, out, 64), cudaDeviceSynchronize(), printf("%d\n", mebibytes);
  }
  puts(cudaGetErrorString(cudaGetLastError()));
}
