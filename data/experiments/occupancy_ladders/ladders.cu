// Kernels of examples/ against occupancy, threads per block and warps, and when each warp of an SM starts and ends.
//   bash data/experiments/occupancy_ladders/run.sh OUT    (from the repository's root; compiles, runs, writes OUT/*.json)
// Occupancy is set as in Volkov 2016 §5.7: each block asks for so much dynamic shared memory that no more blocks fit.
// The carveout is the largest for every launch of a ladder, so that L1 is the same at every occupancy.
// A time is the median of nine launches, each between two events, behind one that is still running: the same kernel, or
// the copy that puts back its input, or (part 3) a kernel that reads 512 MB, so that nothing is left in L2.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <string>
#include <vector>
#define CHECK(x) do { CUresult e = (x); if (e) { const char *s; cuGetErrorString(e, &s); fprintf(stderr, "%s: %s\n", #x, s); exit(1); } } while (0)
typedef unsigned u32;
typedef unsigned long long u64;
static const int SHARED_SM = 228 << 10, SHARED_BLOCK = 227 << 10, RESERVED = 1 << 10, REPETITIONS = 9;
static std::string folder, out;
static int sms;
static CUevent from, to;

// ---- arrays ----
extern "C" __global__ void fill_random(u32 *x, size_t n, int low, int high, int as_float) {  // integers in [low, high)
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
    u64 h = (i + 1) * 0x9E3779B97F4A7C15ull;
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9ull; h = (h ^ (h >> 27)) * 0x94D049BB133111EBull; h ^= h >> 31;
    int v = low + (int)(h % (u64)(high - low));
    x[i] = as_float ? __float_as_uint((float)v) : (u32)v;
  }
}
extern "C" __global__ void fill_iota(u32 *x, size_t n) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) x[i] = (u32)i;
}

// ---- warps with stamps (Volkov 2016 §5.5) ----
struct Stamp { u64 start, end; u32 sm, block; };
__device__ __forceinline__ u64 now() { u64 t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t) :: "memory"); return t; }
__device__ __forceinline__ void stamp(Stamp *stamps, u64 start, float value) {
  u64 end = now();
  u32 sm; asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x % 32 == 0) stamps[(blockIdx.x * (size_t)blockDim.x + threadIdx.x) / 32] = {start, end, sm, (u32)blockIdx.x};
  if (value == 12345.678f) stamps[0].sm = 99999;
}
// Loads, each of which waits for the one before: lanes are `stride` words apart, or all over the array (stride 0).
extern "C" __global__ void stamped_loads(const u32 *zeros, u32 mask, u32 first, int stride, int count, Stamp *stamps) {
  u64 start = now();
  u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  u32 at = first + (stride ? (warp * (u32)count * 32 + lane) * stride : (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u);
  u32 sum = 0;
#pragma unroll 4
  for (int i = 0; i < count; i++) {
    u32 zero = __ldcg(zeros + (at & mask));
    at = stride ? at + 32 * stride + zero : at * 1664525u + 1013904223u + zero;
    sum += zero;
  }
  stamp(stamps, start, __uint_as_float(sum));
}
extern "C" __global__ void stamped_rsqrt(int count, Stamp *stamps) {
  u64 start = now();
  float x = 1.0f + threadIdx.x;
  for (int i = 0; i < count; i += 64)
#pragma unroll
    for (int j = 0; j < 64; j++) asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(x));
  stamp(stamps, start, x);
}
extern "C" __global__ void stamped_shared(int count, Stamp *stamps) {
  extern __shared__ u32 words[];
  u64 start = now();
  words[threadIdx.x] = threadIdx.x * 4;
  __syncthreads();
  u32 at = (u32)__cvta_generic_to_shared(words + threadIdx.x), base = (u32)__cvta_generic_to_shared(words);
  for (int i = 0; i < count; i += 32)
#pragma unroll
    for (int j = 0; j < 32; j++) {
      asm volatile("ld.shared.u32 %0, [%0];" : "+r"(at));
      asm volatile("add.u32 %0, %0, %1;" : "+r"(at) : "r"(base));
    }
  stamp(stamps, start, __uint_as_float(at));
}

