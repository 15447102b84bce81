// What the life of a short block is made of: blocks that load one or two words per thread (or 16 bytes), wait, store or
// do not, and end; and warps that do so turn by turn. Clocks of the warps of a few SMs: how long loads take, how much
// longer the last warp of a block waits than the mean one, how long the place of a block that has ended stays empty.
//   nvcc -O3 -arch=sm_90 -o lives data/experiments/block_lifetime/block_lifetime.cu && ./lives > block_lifetime.json
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
typedef unsigned u32;
typedef unsigned long long u64;
static const int SMS = 4;  // whose warps keep clocks

struct Life { u32 place, start, asked, came, end; };
__device__ __forceinline__ u32 now() { u32 t; asm volatile("mov.u32 %0, %%clock;" : "=r"(t)); return t; }
// The clock once v is there.
__device__ __forceinline__ u32 now_with(float v) {
  u32 t; asm volatile("{ .reg .pred p; setp.eq.f32 p, %1, 0f7E967699; @p trap; mov.u32 %0, %%clock; }" : "=r"(t) : "f"(v) : "memory"); return t;
}
__device__ __forceinline__ u32 sm() { u32 s; asm volatile("mov.u32 %0, %%smid;" : "=r"(s)); return s; }
__device__ __forceinline__ u32 slot() { u32 s; asm volatile("mov.u32 %0, %%warpid;" : "=r"(s)); return s; }
__device__ __forceinline__ float sum_of(float v) { return v; }
__device__ __forceinline__ float sum_of(float4 v) { return v.x + v.y + v.z + v.w; }

template <class T, int LOADS, int STORES> __global__ void once(const T *a, const T *b, T *out, Life *lives) {
  u32 start = now();
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  u32 asked = now();
  T v{}, w{};
  if (LOADS > 0) v = __ldcg(a + i);
  if (LOADS > 1) w = __ldcg(b + i);
  u32 came = asked;
  if (LOADS) came = now_with(sum_of(v) + sum_of(w));
  if (STORES) { if (LOADS > 1) memcpy(&v, &w, sizeof v); __stcg(out + i, v); }
  u32 s = sm();
  if (s < SMS && threadIdx.x % 32 == 0) lives[i / 32] = {1 + s * 64 + slot(), start, asked, came, now()};
}
// Turns: T of them; STORES of 4 turns store. Latencies of the loads in bins of 16 cycles.
template <int STORES> __global__ void __launch_bounds__(256) turns(const float *in, float *out, int turns, u32 *bins) {
  __shared__ u32 own[512];
  for (int k = threadIdx.x; k < 512; k += 256) own[k] = 0;
  __syncthreads();
  size_t pitch = (size_t)gridDim.x * 256, at = (size_t)blockIdx.x * 256 + threadIdx.x;
  for (int t = 0; t < turns; t += 4)
#pragma unroll
    for (int k = 0; k < 4; k++, at += pitch) {
      u32 asked = now(); float v = __ldcg(in + at); u32 took = now_with(v) - asked;
      if (k < STORES) __stcg(out + at, v);
      if (threadIdx.x % 32 == 0) atomicAdd(own + min(took / 16, 511u), 1);
    }
  __syncthreads();
  for (int k = threadIdx.x; k < 512; k += 256) if (own[k]) atomicAdd(bins + k, own[k]);
}
static double mean(const std::vector<double> &v) { double s = 0; for (double x : v) s += x; return v.empty() ? 0 : s / v.size(); }
static double quantile(std::vector<double> v, double q) { if (v.empty()) return 0; std::sort(v.begin(), v.end()); return v[(size_t)(q * (v.size() - 1))]; }
static int printed = 0;

