// Which warps of an SM share the fetch of code that outgrows the first instruction cache, and how they drift apart.
//   nvcc -O3 -arch=sm_90 -o fetch data/experiments/instruction_fetch/fetch.cu && ./fetch > fetch.json
// A loop of LINKS independent multiply-adds, 16 bytes each; warps that are active (a bit each) begin together or one
// after the other, and stamp the clock at each eighth of a pass. `apart` is the part of a pass from warp to warp.
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
typedef unsigned u32;
constexpr int TRIPS = 4, EIGHTHS = 8, KEPT = TRIPS * EIGHTHS + 1;

__device__ __forceinline__ u32 now() { u32 t; asm volatile("mov.u32 %0, %%clock;" : "=r"(t) :: "memory"); return t; }

template <int LINKS> __global__ void __launch_bounds__(512) fetch(u32 *out, u32 active, u32 later, int trips) {
  u32 warp = threadIdx.x / 32, sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  float x = out[0], y = x + 1, z = x + 2, v = x + 3;
  __shared__ u32 begin;
  if (threadIdx.x == 0) begin = now() + 2000;
  __syncthreads();
  if (!(active >> warp & 1)) return;
  u32 *row = out + 8 + (size_t)(blockIdx.x * 16 + warp) * (KEPT + 1);
  u32 from = begin + later * __popc(active & ((1u << warp) - 1));
  while ((int)(now() - from) < 0) { }
  row[0] = sm; row[1] = now();
  row += 2;
#pragma unroll 1
  for (int trip = 0; trip < trips; trip++) {
#pragma unroll
    for (int e = 0; e < EIGHTHS; e++) {
#pragma unroll
      for (int u = 0; u < LINKS / EIGHTHS / 4; u++)
        asm volatile("fma.rn.f32 %0, %0, %0, %0; fma.rn.f32 %1, %1, %1, %1; fma.rn.f32 %2, %2, %2, %2; fma.rn.f32 %3, %3, %3, %3;"
                     : "+f"(x), "+f"(y), "+f"(z), "+f"(v));
      row[e] = now();
    }
    row += EIGHTHS;
  }
  if (x + y + z + v == 12345.0f) out[1] = 0;
}

static bool first = true;
template <int LINKS> static void measure(int grid, u32 active, double apart, int repetition, u32 *device) {
  const int warps = 16;
  u32 later = (u32)(apart * LINKS * 2.43);
  size_t words = 8 + (size_t)grid * warps * (KEPT + 1);
  CHECK(cudaMemset(device, 0, 4 * words));
  for (int k = 0; k < 2; k++) { fetch<LINKS><<<grid, 32 * warps>>>(device, active, later, TRIPS); CHECK(cudaGetLastError()); }
  CHECK(cudaDeviceSynchronize());
  std::vector<u32> host(words);
  CHECK(cudaMemcpy(host.data(), device, 4 * words, cudaMemcpyDeviceToHost));
  printf("%s{\"links\":%d,\"grid\":%d,\"active\":%u,\"later_cycles\":%u,\"repetition\":%d,\"warps\":[", first ? "" : ",\n", LINKS, grid, active, later, repetition);
  first = false;
  bool comma = false;
  for (int b = 0; b < grid; b += grid > 8 ? 33 : 1)  // of many SMs four
    for (int w = 0; w < warps; w++) {
      if (!(active >> w & 1)) continue;
      u32 *row = host.data() + 8 + (size_t)(b * warps + w) * (KEPT + 1), *base = host.data() + 8 + (size_t)b * warps * (KEPT + 1);
      u32 least = 0xffffffffu;
      for (int k = 0; k < warps; k++) if (active >> k & 1) { u32 t = base[(size_t)k * (KEPT + 1) + 1]; if (least == 0xffffffffu || (int)(t - least) < 0) least = t; }
      printf("%s{\"block\":%d,\"sm\":%u,\"warp\":%d,\"at\":[", comma ? "," : "", b, row[0], w);
      comma = true;
      for (int k = 1; k <= KEPT; k++) printf("%s%u", k > 1 ? "," : "", row[k] - least);
      printf("]}");
    }
  printf("]}");
}

int main() {
  u32 *device;
  CHECK(cudaMalloc(&device, 64 << 20));
  int sms; CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  printf("{\"command\":\"nvcc -O3 -arch=sm_90 -o fetch data/experiments/instruction_fetch/fetch.cu && ./fetch\",\"sms\":%d,\"trips\":%d,\"eighths\":%d,\"samples\":[\n", sms, TRIPS, EIGHTHS);
  for (int repetition = 0; repetition < 2; repetition++)
    for (int grid : {1, 2, sms}) {
      u32 masks[] = {0x1, 0xf, 0x11, 0x3, 0x1111, 0xff, 0xffff};
      for (u32 active : masks)
        for (double apart : {0.0, 0.3}) {
          if (active == 1 && apart > 0) continue;
          measure<1536>(grid, active, apart, repetition, device);
          measure<4096>(grid, active, apart, repetition, device);
          measure<8192>(grid, active, apart, repetition, device);
          measure<12288>(grid, active, apart, repetition, device);
        }
    }
  printf("\n]}\n");
  CHECK(cudaFree(device));
}
