// As rows.cu with one row and plain accesses: what a turn takes whose load waits, where nobody stores, where the same warp
// stores, and where every other warp of a block does nothing but store, and the rest nothing but load.
//   nvcc -O3 -arch=sm_90 -o apart data/h200/apart.cu && ./apart
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
template <int WAY> __global__ void __launch_bounds__(256) turns(const float *in, float *out, int turns, unsigned long long *took) {
  size_t pitch = (size_t)gridDim.x * 256, at = (size_t)blockIdx.x * 256 + threadIdx.x;
  float sum = 0; bool loads = WAY != 1 || (threadIdx.x / 32) % 2 == 0, stores = WAY != 3 && (WAY != 1 || !loads);
  long long start = clock64();
  for (int t = 0; t < turns; t++, at += pitch) {
    float v = 0;
    if (loads) { v = __ldcg(in + at); sum = sum * 0.5f + v; }
    else { long long until = clock64() + 900; while (clock64() < until) ; }  // stores at about the rate of the loads
    if (loads && sum == 12345.0f) out[0] = sum;  // waits
    if (stores) __stcg(out + at, sum + t);
  }
  if (loads && threadIdx.x % 32 == 0) atomicAdd(took, (unsigned long long)(clock64() - start));
}
static int printed = 0;
template <int WAY> void run(const float *in, float *out, unsigned long long *took, int per_sm, const char *name) {
  unsigned blocks = 132 * per_sm; double cycles[2]; float ms[2];
  cudaEvent_t a, b; CHECK(cudaEventCreate(&a)); CHECK(cudaEventCreate(&b));
  for (int h = 0; h < 2; h++) {
    double best[5]; float m[5];
    for (int r = 0; r < 6; r++) {
      CHECK(cudaMemset(took, 0, 8)); CHECK(cudaEventRecord(a)); turns<WAY><<<blocks, 256>>>(in, out, 128 << h, took); CHECK(cudaEventRecord(b)); CHECK(cudaEventSynchronize(b));
      unsigned long long c; CHECK(cudaMemcpy(&c, took, 8, cudaMemcpyDeviceToHost)); float t; CHECK(cudaEventElapsedTime(&t, a, b));
      if (r) { best[r - 1] = (double)c / blocks / (WAY == 1 ? 4 : 8); m[r - 1] = t; }
    }
    std::sort(best, best + 5); std::sort(m, m + 5); cycles[h] = best[2]; ms[h] = m[2];
  }
  printf("%s{\"way\": \"%s\", \"blocks_per_sm\": %d, \"cycles_per_turn\": %.1f, \"ns_per_turn\": %.1f}", printed++ ? ",\n" : "\n", name, per_sm, (cycles[1] - cycles[0]) / 128, (ms[1] - ms[0]) * 1e6 / 128);
}
int main() {
  float *in, *out; unsigned long long *took; size_t bytes = 320ull << 20;
  CHECK(cudaMalloc(&in, bytes)); CHECK(cudaMalloc(&out, bytes)); CHECK(cudaMalloc(&took, 8)); CHECK(cudaMemset(in, 0, bytes)); CHECK(cudaMemset(out, 0, bytes));
  printf("{\"points\": [");
  for (int per_sm : {3, 4, 6, 8}) { run<3>(in, out, took, per_sm, "no stores"); run<0>(in, out, took, per_sm, "same warp"); run<1>(in, out, took, per_sm, "other warps"); }
  printf("\n]}\n");
}