// ---- kernels ----
struct Kernel { CUfunction f; int own_shared; };
static Kernel kernel(const char *cubin, const char *name, bool least_l1 = false) {
  CUmodule m; CUfunction f; int own;
  CHECK(cuModuleLoad(&m, (folder + "/" + cubin + ".cubin").c_str()));
  CHECK(cuModuleGetFunction(&f, m, name));
  CHECK(cuFuncGetAttribute(&own, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f));
  CHECK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, SHARED_BLOCK - own));
  if (least_l1) CHECK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100));
  return {f, own};
}
struct Shape { u32 gx, gy, bx, by; int dynamic; };
static void launch(const Kernel &k, const Shape &s, std::vector<void *> arguments) {
  CHECK(cuLaunchKernel(k.f, s.gx, s.gy, 1, s.bx, s.by, 1, s.dynamic, 0, arguments.data(), 0));
}
// Dynamic shared memory with which `blocks` fit on an SM and one more does not; -1 where there is none such.
static int limit(const Kernel &k, int threads, int blocks) {
  int dynamic = std::min(SHARED_SM / blocks / 128 * 128 - RESERVED, SHARED_BLOCK) - k.own_shared, fit;
  if (dynamic < 0) return -1;
  CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&fit, k.f, threads, dynamic));
  return fit == blocks ? dynamic : -1;
}
struct Restored { CUdeviceptr to, from; size_t bytes; };
static Kernel reading_kernel;
static CUdeviceptr read_before;  // where it is set, this is read before every launch
static std::vector<float> times(const Kernel &k, const Shape &s, std::vector<void *> arguments, Restored back = {}) {
  std::vector<float> us;
  for (int r = 0; r <= REPETITIONS; r++) {
    if (back.bytes) CHECK(cuMemcpyDtoDAsync(back.to, back.from, back.bytes, 0));
    else if (read_before) launch(reading_kernel, {1 << 19, 1, 256, 1, 0}, {&read_before});
    else launch(k, s, arguments);
    CHECK(cuEventRecord(from, 0)); launch(k, s, arguments); CHECK(cuEventRecord(to, 0)); CHECK(cuEventSynchronize(to));
    float ms; CHECK(cuEventElapsedTime(&ms, from, to));
    if (r) us.push_back(1000 * ms);
  }
  std::sort(us.begin(), us.end());
  return us;
}
static CUdeviceptr array(size_t words) { CUdeviceptr p; CHECK(cuMemAlloc(&p, 4 * words)); CHECK(cuMemsetD32(p, 0, words)); return p; }
static Kernel random_kernel, iota_kernel;
static CUdeviceptr randoms(size_t n, int low, int high, int as_float) {
  CUdeviceptr p = array(n);
  launch(random_kernel, {2112, 1, 256, 1, 0}, {&p, &n, &low, &high, &as_float});
  return p;
}
static FILE *file; static const char *comma;
static void open(const char *part) {
  file = fopen((out + "/" + part + ".json").c_str(), "w"); comma = "";
  if (!file) { perror("output"); exit(1); }
  char name[99]; int driver; CUdevice d; CHECK(cuDeviceGet(&d, 0)); CHECK(cuDeviceGetName(name, 99, d)); CHECK(cuDriverGetVersion(&driver));
  fprintf(file, "{\"gpu\": \"%s\", \"cuda\": %d, \"sms\": %d, \"command\": \"bash data/experiments/occupancy_ladders/run.sh OUT\", \"rows\": [\n", name, driver, sms);
}
static void close() { fprintf(file, "\n]}\n"); fclose(file); }
static void row(const std::string &head, const std::vector<float> &us) {
  fprintf(file, "%s{%s, \"us\": %.3f, \"least_us\": %.3f, \"most_us\": %.3f}", comma, head.c_str(), us[us.size() / 2], us[0], us.back());
  comma = ",\n"; fflush(file);
}
template <class... T> static std::string text(const char *format, T... values) { char s[400]; snprintf(s, 400, format, values...); return s; }