template <class T, int LOADS, int STORES> void lives_of(T *a, T *b, T *out, Life *lives, size_t bytes, int warps, int limit_kb) {
  size_t n = bytes / sizeof(T), count = n / 32; unsigned blocks = n / (32 * warps);
  cudaEvent_t x, y; CHECK(cudaEventCreate(&x)); CHECK(cudaEventCreate(&y));
  CHECK(cudaFuncSetAttribute(once<T, LOADS, STORES>, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
  float ms[5];
  for (int r = 0; r < 6; r++) {
    CHECK(cudaMemset(lives, 0, count * sizeof(Life)));
    CHECK(cudaEventRecord(x)); once<T, LOADS, STORES><<<blocks, 32 * warps, limit_kb << 10>>>(a, b, out, lives); CHECK(cudaEventRecord(y)); CHECK(cudaEventSynchronize(y));
    float t; CHECK(cudaEventElapsedTime(&t, x, y)); if (r) ms[r - 1] = t;
  }
  std::sort(ms, ms + 5);
  std::vector<Life> all(count); CHECK(cudaMemcpy(all.data(), lives, count * sizeof(Life), cudaMemcpyDeviceToHost));
  std::vector<double> latency, life, last, of_last, any_last, gap, skew, prologue;
  std::map<u32, std::vector<Life>> places;
  for (size_t g = count / 8; g < count * 7 / 8; g += warps) {  // the middle of the run
    if (!all[g].place) continue;
    u32 first = all[g].start, end = all[g].end; double m = 0;
    for (int w = 0; w < warps; w++) if ((int)(all[g + w].start - first) < 0) first = all[g + w].start;
    for (int w = 0; w < warps; w++) {
      const Life &l = all[g + w];
      latency.push_back(l.came - l.asked); life.push_back(l.end - l.start); prologue.push_back(l.asked - l.start); skew.push_back(l.start - first);
      m = std::max(m, (double)(l.came - l.asked));
      if ((int)(l.end - end) > 0) end = l.end;
      places[l.place].push_back(l);
    }
    of_last.push_back(m); last.push_back(end - first);
  }
  for (size_t g = 0; g + warps <= latency.size(); g += warps) {  // as many of any blocks
    double m = 0; for (int w = 0; w < warps; w++) m = std::max(m, latency[(g / warps * 7919ull * 64 + w * 104729ull) % latency.size()]);
    any_last.push_back(m);
  }
  for (auto &p : places) {  // from a warp's end to the next one's start in its place
    auto &v = p.second; u32 zero = v[0].start;
    for (auto &l : v) if ((int)(l.start - zero) < 0) zero = l.start;
    std::sort(v.begin(), v.end(), [&](const Life &p, const Life &q) { return p.start - zero < q.start - zero; });
    for (size_t k = 1; k < v.size(); k++) { double g = (int)(v[k].start - v[k - 1].end); if (g >= 0 && g < 20000) gap.push_back(g); }
  }
  printf("%s{\"width\": %zu, \"loads\": %d, \"stores\": %d, \"warps_per_block\": %d, \"shared_kb\": %d, \"us\": %.2f, \"tb_per_s\": %.3f, \"samples\": %zu, "
         "\"latency\": %.1f, \"p5\": %.0f, \"p25\": %.0f, \"p50\": %.0f, \"p75\": %.0f, \"p95\": %.0f, \"p99\": %.0f, \"last_of_block\": %.1f, \"last_of_any\": %.1f, "
         "\"life\": %.1f, \"block\": %.1f, \"prologue\": %.1f, \"skew\": %.1f, \"gap\": %.1f, \"gap_p5\": %.0f, \"gap_p50\": %.0f, \"gap_p95\": %.0f}",
         printed++ ? ",\n" : "\n", sizeof(T), LOADS, STORES, warps, limit_kb, 1e3 * ms[2], 1e-9 * bytes * (LOADS + STORES) / ms[2], latency.size(),
         mean(latency), quantile(latency, .05), quantile(latency, .25), quantile(latency, .5), quantile(latency, .75), quantile(latency, .95), quantile(latency, .99),
         mean(of_last), mean(any_last), mean(life), mean(last), mean(prologue), mean(skew), mean(gap), quantile(gap, .05), quantile(gap, .5), quantile(gap, .95));
}
template <int STORES> void turns_of(float *in, float *out, u32 *bins, int per_sm) {
  cudaEvent_t x, y; CHECK(cudaEventCreate(&x)); CHECK(cudaEventCreate(&y)); float ms[2];
  for (int h = 0; h < 2; h++) for (int r = 0; r < 3; r++) {
    CHECK(cudaMemset(bins, 0, 2048)); CHECK(cudaEventRecord(x)); turns<STORES><<<132 * per_sm, 256>>>(in, out, 128 << h, bins); CHECK(cudaEventRecord(y)); CHECK(cudaEventSynchronize(y));
    float t; CHECK(cudaEventElapsedTime(&t, x, y)); ms[h] = r ? std::min(ms[h], t) : t;
  }
  u32 n[512]; CHECK(cudaMemcpy(n, bins, 2048, cudaMemcpyDeviceToHost));
  double total = 0, sum = 0, seen = 0; for (int k = 0; k < 512; k++) { total += n[k]; sum += n[k] * (16.0 * k + 8); }
  double shares[] = {0.05, 0.25, 0.5, 0.75, 0.95, 0.99}, at[6]; int j = 0;
  for (int k = 0; k < 512; k++) { seen += n[k]; while (j < 6 && seen >= shares[j] * total) at[j++] = 16 * k + 8; }
  double ns = (ms[1] - ms[0]) * 1e6 / 128;
  printf("%s{\"turns\": 1, \"stores_of_4\": %d, \"blocks_per_sm\": %d, \"ns_per_turn\": %.1f, \"tb_per_s\": %.3f, \"latency\": %.1f, \"p5\": %.0f, \"p25\": %.0f, \"p50\": %.0f, \"p75\": %.0f, \"p95\": %.0f, \"p99\": %.0f}",
         printed++ ? ",\n" : "\n", STORES, per_sm, ns, 1e-3 * 132 * per_sm * 1024 * (1 + STORES / 4.0) / ns, sum / total, at[0], at[1], at[2], at[3], at[4], at[5]);
}
int main() {
  size_t bytes = 320ull << 20; float *a, *b, *out; Life *lives; u32 *bins;
  CHECK(cudaMalloc(&a, bytes)); CHECK(cudaMalloc(&b, bytes)); CHECK(cudaMalloc(&out, bytes)); CHECK(cudaMalloc(&lives, (128ull << 20) / 128 * sizeof(Life))); CHECK(cudaMalloc(&bins, 2048));
  CHECK(cudaMemset(a, 0, bytes)); CHECK(cudaMemset(b, 0, bytes)); CHECK(cudaMemset(out, 0, bytes));
  printf("{\"gpu\": \"NVIDIA H200\", \"points\": [");
  size_t size = 128ull << 20;
  for (int warps : {1, 2, 4, 8, 16, 32}) {
    lives_of<float, 1, 0>(a, b, out, lives, size, warps, 0); lives_of<float, 2, 0>(a, b, out, lives, size, warps, 0);
    lives_of<float, 1, 1>(a, b, out, lives, size, warps, 0); lives_of<float, 2, 1>(a, b, out, lives, size, warps, 0);
    lives_of<float, 0, 1>(a, b, out, lives, size, warps, 0);
    lives_of<float4, 1, 0>((float4 *)a, (float4 *)b, (float4 *)out, lives, size, warps, 0); lives_of<float4, 1, 1>((float4 *)a, (float4 *)b, (float4 *)out, lives, size, warps, 0);
  }
  for (int kb : {50, 100}) {  // fewer blocks at a time: four, two
    lives_of<float, 1, 0>(a, b, out, lives, size, 8, kb); lives_of<float, 1, 1>(a, b, out, lives, size, 8, kb); lives_of<float, 2, 1>(a, b, out, lives, size, 8, kb);
    lives_of<float4, 1, 1>((float4 *)a, (float4 *)b, (float4 *)out, lives, size, 8, kb);
  }
  for (int per_sm : {2, 3, 4, 5, 6, 7, 8}) { turns_of<0>(a, out, bins, per_sm); turns_of<1>(a, out, bins, per_sm); turns_of<2>(a, out, bins, per_sm); turns_of<4>(a, out, bins, per_sm); }
  printf("\n]}\n");
}
