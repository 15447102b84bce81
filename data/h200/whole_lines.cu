// Additions of warps to few lines that all share: by single lanes, by the 8 lanes of a sector, by the 32 of a line; all along,
// and once at the end of each block as sums of a block are added up.
//   nvcc -O3 -arch=sm_90 -o whole_lines data/h200/whole_lines.cu && ./whole_lines > whole_lines.json
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
// A warp adds `times` times with its first `lanes` lanes, to neighbouring words at a place of its own among `words`; `far`: each lane elsewhere.
template <bool RESULT> __global__ void along(unsigned *out, unsigned words, int lanes, int far, int times, unsigned *kept) {
  unsigned lane = threadIdx.x % 32, warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, at = warp * 2654435761u, sum = 0;
  if (lane < lanes)
    for (int t = 0; t < times; t++) {
      at = at * 1664525u + 1013904223u;
      unsigned place = far ? ((at >> 8) + lane * 2654435769u >> 3) % words : (at >> 8) % (words / lanes) * lanes + lane;
      if (RESULT) sum += atomicAdd(out + place, 1); else atomicAdd(out + place, 1);
    }
  if (sum == 0x12345678) *kept = sum;
}
// Blocks that multiply for a while (0: not at all) and then add a word of each thread, `words` in all, as histograms do.
__global__ void behind(unsigned *out, int words, int products) {
  float x = threadIdx.x;
  for (int i = 0; i < products; i++) x = fmaf(x, 0.5f, 1.0f);
  for (int i = threadIdx.x; i < words; i += blockDim.x) atomicAdd(out + i, (unsigned)x + 1);
}
template <class F> float best_ms(F launch) {
  cudaEvent_t a, b; CHECK(cudaEventCreate(&a)); CHECK(cudaEventCreate(&b));
  float best = 1e9f;
  for (int r = 0; r < 9; r++) {
    CHECK(cudaEventRecord(a)); launch(); CHECK(cudaEventRecord(b)); CHECK(cudaEventSynchronize(b));
    float ms; CHECK(cudaEventElapsedTime(&ms, a, b)); best = std::min(best, ms);
  }
  return best;
}
int main() {
  unsigned *memory, *kept; CHECK(cudaMalloc(&memory, 1 << 26)); CHECK(cudaMemset(memory, 0, 1 << 26)); CHECK(cudaMalloc(&kept, 4));
  const int places = 8, step = (1 << 24) / places / 4 + 32 * 37;
  bool first = true;
  printf("{\"points\": [");
  for (int lines : {1, 8, 32, 128, 512, 2048}) for (int lanes : {1, 8, 32}) for (int far : {0, 1}) for (int warps : {4, 16}) for (int result : {0, 1}) {
    if ((far && lanes == 1) || (far && lanes == 8 && warps == 4)) continue;
    double ps = 0, least = 1e30;
    for (int p = 0; p < places; p++) {
      unsigned *out = memory + p * step; int times = lines < 32 ? 64 : 256; float ms[2];
      for (int h = 0; h < 2; h++) ms[h] = best_ms([&] {
        if (result) along<true><<<132, 32 * warps>>>(out, 32 * lines, lanes, far, times << h, kept);
        else along<false><<<132, 32 * warps>>>(out, 32 * lines, lanes, far, times << h, kept); });
      double each = (ms[1] - ms[0]) * 1e9 / ((double)times * 132 * warps); ps += each / places; least = std::min(least, each);
    }
    printf("%s\n{\"kind\": \"along\", \"lines\": %d, \"lanes\": %d, \"far\": %d, \"warps\": %d, \"result\": %d, \"picoseconds_each_request\": %.2f, \"least\": %.2f}",
           first ? "" : ",", lines, lanes, far, warps, result, ps, least);
    first = false;
  }
  for (int words : {256, 1024, 4096}) for (int threads : {128, 256, 1024}) for (int blocks : {0, 132, 264, 528, 1056}) for (int products : {0, 4096}) {
    if (blocks * threads > 132 * 2048) continue;
    double us = 0;
    for (int p = 0; p < places; p++)
      us += 1e3 * best_ms([&] { behind<<<blocks ? blocks : 132, threads>>>(memory + p * step, blocks ? words : 0, products); }) / places;
    printf(",\n{\"kind\": \"behind\", \"words\": %d, \"threads\": %d, \"blocks\": %d, \"products\": %d, \"us\": %.3f}", words, threads, blocks, products, us);
  }
  printf("\n]}\n");
}