// ---- part 1: occupancy ladders ----
static void ladder(const char *name, const Kernel &k, size_t threads, std::vector<int> sizes, std::vector<void *> arguments,
                   double bytes, double operations, u32 grid = 0, u32 block = 0, Restored back = {}) {
  for (int size : sizes) {
    int most; CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&most, k.f, size, 0));
    for (int blocks = 1; blocks <= most; blocks++) {
      int dynamic = blocks == most ? 0 : limit(k, size, blocks);
      if (dynamic < 0) continue;
      Shape s = grid ? Shape{grid, grid, block, size / block, dynamic} : Shape{(u32)((threads + size - 1) / size), 1, (u32)size, 1, dynamic};
      auto us = times(k, s, arguments, back);
      row(text("\"kernel\": \"%s\", \"threads\": %d, \"blocks_per_sm\": %d, \"warps_per_sm\": %g, \"dynamic_shared_bytes\": %d, \"bytes\": %.0f, \"operations\": %.0f",
               name, size, blocks, blocks * size / 32.0, dynamic, bytes, operations), us);
    }
    // At full occupancy, so much of L1 and shared memory preferred as shared memory: what the ladder's L1 costs.
    for (int percent : {-1, 0, 25, 50, 75, 100}) {
      CHECK(cuFuncSetAttribute(k.f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, percent));
      if (grid == 0 && size != 256) continue;
      Shape s = grid ? Shape{grid, grid, block, size / block, 0} : Shape{(u32)((threads + size - 1) / size), 1, (u32)size, 1, 0};
      auto us = times(k, s, arguments, back);
      row(text("\"kernel\": \"%s\", \"threads\": %d, \"blocks_per_sm\": %d, \"warps_per_sm\": %g, \"carveout\": %d, \"bytes\": %.0f, \"operations\": %.0f",
               name, size, most, most * size / 32.0, percent, bytes, operations), us);
    }
  }
}
static void ladders() {
  open("ladders");
  std::vector<int> sizes = {64, 128, 256, 512, 1024};
  {
    size_t n = 1 << 25; CUdeviceptr values = randoms(n, 0, 1 << 30, 0), mixed = randoms(n, 0, 1 << 25, 0), order = array(n), result = array(n);
    launch(iota_kernel, {2112, 1, 256, 1, 0}, {&order, &n});
    Kernel k = kernel("permute", "permute", true);
    ladder("permute_trivial", k, n, sizes, {&values, &order, &result}, 12.0 * n, 0);
    ladder("permute_random", k, n, sizes, {&values, &mixed, &result}, 12.0 * n, 0);
    for (CUdeviceptr p : {values, mixed, order, result}) CHECK(cuMemFree(p));
  }
  {
    size_t n = 1 << 26; CUdeviceptr negative = randoms(n, -1000, 0, 1), positive = randoms(n, 1, 1001, 1), x = array(n);
    Kernel k = kernel("vabs", "vabs", true);
    ladder("vabs", k, n, sizes, {&x}, 8.0 * n, 0, 0, 0, {x, negative, 4 * n});
    ladder("vabs.positive", k, n, sizes, {&positive}, 4.0 * n, 0);
    for (CUdeviceptr p : {negative, positive, x}) CHECK(cuMemFree(p));
  }
  {
    int n = 9000000; float rate = 0.02f, volatility = 0.3f;
    CUdeviceptr price = randoms(n, 5, 31, 1), strike = randoms(n, 1, 101, 1), years = randoms(n, 1, 11, 1), call = array(n), put = array(n);
    std::vector<void *> a = {&n, &rate, &volatility, &price, &strike, &years, &call, &put};
    ladder("black_scholes", kernel("black_scholes", "black_scholes", true), n, sizes, a, 20.0 * n, 0);
    ladder("black_scholes.fast", kernel("black_scholes_fast", "black_scholes", true), n, sizes, a, 20.0 * n, 0);
    for (CUdeviceptr p : {price, strike, years, call, put}) CHECK(cuMemFree(p));
  }
  {
    int n = 4096; size_t words = (size_t)n * n;
    CUdeviceptr a = randoms(words, -9, 10, 1), b = randoms(words, -9, 10, 1), c = array(words);
    ladder("sgemm_4096", kernel("sgemm64", "sgemm_blocked", true), 0, {64}, {&n, &n, &n, &a, &b, &c}, 0, 2.0 * n * words, n / 64, 64);
    int m = 2048;
    ladder("matmul_tiled16.n2048", kernel("matmul_tiled16", "matmul_tiled", true), 0, {256}, {&m, &a, &b, &c}, 0, 2.0 * m * m * m, m / 16, 16);
    for (CUdeviceptr p : {a, b, c}) CHECK(cuMemFree(p));
  }
  close();
}

