// How the warps of an SM get on beside one another: which goes first, and when each ends. Stamps of one SM's warps.
//   nvcc -O3 -arch=sm_90 -o progress data/h200/progress.cu && ./progress > progress.json
// turns: a few instructions, then the clock, 24 times in a row without a loop: who issues, to some cycles.
// waves: loops with the clock at each eighth; one wave of blocks or two: who gets on, and what a late block gets.
// loads: Volkov's mix of one load and ALPHA adds; the clock before the load and behind the add that waits for it.
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
typedef unsigned u32;
enum Body { CHAIN, FREE, SFU_CHAIN, SFU_FREE, SHARED_CHAIN };
static const char *names[] = {"chain", "free", "sfu_chain", "sfu_free", "shared_chain"};
constexpr int TURNS = 24, EIGHTHS = 8, KEPT = 48, HEAD = 4, WORDS = HEAD + 2 * KEPT;

__device__ __forceinline__ u32 now() { u32 t; asm volatile("mov.u32 %0, %%clock;" : "=r"(t)); return t; }
__device__ __forceinline__ void add(float &f, float zero) { asm volatile("add.f32 %0, %0, %1;" : "+f"(f) : "f"(zero)); }

template <int B> __device__ __forceinline__ void body(float *f, float *g, u32 &s, float zero) {
  if (B == SFU_CHAIN) asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(f[0]));
  if (B == SFU_FREE) asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(g[0]));
  if (B == SHARED_CHAIN) { s = __float_as_uint(f[0]); asm volatile("ld.shared.u32 %0, [%0];" : "+r"(s)); f[0] = __uint_as_float(s); }
#pragma unroll
  for (int k = 0; k < (B == CHAIN ? 4 : 8); k++) add(f[B == FREE || B == SFU_FREE ? k : 0], zero);
}

template <int B> __device__ __forceinline__ void prepare(float *f, float *g, u32 &s, u32 *shared) {
  u32 base = (u32)__cvta_generic_to_shared(shared);
  if (threadIdx.x == 0) shared[0] = base;
  for (int k = 0; k < 8; k++) f[k] = B == SHARED_CHAIN ? __uint_as_float(base) : 1, g[k] = 1;
  s = base;
}

__device__ __forceinline__ u32 *head(u32 *out) {
  u32 sm, slot, warp = threadIdx.x / 32;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(slot));
  u32 *row = out + (size_t)(blockIdx.x * (blockDim.x / 32) + warp) * WORDS;
  row[0] = sm; row[1] = slot; row[2] = blockIdx.x; row[3] = warp;
  return row + HEAD;
}

template <int B> __device__ __forceinline__ void keep(float *f, float *g, u32 s, u32 *row) {
  float sum = 0;
  for (int k = 0; k < 8; k++) sum += f[k] + g[k];
  if (sum + s == 1.2345f) row[-1] = 0;
}

template <int B> __global__ void __launch_bounds__(1024) turns(u32 *out, int, float zero) {
  __shared__ u32 shared[2];
  float f[8], g[8]; u32 s; long long t[TURNS];  // 64 bits: the clock is read where it stands
  prepare<B>(f, g, s, shared);
  if (threadIdx.x == 0) shared[1] = now() + 3000;
  __syncthreads();
  u32 begin = shared[1];
  while ((int)(now() - begin) < 0) { }
#pragma unroll
  for (int i = 0; i < TURNS; i++) { body<B>(f, g, s, zero); t[i] = clock64(); }
  u32 *row = head(out);
  if (threadIdx.x % 32 == 0)
#pragma unroll
    for (int i = 0; i < TURNS; i++) reinterpret_cast<long long *>(row)[i] = t[i];
  keep<B>(f, g, s, row);
}

template <int B> __global__ void __launch_bounds__(1024) waves(u32 *out, int trips, float zero) {
  __shared__ u32 shared[2];
  float f[8], g[8]; u32 s, t[EIGHTHS + 2];
  prepare<B>(f, g, s, shared);
  __syncthreads();
  t[0] = now();
#pragma unroll
  for (int c = 0; c < EIGHTHS; c++) {
#pragma unroll 4
    for (int i = 0; i < trips; i++) body<B>(f, g, s, zero);
    t[c + 1] = now();
  }
  t[EIGHTHS + 1] = 0;
  u32 *row = head(out);
  if (threadIdx.x % 32 == 0)
#pragma unroll
    for (int i = 0; i <= EIGHTHS; i += 2) reinterpret_cast<uint2 *>(row)[i / 2] = make_uint2(t[i], t[i + 1]);
  keep<B>(f, g, s, row);
}

__global__ void fill(u32 *p, size_t count, u32 step) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x) p[i] = (u32)(i + step);
}

