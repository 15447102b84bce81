// What the first instructions of a kernel cost: kernels of one warp per block, timed by events in a full queue.
//   nvcc -O3 -arch=sm_90 -o start data/h200/start.cu && ./start > start.jsonl && ./start flushed > flushed.jsonl
// flushed: before each of them 256 MB are read, so that neither its data nor its code and arguments are in L2.
#include <cstdio>
#include <cstdlib>
#include <algorithm>
#include <vector>
#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
__global__ void delay(long long ns) { unsigned long long a, b; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(a)); do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(b)); } while (b - a < ns); }
__global__ void empty() {}
__global__ void store(int* p) { p[blockIdx.x * blockDim.x + threadIdx.x] = 1; }
__global__ void copy(const int* a, int* p) { int i = blockIdx.x * blockDim.x + threadIdx.x; p[i] = a[i]; }
__global__ void chase(const int* a, int* p, int n) { int x = threadIdx.x; for (int i = 0; i < n; i++) x = a[x]; p[blockIdx.x * blockDim.x + threadIdx.x] = x; }
__global__ void stamps(long long* p, int n) {  // cycles at the start and after n turns of nothing
  long long t = clock64(); p[blockIdx.x] = t;
}
template <int N> __global__ void straight(float* p, float a, float b) {
  float x = a;
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(b));
  p[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
__global__ void read(const float4* p, float* q, int n) {
  float x = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x += p[i].x + p[i].w;
  if (x == 1.5f) *q = x;
}
static cudaEvent_t a, b;
static float4* large = nullptr;  // read to flush L2, where asked for
template <typename F> void time(const char* name, int n, int blocks, int threads, F f) {
  std::vector<float> all;
  for (int i = 0; i < 21; i++) {
    if (large) read<<<1056, 256>>>(large, (float*)large, 1 << 24);
    delay<<<1, 1>>>(100000);
    CHECK(cudaEventRecord(a)); f(); CHECK(cudaEventRecord(b)); CHECK(cudaEventSynchronize(b));
    float ms; CHECK(cudaEventElapsedTime(&ms, a, b)); if (i) all.push_back(ms * 1e3f);
  }
  std::sort(all.begin(), all.end());
  printf("{\"kernel\": \"%s\", \"n\": %d, \"blocks\": %d, \"threads\": %d, \"us\": %.3f, \"least_us\": %.3f}\n", name, n, blocks, threads, all[all.size() / 2], all[0]);
}
template <int N> void line(float* p) { for (int blocks : {1, 132}) for (int threads : {32, 128, 512}) time("straight", N, blocks, threads, [&] { straight<N><<<blocks, threads>>>(p, 1.f, 2.f); }); }
int main(int count, char**) {
  if (count > 1) { CHECK(cudaMalloc(&large, 1 << 28)); CHECK(cudaMemset(large, 0, 1 << 28)); }
  int* p; int* q; CHECK(cudaMalloc(&p, 1 << 26)); CHECK(cudaMalloc(&q, 1 << 26)); CHECK(cudaMemset(p, 0, 1 << 26));
  CHECK(cudaEventCreate(&a)); CHECK(cudaEventCreate(&b));
  for (int blocks : {1, 132, 1056}) for (int threads : {32, 256, 1024}) {
    time("empty", 0, blocks, threads, [&] { empty<<<blocks, threads>>>(); });
    time("store", 0, blocks, threads, [&] { store<<<blocks, threads>>>(q); });
    time("copy", 0, blocks, threads, [&] { copy<<<blocks, threads>>>(p, q); });
    for (int n : {1, 2, 4, 8}) time("chase", n, blocks, threads, [&] { chase<<<blocks, threads>>>(p, q, n); });
  }
  line<8>((float*)q); line<32>((float*)q); line<64>((float*)q); line<128>((float*)q); line<256>((float*)q); line<512>((float*)q); line<1024>((float*)q); line<2048>((float*)q); line<4096>((float*)q); line<8192>((float*)q);
  return 0;
}