// ---- part 2: the same work with 4 to 512 threads per block (Hong & Kim 2009, Figures 3, 15, 16) ----
static const int SIZES[] = {4, 8, 16, 32, 64, 96, 128, 192, 256, 320, 384, 448, 512};
static void by_threads(const char *name, const Kernel &k, int size, const Shape &s, std::vector<void *> arguments) {
  int fit; CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&fit, k.f, size, 0));
  auto us = times(k, s, arguments);
  row(text("\"kernel\": \"%s\", \"threads\": %d, \"blocks\": %u, \"blocks_per_sm\": %d", name, size, s.gx * s.gy, fit), us);
}
static void threads() {
  open("threads");
  {
    int n = 736 * 992; float bias = -1.5f; size_t words = 48 * (size_t)n;
    CUdeviceptr features = randoms(words, 0, 2, 1), weight = randoms(17, 0, 2, 1), support = randoms(816, 0, 2, 1), result = array(n);
    for (const char *name : {"svm_naive", "svm_constant", "svm_coalesced"}) {
      Kernel k = kernel("svm", name);
      for (int t : SIZES) {
        Shape s = {(u32)((n + t - 1) / t), 1, (u32)t, 1, 0};
        if (!strcmp(name, "svm_naive")) by_threads(name, k, t, s, {&n, &bias, &features, &weight, &support, &result});
        else by_threads(name, k, t, s, {&n, &bias, &features, &result});
      }
    }
    for (CUdeviceptr p : {features, weight, support, result}) CHECK(cuMemFree(p));
  }
  for (const char *name : {"sepia", "linear"}) {
    int n = strcmp(name, "sepia") ? 10000 : 7000; size_t words = (size_t)n * n * 3 / 4 + 1;
    CUdeviceptr image = randoms(words, 0, 1 << 30, 0), result = array(words);
    Kernel k = kernel(name, name);
    for (int t : SIZES) {
      u32 x = std::min(t, 32), y = t / x;
      by_threads(name, k, t, {(n + x - 1) / x, (n + y - 1) / y, x, y, 0}, {&n, &n, &image, &result});
    }
    for (CUdeviceptr p : {image, result}) CHECK(cuMemFree(p));
  }
  {
    int n = 2048; size_t words = (size_t)n * n;
    CUdeviceptr a = randoms(words, -9, 10, 1), b = randoms(words, -9, 10, 1), c = array(words);
    Kernel k = kernel("matmul_naive", "matmul_naive");
    for (int t : SIZES) {
      u32 x = std::min(t, 16), y = t / x;
      if (n % y == 0) by_threads("matmul_naive", k, t, {n / x, n / y, x, y, 0}, {&n, &a, &b, &c});
    }
    for (int tile : {2, 4, 8, 16}) {
      Kernel tiled = kernel(text("matmul_tiled%d", tile).c_str(), "matmul_tiled");
      by_threads("matmul_tiled", tiled, tile * tile, {(u32)(n / tile), (u32)(n / tile), (u32)tile, (u32)tile, 0}, {&n, &a, &b, &c});
    }
    for (CUdeviceptr p : {a, b, c}) CHECK(cuMemFree(p));
  }
  {
    int n = 9000000; float rate = 0.02f, volatility = 0.3f;
    CUdeviceptr price = randoms(n, 5, 31, 1), strike = randoms(n, 1, 101, 1), years = randoms(n, 1, 11, 1), call = array(n), put = array(n);
    Kernel k = kernel("black_scholes", "black_scholes");
    for (int t : SIZES) by_threads("black_scholes", k, t, {(u32)((n + t - 1) / t), 1, (u32)t, 1, 0}, {&n, &rate, &volatility, &price, &strike, &years, &call, &put});
    for (CUdeviceptr p : {price, strike, years, call, put}) CHECK(cuMemFree(p));
  }
  close();
}

