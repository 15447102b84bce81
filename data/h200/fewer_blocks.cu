// What fewer blocks on an SM buy the kernels of tests/cuda/remedies/fewer.cu, by three ways to have fewer: blocks that take
// several parts of the work each (loop), dynamic shared memory that nobody uses (shared), and the same, little of it, where
// the host prefers a small part of the SM's memory for it (carve). `resident` is counted by a kernel launched alike.
//   nvcc -O3 -arch=sm_90 -o fewer_blocks data/h200/fewer_blocks.cu && ./fewer_blocks
// `l1_hit` and `carved_bytes` in fewer_blocks.json are by ncu, at the clocks that the times have:
//   ncu --csv --clock-control none --cache-control none -k "regex:circle|lookups|rows|once" --metrics l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum,l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum,launch__shared_mem_config_size ./fewer_blocks once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include "../../tests/cuda/remedies/fewer.cu"
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
const int SMS = 132, PARTS = 4224, WINDOWS = 200, MOST = 233472, RESERVED = 1024, SMALL = 8192;
__global__ void __launch_bounds__(256) count(unsigned *live, unsigned *most) {
  unsigned sm; asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x == 0) atomicMax(most, atomicAdd(live + sm, 1) + 1);
  long long until = clock64() + 100000; while (clock64() < until) ;
  __syncthreads();
  if (threadIdx.x == 0) atomicSub(live + sm, 1);
}
struct Way { const char *name; int blocks, shared, carve, grid; };
static unsigned *counters; static int printed = 0; static bool timed = true;
void prepare(const void *f, const Way &w) {
  CHECK(cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, w.shared));
  CHECK(cudaFuncSetAttribute(f, cudaFuncAttributePreferredSharedMemoryCarveout, w.carve));
}
void run(const char *name, const void *f, void **arguments, const Way &w, int words) {
  prepare(f, w); prepare((const void *)count, w);
  unsigned most = 0; float ms[11]; cudaEvent_t a, b; CHECK(cudaEventCreate(&a)); CHECK(cudaEventCreate(&b));
  CHECK(cudaMemset(counters, 0, 1024));
  count<<<w.grid, 256, w.shared>>>(counters, counters + 200);
  CHECK(cudaMemcpy(&most, counters + 200, 4, cudaMemcpyDeviceToHost));
  for (int r = timed ? -1 : 0; r < (timed ? 11 : 1); r++) {
    CHECK(cudaEventRecord(a)); CHECK(cudaLaunchKernel(f, w.grid, 256, arguments, w.shared, 0)); CHECK(cudaEventRecord(b));
    CHECK(cudaEventSynchronize(b)); float t; CHECK(cudaEventElapsedTime(&t, a, b)); if (r >= 0) ms[r] = t;
  }
  std::sort(ms, ms + (timed ? 11 : 1));
  printf("%s{\"kernel\": \"%s\", \"way\": \"%s\", \"blocks\": %d, \"words\": %d, \"shared_bytes\": %d, \"resident\": %u, \"us\": %.2f}", printed++ ? ",\n" : "\n",
         name, w.name, w.blocks, words, w.shared, most, 1e3 * ms[timed ? 5 : 0]);
}
int main(int argc, char **) {
  timed = argc == 1;
  float *in, *in2, *out; int parts = PARTS, windows = WINDOWS, words, turns = 16, draws = 512, length = 256, many = 64 * PARTS;
  size_t bytes = (size_t)PARTS * 256 * 256 * 4;
  CHECK(cudaMalloc(&in, bytes)); CHECK(cudaMalloc(&in2, bytes)); CHECK(cudaMalloc(&out, bytes)); CHECK(cudaMalloc(&counters, 1024));
  CHECK(cudaMemset(in, 0, bytes)); CHECK(cudaMemset(in2, 0, bytes));
  void *circles[] = {&in, &out, &parts, &windows, &words, &turns}, *looked[] = {&in, &out, &parts, &windows, &words, &draws};
  void *rowed[] = {&in, &in2, &out, &parts, &length}, *streamed[] = {&in, &out, &many};
  printf("{\"points\": [");
  for (int n : {8, 4, 2, 1}) {
    int large = (MOST / (n + 1) - RESERVED + 128) / 128 * 128, little = SMALL / n - RESERVED;
    Way ways[] = {{"loop", n, 0, -1, SMS * n}, {"shared", n, large, -1, PARTS}, {"carve", n, little, SMALL * 100 / MOST, PARTS}, {"none", 8, 0, -1, PARTS}};
    for (const Way &w : ways) {
      if ((n == 8) != (w.name[0] == 'n')) continue;
      for (int each : {10240, 14336, 20480}) {
        words = each;
        if (each != 10240 && w.grid == PARTS && w.name[0] != 'n') continue;
        run("circle", (const void *)circle, circles, w, words); run("lookups", (const void *)lookups, looked, w, words);
      }
      run("rows", (const void *)rows, rowed, w, 0);
      Way more = w; if (w.grid == PARTS) more.grid = many;
      run("once", (const void *)once, streamed, more, 0);
    }
  }
  printf("\n]}\n");
}
