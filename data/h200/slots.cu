// Which places the warps of a block get when warps of others have ended: stamps and places of all warps of one SM.
//   nvcc -O3 -arch=sm_90 -o slots data/h200/slots.cu && ./slots > slots.json
// `warps` per block, of which `stay` wait for `spin` cycles and the others end at once. A row: block, begin, end of its
// first warp, places of its warps (%warpid). Rates: resident blocks of all SMs in the mean, by the time of two grids.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
typedef unsigned u32;
typedef long long i64;
constexpr int SMS = 132, ROW = 3 + 32, KEPT = 40;

__device__ __forceinline__ void wait(i64 cycles) { i64 start = clock64(); while (clock64() - start < cycles) { } }

template <int LIVE> __global__ void __launch_bounds__(LIVE > 32 ? 256 : 1024) leave(int stay, int spin, int first, i64 *rows) {
  int warp = threadIdx.x / 32, place = (warp - first + blockDim.x / 32) % (blockDim.x / 32);
  i64 start = clock64(), *row = rows + (i64)ROW * blockIdx.x;
  u32 live[LIVE], slot, sm;
#pragma unroll
  for (int k = 0; k < LIVE; k++) asm volatile("mov.u32 %0, %%clock;" : "=r"(live[k]));
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(slot));
  if (threadIdx.x % 32 == 0) row[3 + warp] = slot;
  if (place >= stay) return;
  wait(spin);
  if (spin < 0)  // never: but they must be kept
#pragma unroll
    for (int k = 0; k < LIVE; k++) rows[k * blockDim.x + threadIdx.x] = live[k];
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (place == 0 && threadIdx.x % 32 == 0) row[0] = sm, row[1] = start, row[2] = clock64();
}

int main() {
  const int blocks = SMS * 192;
  i64 *rows; CHECK(cudaMalloc(&rows, sizeof(i64) * ROW * blocks));
  std::vector<i64> host(ROW * blocks);
  bool comma = false;
  auto run = [&](auto kernel, int live, int warps, int stay, int spin, int shared, int first) {
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
    cudaFuncAttributes has; CHECK(cudaFuncGetAttributes(&has, kernel));
    float us[2];
    for (int twice = 0; twice < 2; twice++) {
      cudaEvent_t a, b; CHECK(cudaEventCreate(&a)); CHECK(cudaEventCreate(&b)); us[twice] = 1e30f;
      for (int k = 0; k < 4; k++) {
        CHECK(cudaEventRecord(a)); kernel<<<blocks >> (1 - twice), 32 * warps, shared>>>(stay, spin, first, rows); CHECK(cudaEventRecord(b));
        CHECK(cudaEventSynchronize(b)); float ms; CHECK(cudaEventElapsedTime(&ms, a, b)); us[twice] = std::min(us[twice], 1e3f * ms);
      }
    }
    CHECK(cudaMemcpy(host.data(), rows, sizeof(i64) * ROW * blocks, cudaMemcpyDeviceToHost));
    i64 sm = host[0]; std::vector<std::pair<i64, int>> on;
    for (int b = 0; b < blocks; b++) if (host[(i64)ROW * b] == sm) on.push_back({host[(i64)ROW * b + 1], b});
    std::sort(on.begin(), on.end());
    printf("%s{\"warps\": %d, \"stay\": %d, \"first\": %d, \"spin\": %d, \"shared\": %d, \"registers\": %d, \"blocks\": %d, \"us_half\": %.3f, \"us\": %.3f, \"rows\": [",
           comma ? ",\n" : "", warps, stay, first, spin, shared, has.numRegs, blocks, us[0], us[1]);
    comma = true;
    for (size_t k = 0; k < on.size() && k < KEPT; k++) {
      i64 *row = &host[(i64)ROW * on[k].second];
      printf("%s[%d, %lld, %lld, [", k ? ", " : "", on[k].second, row[1] - on[0].first, row[2] - on[0].first);
      for (int w = 0; w < warps; w++) printf("%s%lld", w ? ", " : "", row[3 + w]);
      printf("]]");
    }
    printf("]}");
  };
  printf("{\"gpu\": \"NVIDIA H200\", \"command\": \"./slots\", \"runs\": [\n");
  for (int warps : {4, 8, 16, 32}) for (int stay : {1, warps / 2, warps}) run(leave<1>, 1, warps, stay, 20000, 0, 0);
  for (int warps : {8, 16}) run(leave<1>, 1, warps, 1, 20000, 0, 5);
  for (int warps : {8, 16, 32}) for (int spin : {500, 2000}) run(leave<1>, 1, warps, 1, spin, 0, 0);
  run(leave<1>, 1, 8, 1, 20000, 12 << 10, 0);
  run(leave<24>, 24, 8, 1, 20000, 0, 0);
  run(leave<24>, 24, 16, 1, 20000, 0, 0);
  run(leave<112>, 112, 8, 1, 20000, 0, 0);
  run(leave<112>, 112, 4, 1, 20000, 0, 0);
  puts("]}");
}
