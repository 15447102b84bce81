// Stores of 4 bytes to rows of a table, a column per block: what it costs that other SMs write the same sectors and lines at the same time.
//   nvcc -O3 -arch=sm_90 -o neighbours data/h200/neighbours.cu && ./neighbours > neighbours.json
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
// Each block goes through columns `gap` words apart from those of the next block: rows x columns words in all.
template <int KIND> __global__ void __launch_bounds__(256) columns(unsigned *out, int rows, unsigned wide, int trips, int gap, unsigned spread) {
  unsigned sum = 0;
  for (int t = 0; t < trips; t++) {
    unsigned column = ((unsigned)(t * gridDim.x + blockIdx.x) * gap + (unsigned)(t * spread)) % wide;
    for (int r = threadIdx.x; r < rows; r += 256) {
      unsigned *p = out + (size_t)r * wide + column;
      if (KIND == 0) *p = t;
      if (KIND == 1) sum += __ldcg(p);
      if (KIND == 2) atomicAdd(p, 1);
    }
  }
  if (sum == 0x12345678) out[0] = 0;
}
static int first = 1;
template <int KIND> void run(unsigned *out, int rows, unsigned wide, int gap, int blocks) {
  cudaEvent_t a, b; CHECK(cudaEventCreate(&a)); CHECK(cudaEventCreate(&b));
  int trips = 200; float best[2] = {1e9f, 1e9f};
  for (int r = 0; r < 4; r++) for (int h = 0; h < 2; h++) {
    CHECK(cudaEventRecord(a)); columns<KIND><<<blocks, 256>>>(out, rows, wide, trips << h, gap, 0); CHECK(cudaEventRecord(b));
    CHECK(cudaEventSynchronize(b)); float ms; CHECK(cudaEventElapsedTime(&ms, a, b)); best[h] = std::min(best[h], ms);
  }
  double ps = (best[1] - best[0]) * 1e9 / ((double)trips * blocks * rows);
  printf("%s\n{\"kind\": \"%s\", \"rows\": %d, \"columns\": %u, \"gap_words\": %d, \"blocks\": %d, \"picoseconds_each\": %.3f}", first ? "" : ",",
         KIND == 0 ? "store" : KIND == 1 ? "load" : "reduce", rows, wide, gap, blocks, ps);
  first = 0;
}
int main() {
  unsigned *out; CHECK(cudaMalloc(&out, 1ull << 30)); CHECK(cudaMemset(out, 0, 1ull << 30));
  printf("{\"points\": [");
  for (unsigned wide : {16384u, 131072u}) for (int blocks : {132, 264, 1056}) for (int gap : {1, 2, 4, 8, 16, 32, 64}) {
    run<0>(out, 256, wide, gap, blocks); run<1>(out, 256, wide, gap, blocks);
    if (blocks == 1056) run<2>(out, 256, wide, gap, blocks);
  }
  for (int rows : {1024, 64}) for (int gap : {1, 8, 32}) run<0>(out, rows, 16384u, gap, 1056);
  printf("\n]}\n");
}
