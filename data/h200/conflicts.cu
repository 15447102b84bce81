// Reads of shared memory with bank conflicts among stores to it, barriers, loads that miss and stores: cycles of an SM per turn
// of a warp. Each ingredient alone and with the others.
//   nvcc -O3 -arch=sm_90 -o conflicts data/h200/conflicts.cu && ./conflicts > conflicts.json
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
// A warp's row of the tile is 32 words; lane l reads word l * pitch: the ways of the conflict are the pitch's powers of two.
template <bool STS, bool BARRIER, bool LOAD, bool STORE> __global__ void __launch_bounds__(256)
turns(const float *in, float *out, int turns, int pitch, int own) {
  __shared__ float tile[1024 + 32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  size_t step = (size_t)gridDim.x * 256, at = (size_t)blockIdx.x * 256 + threadIdx.x;
  volatile float *to = tile + warp * 32 + lane, *from = tile + lane * pitch + warp;
  float v = threadIdx.x, sum = 0;
#pragma unroll 4
  for (int t = 0; t < turns; t++, at += step) {
    if (LOAD) v = __ldcg(in + (own ? at : at % (8u << 20)));
    if (STS) *to = v;
    if (BARRIER) __syncthreads();
    float r = *from;
    if (STORE) __stcg(out + (own ? at : at % (2u << 20)), r); else sum += r;
    if (BARRIER) __syncthreads();
  }
  if (sum == 12345.0f) out[0] = sum + v;
}
static int printed = 0;
template <bool STS, bool BARRIER, bool LOAD, bool STORE> void run(float *in, float *out, int pitch, int per_sm, int own) {
  cudaEvent_t a, b; CHECK(cudaEventCreate(&a)); CHECK(cudaEventCreate(&b)); float ms[2][5];
  for (int h = 0; h < 2; h++) for (int r = 0; r < 6; r++) {
    CHECK(cudaEventRecord(a)); turns<STS, BARRIER, LOAD, STORE><<<132 * per_sm, 256>>>(in, out, 128 << h, pitch, own); CHECK(cudaEventRecord(b)); CHECK(cudaEventSynchronize(b));
    float t; CHECK(cudaEventElapsedTime(&t, a, b)); if (r) ms[h][r - 1] = t;
  }
  for (int h = 0; h < 2; h++) std::sort(ms[h], ms[h] + 5);
  printf("%s{\"shared_store\": %d, \"barrier\": %d, \"load\": %d, \"store\": %d, \"pitch\": %d, \"blocks_per_sm\": %d, \"from_dram\": %d, \"cycles\": %.2f}", printed++ ? ",\n" : "\n",
         STS, BARRIER, LOAD, STORE, pitch, per_sm, own, (ms[1][2] - ms[0][2]) * 1e-3 * 1.98e9 / 128 / (8 * per_sm));
}
int main() {
  float *in, *out; size_t bytes = 320ull << 20;
  CHECK(cudaMalloc(&in, bytes)); CHECK(cudaMalloc(&out, bytes)); CHECK(cudaMemset(in, 0, bytes)); CHECK(cudaMemset(out, 0, bytes));
  printf("{\"gpu\": \"NVIDIA H200\", \"points\": [");
  for (int per_sm : {4, 8}) for (int pitch : {1, 4, 8, 16, 32}) {
    run<0, 0, 0, 0>(in, out, pitch, per_sm, 0); run<1, 0, 0, 0>(in, out, pitch, per_sm, 0); run<1, 1, 0, 0>(in, out, pitch, per_sm, 0);
    run<0, 0, 0, 1>(in, out, pitch, per_sm, 0); run<1, 0, 1, 0>(in, out, pitch, per_sm, 0); run<1, 0, 1, 1>(in, out, pitch, per_sm, 0);
    run<1, 1, 1, 1>(in, out, pitch, per_sm, 0); run<1, 1, 1, 1>(in, out, pitch, per_sm, 1); run<1, 0, 1, 1>(in, out, pitch, per_sm, 1);
  }
  printf("\n]}\n");
}