// ---- part 3: dependent and independent loads, barriers, against warps (Hong & Kim 2009, Figures 26, 30, 31) ----
static void warps() {
  open("warps");
  size_t n = 1 << 25; CUdeviceptr x = array(n), result = array(n), read = array(1 << 27);
  read_before = read;
  for (const char *name : {"loads_dependent", "loads_independent"}) {
    Kernel k = kernel(name, "loads");
    for (int w : {1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32}) {
      int steps = 1024; u32 mask = n - 1, step = sms * 32 * w;
      CHECK(cuMemsetD32(x, step, n));
      auto us = times(k, {(u32)sms, 1, (u32)(32 * w), 1, 0}, {&steps, &mask, &step, &x, &result});
      row(text("\"kernel\": \"%s\", \"blocks\": %d, \"warps_per_block\": %d, \"steps\": %d", name, sms, w, steps), us);
    }
  }
  for (const char *name : {"barrier", "barrier_without"}) {
    Kernel k = kernel(name, "barrier");
    for (int per_sm : {0, 2, 4})
      for (int w : {1, 2, 3, 4, 6, 8, 10, 12, 14, 16}) {
        int blocks = per_sm ? per_sm * sms : 1, trips = per_sm ? 124 : 512, size = blocks * 32 * w * trips;
        CHECK(cuMemsetD32(x, 0, n));
        auto us = times(k, {(u32)blocks, 1, (u32)(32 * w), 1, 0}, {&size, &x});
        row(text("\"kernel\": \"%s\", \"blocks\": %d, \"warps_per_block\": %d, \"trips\": %d", name, blocks, w, trips), us);
      }
  }
  read_before = 0;
  for (CUdeviceptr p : {x, result, read}) CHECK(cuMemFree(p));
  close();
}