template <int ALPHA> __global__ void __launch_bounds__(1024) loads(u32 *out, const u32 *p, u32 section, int most, u32 budget, float zero) {
  __shared__ uint2 kept[32 * KEPT];
  u32 warp = threadIdx.x / 32, x = blockIdx.x * section + threadIdx.x, begin = now(), done = 0, t1 = 0;
  uint2 *mine = kept + warp * KEPT;
#pragma unroll 1
  do {
#pragma unroll
    for (int u = 0; u < 4; u++) {
      u32 t0 = now();
      asm volatile("ld.global.u32 %0, [%1];" : "=r"(x) : "l"(p + x));
      float f = __uint_as_float(x);
      add(f, zero);
      t1 = now();
      if (threadIdx.x % 32 == 0) mine[(done + u) % KEPT] = make_uint2(t0, t1);
#pragma unroll
      for (int a = 1; a < ALPHA; a++) add(f, zero);
      x = __float_as_uint(f);
    }
    done += 4;
  } while (done + 4 <= most && t1 - begin < budget);
  u32 *row = head(out);
  if (threadIdx.x % 32 == 0)
    for (u32 i = 0; i < KEPT; i++) { uint2 v = mine[(done + i) % KEPT]; row[2 * i] = v.x; row[2 * i + 1] = v.y; }
  if (x == 0xffffffffu) row[0] = 0;
}

static u32 *out;
static int first = 1, sms;
static void print(const char *kind, const char *name, int alpha, int blocks_per_sm, int threads, int blocks, int columns, int step) {
  std::vector<u32> host((size_t)blocks * threads / 32 * WORDS);
  CHECK(cudaMemcpy(host.data(), out, host.size() * 4, cudaMemcpyDeviceToHost));
  u32 zero = host[HEAD];
  printf("%s\n{\"kernel\": \"%s\", \"body\": \"%s\", \"alpha\": %d, \"blocks_per_sm\": %d, \"threads\": %d, \"waves\": %d, \"warps\": [",
         first ? "" : ",", kind, name, alpha, blocks_per_sm, threads, blocks / sms / blocks_per_sm);
  first = 0;
  for (size_t w = 0, n = 0; w < host.size() / WORDS; w++) {
    u32 *row = &host[w * WORDS];
    if (row[0] != host[0]) continue;
    printf("%s[%u, %u, %u", n++ ? "," : "", row[1], row[2], row[3]);
    for (int i = 0; i < columns; i++) printf(", %d", (int)(row[HEAD + step * i] - zero));
    printf("]");
  }
  printf("]}");
  fflush(stdout);
}

template <int B> void run(bool wave, int blocks_per_sm, int threads, int count) {
  auto *kernel = wave ? waves<B> : turns<B>;
  int hold = 220 * 1024 / blocks_per_sm - 1280;  // no more blocks on an SM than wanted
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, hold));
  int blocks = sms * blocks_per_sm * count, trips = 4000 * 256 / (blocks_per_sm * threads);
  for (int i = 0; i < 2; i++) kernel<<<blocks, threads, hold>>>(out, trips, 0.0f);
  CHECK(cudaDeviceSynchronize());
  print(wave ? "waves" : "turns", names[B], 0, blocks_per_sm, threads, blocks, wave ? EIGHTHS + 1 : TURNS, wave ? 1 : 2);
}

static u32 *array;
static size_t entries = (size_t)1 << 30;
template <int ALPHA> void mix(int warps) {
  int blocks_per_sm = warps > 32 ? 2 : 1, threads = warps / blocks_per_sm * 32, blocks = sms * blocks_per_sm;
  int hold = (blocks_per_sm == 1 ? 120 : 90) * 1024;
  CHECK(cudaFuncSetAttribute(loads<ALPHA>, cudaFuncAttributeMaxDynamicSharedMemorySize, hold));
  u32 section = (u32)((entries - ((size_t)1 << 26)) / blocks) / 32 * 32;
  fill<<<8192, 256>>>(array, entries, threads);
  loads<ALPHA><<<blocks, threads, hold>>>(out, array, section, (int)(section / threads) - 1, 300000, 0.0f);
  CHECK(cudaDeviceSynchronize());
  print("loads", "load", ALPHA, blocks_per_sm, threads, blocks, 2 * KEPT, 1);
}

template <int B> void all() {
  for (int threads : {128, 256, 512, 768, 1024}) run<B>(false, 1, threads, 1);
  for (int blocks : {2, 4, 8}) run<B>(false, blocks, 1024 / blocks * (blocks == 2 ? 2 : 1), 1);
  for (int blocks : {1, 2, 8, 16}) run<B>(true, blocks, blocks == 1 ? 1024 : 2048 / blocks, 1);
  run<B>(true, 2, 1024, 2); run<B>(true, 8, 256, 2);
}

int main() {
  cudaDeviceProp d; CHECK(cudaGetDeviceProperties(&d, 0)); sms = d.multiProcessorCount;
  CHECK(cudaMalloc(&out, (size_t)sms * 64 * 2 * WORDS * 4)); CHECK(cudaMalloc(&array, entries * 4));
  printf("{\"gpu\": \"%s\", \"command\": \"nvcc -O3 -arch=sm_90 -o progress data/h200/progress.cu && ./progress\", \"columns\": \"warp slot, block, warp of the block, clocks\", \"runs\": [", d.name);
  all<CHAIN>(); all<FREE>(); all<SFU_CHAIN>(); all<SFU_FREE>(); all<SHARED_CHAIN>();
  mix<16>(64); mix<64>(32); mix<64>(48); mix<64>(64); mix<128>(32); mix<128>(44); mix<128>(64); mix<256>(32);
  printf("\n]}\n");
}
