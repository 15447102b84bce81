// A row after the other by blocks of 256 threads, a word each: what a turn takes that waits for its load, and stores or
// does not, by blocks per SM. Blocks side by side make rows of 4096 words, or all of the grid one row.
//   nvcc -O3 -arch=sm_90 -o rows data/h200/rows.cu && ./rows
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)

// STORES of 4 turns store; the next load goes behind the store, which has to wait for the load before it.
template <int STORES> __global__ void __launch_bounds__(256) rows(const float *in, float *out, unsigned across, unsigned pitch, unsigned shift, int turns) {
  size_t at = (size_t)(blockIdx.x / across) * turns * pitch + (blockIdx.x % across) * 256 + threadIdx.x + shift;
  volatile const float *from = in; volatile float *to = out; float sum = 0;
  for (int t = 0; t < turns; t += 4) {
#pragma unroll
    for (int k = 0; k < 4; k++, at += pitch) {
      sum += from[at];
      if (k < STORES) to[at] = sum;
      else if (sum == 12345.0f) to[0] = sum;  // waits all the same
    }
  }
}
static int printed = 0;
template <int STORES> void run(const float *in, float *out, int per_sm, int one_row, unsigned shift) {
  cudaEvent_t a, b; CHECK(cudaEventCreate(&a)); CHECK(cudaEventCreate(&b));
  unsigned blocks = 132 * per_sm, across = one_row ? blocks : 16, pitch = across * 256 + (shift ? 2 : 0);
  float ms[2][5];
  for (int h = 0; h < 2; h++) for (int r = 0; r < 6; r++) {
    CHECK(cudaEventRecord(a));
    rows<STORES><<<blocks, 256>>>(in, out, across, pitch, shift, 128 << h);
    CHECK(cudaEventRecord(b)); CHECK(cudaEventSynchronize(b));
    float t; CHECK(cudaEventElapsedTime(&t, a, b)); if (r) ms[h][r - 1] = t;
  }
  for (int h = 0; h < 2; h++) std::sort(ms[h], ms[h] + 5);
  double ns = (ms[1][2] - ms[0][2]) * 1e6 / 128;
  printf("%s{\"stores_of_4\": %d, \"blocks_per_sm\": %d, \"one_row\": %d, \"shift\": %u, \"ns_per_turn\": %.1f, \"tb_per_s\": %.3f}", printed++ ? ",\n" : "\n",
         STORES, per_sm, one_row, shift, ns, 1e-3 * blocks * 1024 * (1 + STORES / 4.0) / ns);
}
int main() {
  float *in, *out; size_t bytes = 320ull << 20;
  CHECK(cudaMalloc(&in, bytes)); CHECK(cudaMalloc(&out, bytes)); CHECK(cudaMemset(in, 0, bytes)); CHECK(cudaMemset(out, 0, bytes));
  printf("{\"gpu\": \"NVIDIA H200\", \"points\": [");
  for (int per_sm : {1, 2, 3, 4, 5, 6, 7, 8}) for (int one_row : {0, 1}) for (unsigned shift : {0u, 1u}) {
    run<0>(in, out, per_sm, one_row, shift); run<1>(in, out, per_sm, one_row, shift);
    run<2>(in, out, per_sm, one_row, shift); run<4>(in, out, per_sm, one_row, shift);
  }
  printf("\n]}\n");
}