// ---- part 4: when warps start and end (Volkov 2016, Figures 3.3, 4.3, 5.1 to 5.4) ----
static CUdeviceptr stamps;
static u32 first_word;  // from launch to launch elsewhere, so that L2 has nothing of what is loaded
static void stamped(const char *figure, const char *what, const Kernel &k, int size, int per_sm, int rounds, int count, std::vector<void *> arguments, bool keep) {
  int dynamic = limit(k, size, per_sm), fit;
  if (dynamic < 0) { CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&fit, k.f, size, 0)); if (fit != per_sm) return; dynamic = 0; }
  if (!strcmp(figure, "5.4")) dynamic = std::max(dynamic, size * 4);
  u32 blocks = sms * per_sm * rounds; size_t n = (size_t)blocks * (size / 32);
  std::vector<Stamp> all(n), best; double least = 1e30;
  for (int r = 0; r < 4; r++, first_word += (1u << 28) + (1u << 24)) {
    launch(k, {blocks, 1, (u32)size, 1, dynamic}, arguments); CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(all.data(), stamps, n * sizeof(Stamp)));
    std::vector<u64> first(sms, ~0ull), last(sms, 0);
    for (auto &s : all) { first[s.sm] = std::min(first[s.sm], s.start); last[s.sm] = std::max(last[s.sm], s.end); }
    double span = 0; for (int i = 0; i < sms; i++) span = std::max(span, (double)(last[i] - first[i]));
    if (r && span < least) { least = span; best = all; }
  }
  std::vector<u64> first(sms, ~0ull); double latency = 0;
  for (auto &s : best) { first[s.sm] = std::min(first[s.sm], s.start); latency += s.end - s.start; }
  fprintf(file, "%s{\"figure\": \"%s\", \"what\": \"%s\", \"threads\": %d, \"blocks_per_sm\": %d, \"rounds\": %d, \"count\": %d, \"span_cycles\": %.0f, \"mean_warp_cycles\": %.1f",
          comma, figure, what, size, per_sm, rounds, count, least, latency / n);
  comma = ",\n";
  if (keep) {  // of one SM, the start and the end of each warp from the SM's first start on
    fprintf(file, ", \"warps\": ["); const char *c = "";
    for (auto &s : best) if (s.sm == 0) { fprintf(file, "%s[%llu,%llu]", c, s.start - first[0], s.end - first[0]); c = ","; }
    fprintf(file, "]");
  }
  fprintf(file, "}"); fflush(file);
}
static void stamped_parts() {
  open("stamps");
  CHECK(cuMemAlloc(&stamps, sizeof(Stamp) * 4000000));
  size_t words = 1ull << 30; CUdeviceptr zeros = array(words); u32 mask = words - 1;
  Kernel loads = kernel("ladders", "stamped_loads"), rsqrt = kernel("ladders", "stamped_rsqrt"), shared = kernel("ladders", "stamped_shared");
  auto run_loads = [&](const char *figure, const char *what, int stride, int size, int per_sm, int rounds, int count, bool keep) {
    stamped(figure, what, loads, size, per_sm, rounds, count, {&zeros, &mask, &first_word, &stride, &count, &stamps}, keep);
  };
  run_loads("5.1", "loads", 1, 128, 16, 24, 128, true);
  for (int size : {64, 128, 256, 512, 1024}) run_loads("5.3", "loads", 1, size, 2048 / size, 12, 128, size == 64 || size == 1024);
  for (int stride : {1, 2, 0})
    for (int w : {1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64}) {
      const char *what = stride == 0 ? "random" : stride == 1 ? "stride 1" : "stride 2";
      run_loads("4.3", what, stride, w <= 32 ? 32 * w : 16 * w, w <= 32 ? 1 : 2, 1, stride ? 256 : 64, false);
    }
  int many = 16384, few = 2048;
  for (int w = 1; w <= 32; w++) stamped("5.2", "rsqrt", rsqrt, 32 * w, 1, 4, many, {&many, &stamps}, w == 17);
  for (int w = 34; w <= 64; w += 2) stamped("5.2", "rsqrt", rsqrt, 16 * w, 2, 4, many, {&many, &stamps}, false);
  stamped("5.4", "persistent", shared, 320, 2, 1, 50 * few, {new int(50 * few), &stamps}, true);
  stamped("5.4", "oversubscribed", shared, 320, 2, 50, few, {&few, &stamps}, true);
  close();
}

int main(int argc, char **argv) {
  if (argc != 3) { fprintf(stderr, "usage: ladders CUBINS OUT\n"); return 2; }
  folder = argv[1]; out = argv[2];
  CUdevice device; CUcontext context;
  CHECK(cuInit(0)); CHECK(cuDeviceGet(&device, 0)); CHECK(cuDevicePrimaryCtxRetain(&context, device)); CHECK(cuCtxSetCurrent(context));
  CHECK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  CHECK(cuEventCreate(&from, 0)); CHECK(cuEventCreate(&to, 0));
  random_kernel = kernel("ladders", "fill_random"); iota_kernel = kernel("ladders", "fill_iota");
  reading_kernel = kernel("vabs", "vabs");
  ladders(); fprintf(stderr, "ladders done\n");
  threads(); fprintf(stderr, "threads done\n");
  warps(); fprintf(stderr, "warps done\n");
  stamped_parts(); fprintf(stderr, "stamps done\n");
  return 0;
}
