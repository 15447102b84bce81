// What accesses cost in the data path that shared memory and L1 have in common, beside conflict-free reads of shared memory;
// and what loads that hit in L1 cost by the pattern of their lanes. Cycles of an SM per access.
//   nvcc -O3 -arch=sm_90 -o data_path data/h200/data_path.cu && ./data_path > data_path.json
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
typedef unsigned u32;
typedef unsigned long long u64;
enum What { NONE, LOAD4_MISS, LOAD16_MISS, LOAD4_NO_L1, SECTOR_MISS, LINES2_MISS, STORE4, STORE16, STORE4_SECTOR, LOAD4_HIT, LOAD1_HIT,
            SHARED_STORE, SHUFFLE, SPECIAL, COPY4, COPY16,
            LOAD8_MISS, SHIFTED_MISS, LINES4_MISS, LINES8_MISS, SECTORS8_MISS, LINES32_MISS, LINES32_ODD_MISS, OFF_SHARED, OFF_LOAD,
            HALF_HIT, LINES32_FOUR_MISS, CONFLICT16_HIT, CONFLICT16_FOUR_MISS, CONFLICT16_MISS, LINES32_ODD_HIT, KINDS };
static const char *names[] = {"none", "load4_miss", "load16_miss", "load4_no_l1", "sector_miss", "lines2_miss", "store4", "store16",
  "store4_sector", "load4_hit", "load1_hit", "shared_store", "shuffle", "special_register", "copy4", "copy16",
  "load8_miss", "shifted_miss", "lines4_miss", "lines8_miss", "sectors8_miss", "lines32_miss", "lines32_odd_miss", "off_shared", "off_load",
  "half_hit", "lines32_four_miss", "conflict16_hit", "conflict16_four_miss", "conflict16_miss", "lines32_odd_hit"};

__device__ __forceinline__ u32 lds(u32 at) { u32 v; asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v) : "r"(at)); return v; }

// Each warp goes through its own lines of `data`: `stride` bytes on with every trip, `mask` bytes at most.
template <int K, int WHAT> __global__ void __launch_bounds__(1024) beside(char *data, u64 *out, int trips, u32 mask, u32 degree) {
  extern __shared__ u32 shared[];
  u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, global_warp = blockIdx.x * (blockDim.x / 32) + warp;
  u32 base = (u32)__cvta_generic_to_shared(shared), at = base + lane * degree * 4 % 4096 + lane * degree * 4 / 4096 * 4, sum = 0;
  for (u32 i = threadIdx.x; i < 2048; i += blockDim.x) shared[i] = i;
  u32 width = WHAT == LOAD16_MISS || WHAT == STORE16 || WHAT == COPY16 ? 16 : 4;
  u32 mine = lane * width, step = 32 * width;
  if (WHAT == SECTOR_MISS) mine = lane % 8 * 4, step = 128;
  if (WHAT == STORE4_SECTOR) mine = lane % 8 * 4, step = 128;
  if (WHAT == LINES2_MISS) mine = lane * 8, step = 256;
  if (WHAT == LOAD8_MISS) mine = lane * 8, step = 256;
  if (WHAT == SHIFTED_MISS) mine = lane * 4 + 64, step = 256;
  if (WHAT == LINES4_MISS) mine = lane * 16, step = 512;
  if (WHAT == LINES8_MISS) mine = lane * 32, step = 1024;              // a sector per lane
  if (WHAT == SECTORS8_MISS) mine = lane / 4 * 128 + lane % 4 * 4, step = 1024;  // a sector of each of eight lines
  if (WHAT == LINES32_MISS) mine = lane * 128, step = 4096;
  if (WHAT == LINES32_ODD_MISS) mine = lane * 132, step = 4352;
  if (WHAT == HALF_HIT) mine = lane % 16 * 4 + lane / 16 * 64, step = lane < 16 ? 0 : 256;
  if (WHAT == LINES32_FOUR_MISS || WHAT == LINES32_ODD_HIT) mine = lane * 132, step = WHAT == LINES32_FOUR_MISS && lane % 8 == 3 ? 8448 : 0;
  if (WHAT >= CONFLICT16_HIT && WHAT <= CONFLICT16_MISS) mine = lane * 192, step = WHAT == CONFLICT16_MISS || (WHAT == CONFLICT16_FOUR_MISS && lane % 8 == 3) ? 8192 : 0;
  if (WHAT == LOAD1_HIT) mine = lane;
  u32 where = (WHAT >= HALF_HIT && step == 0 ? 0 : warp * (512u << 10) + blockIdx.x * 4096), whole = base + 8192 + threadIdx.x * 16;
  __syncthreads();
  u64 begin = clock64();
#pragma unroll 1
  for (int t = 0; t < trips; t++) {
    u32 v[K];
#pragma unroll
    for (int k = 0; k < K / 2; k++) v[k] = lds(at + 128 * (k % 8));
    char *p = data + ((where + (u32)t * step) & mask) + mine;
    u32 g = 0, g1 = 0, g2 = 0, g3 = 0;
    if (WHAT == LOAD4_MISS || WHAT == SECTOR_MISS || WHAT == LINES2_MISS || (WHAT >= SHIFTED_MISS && WHAT <= LINES32_ODD_MISS) || WHAT >= HALF_HIT) asm volatile("ld.global.u32 %0, [%1];" : "=r"(g) : "l"(p));
    if (WHAT == LOAD8_MISS) asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(g), "=r"(g1) : "l"(p));
    if (WHAT == OFF_SHARED) asm volatile("{.reg .pred q; setp.eq.u32 q, %2, 77; @q ld.volatile.shared.u32 %0, [%1];}" : "+r"(g) : "r"(at), "r"(mask));
    if (WHAT == OFF_LOAD) asm volatile("{.reg .pred q; setp.eq.u32 q, %2, 77; @q ld.global.u32 %0, [%1];}" : "+r"(g) : "l"(p), "r"(mask));
    if (WHAT == LOAD4_NO_L1) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(g) : "l"(p));
    if (WHAT == LOAD16_MISS) asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(g), "=r"(g1), "=r"(g2), "=r"(g3) : "l"(p));
    if (WHAT == STORE4 || WHAT == STORE4_SECTOR) asm volatile("st.global.u32 [%0], %1;" :: "l"(p), "r"(t));
    if (WHAT == STORE16) asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" :: "l"(p), "r"(t));
    if (WHAT == LOAD4_HIT) asm volatile("ld.global.u32 %0, [%1];" : "=r"(g) : "l"(data + mine + (t & degree >> 8)));
    if (WHAT == LOAD1_HIT) asm volatile("ld.global.u8 %0, [%1];" : "=r"(g) : "l"(data + mine + (t & degree >> 8)));
    if (WHAT == SHARED_STORE) asm volatile("st.shared.u32 [%0], %1;" :: "r"(at), "r"(t));
    if (WHAT == SHUFFLE) asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 31, -1;" : "=r"(g) : "r"(t));
    if (WHAT == SPECIAL) asm volatile("mov.u32 %0, %%tid.y;" : "=r"(g));
    if (WHAT == COPY4) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(base + 8192 + threadIdx.x * 4), "l"(p));
    if (WHAT == COPY16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(whole), "l"(p));
#pragma unroll
    for (int k = K / 2; k < K; k++) v[k] = lds(at + 128 * (k % 8));
#pragma unroll
    for (int k = 0; k < K; k++) sum ^= v[k];
    sum ^= g ^ g1 ^ g2 ^ g3;
  }
  u64 end = clock64();
  if (WHAT == COPY4 || WHAT == COPY16) asm volatile("cp.async.wait_all;");
  if (lane == 0) out[2 * global_warp] = begin, out[2 * global_warp + 1] = end;
  if (sum == 0x12345678) out[0] = 0;
}

struct Pattern { u32 at[32]; };
template <int WIDTH> __global__ void __launch_bounds__(1024) hits(const char *data, u64 *out, int trips, Pattern pattern) {
  u32 lane = threadIdx.x % 32, global_warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, sum = 0;
  const char *p = data;
#pragma unroll
  for (int i = 0; i < 32; i++) if (lane == i) p += pattern.at[i];
  u64 begin = 0;
#pragma unroll 1
  for (int t = -1; t < trips; t++) {
    if (t == 0) { __syncthreads(); begin = clock64(); }
#pragma unroll
    for (int u = 0; u < 8; u++) {
      u32 v = 0, x = 0, y = 0, z = 0;
      if (WIDTH == 1) asm volatile("ld.global.u8 %0, [%1];" : "=r"(v) : "l"(p + 128 * u));
      if (WIDTH == 2) { unsigned short s; asm volatile("ld.global.u16 %0, [%1];" : "=h"(s) : "l"(p + 128 * u)); v = s; }
      if (WIDTH == 4) asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p + 128 * u));
      if (WIDTH == 8) asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(v), "=r"(x) : "l"(p + 128 * u));
      if (WIDTH == 16) asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v), "=r"(x), "=r"(y), "=r"(z) : "l"(p + 128 * u));
      sum ^= v ^ x ^ y ^ z;
    }
  }
  u64 end = clock64();
  if (lane == 0) out[2 * global_warp] = begin, out[2 * global_warp + 1] = end;
  if (sum == 0x12345678) out[0] = 0;
}

static char *data;
static u64 *out;
static int sms, first = 1;

static double span(int blocks, int warps) {  // cycles from the first start to the last end, mean over blocks' pairs
  std::vector<u64> t(2 * (size_t)blocks * warps);
  CHECK(cudaMemcpy(t.data(), out, t.size() * 8, cudaMemcpyDeviceToHost));
  double sum = 0;
  for (int b = 0; b < blocks; b++) {
    u64 low = ~0ull, high = 0;
    for (int w = 0; w < warps; w++) low = std::min(low, t[2 * (b * warps + w)]), high = std::max(high, t[2 * (b * warps + w) + 1]);
    sum += double(high - low);
  }
  return sum / blocks;
}

template <int K, int WHAT> void one(u32 degree) {
  const int threads = 1024, blocks = sms;
  int hold = 160 * 1024;
  CHECK(cudaFuncSetAttribute(beside<K, WHAT>, cudaFuncAttributeMaxDynamicSharedMemorySize, hold));
  double best[2] = {1e30, 1e30};
  for (int r = 0; r < 5; r++)
    for (int h = 0; h < 2; h++) {
      beside<K, WHAT><<<blocks, threads, hold>>>(data, out, 100 << h, (16u << 20) - 1, degree);
      CHECK(cudaDeviceSynchronize());
      if (r) best[h] = std::min(best[h], span(blocks, 32));
    }
  printf("%s\n{\"shared_reads\": %d, \"degree\": %u, \"beside\": \"%s\", \"cycles_per_trip\": %.4f}", first ? "" : ",", K, degree, names[WHAT],
         (best[1] - best[0]) / 100 / 32);
  first = 0;
}
template <int K> void all(u32 degree) {
  one<K, NONE>(degree); one<K, LOAD4_MISS>(degree); one<K, LOAD16_MISS>(degree); one<K, LOAD4_NO_L1>(degree); one<K, SECTOR_MISS>(degree);
  one<K, LINES2_MISS>(degree); one<K, STORE4>(degree); one<K, STORE16>(degree); one<K, STORE4_SECTOR>(degree); one<K, LOAD4_HIT>(degree);
  one<K, LOAD1_HIT>(degree); one<K, SHARED_STORE>(degree); one<K, SHUFFLE>(degree); one<K, SPECIAL>(degree); one<K, COPY4>(degree); one<K, COPY16>(degree);
  one<K, LOAD8_MISS>(degree); one<K, SHIFTED_MISS>(degree); one<K, LINES4_MISS>(degree); one<K, LINES8_MISS>(degree); one<K, SECTORS8_MISS>(degree);
  one<K, LINES32_MISS>(degree); one<K, LINES32_ODD_MISS>(degree); one<K, OFF_SHARED>(degree); one<K, OFF_LOAD>(degree);
  one<K, HALF_HIT>(degree); one<K, LINES32_FOUR_MISS>(degree); one<K, CONFLICT16_HIT>(degree); one<K, CONFLICT16_FOUR_MISS>(degree);
  one<K, CONFLICT16_MISS>(degree); one<K, LINES32_ODD_HIT>(degree);
}

template <int WIDTH> void pattern(const char *name, int a, int b, u32 (*f)(int, int, int)) {
  Pattern p;
  for (int i = 0; i < 32; i++) p.at[i] = f(i, a, b) / WIDTH * WIDTH;
  double best[2] = {1e30, 1e30};
  for (int r = 0; r < 4; r++)
    for (int h = 0; h < 2; h++) {
      hits<WIDTH><<<sms, 1024>>>(data, out, 40 << h, p);
      CHECK(cudaDeviceSynchronize());
      if (r) best[h] = std::min(best[h], span(sms, 32));
    }
  printf(",\n{\"pattern\": \"%s\", \"width\": %d, \"a\": %d, \"b\": %d, \"cycles_per_load\": %.4f}", name, WIDTH, a, b, (best[1] - best[0]) / 40 / 8 / 32);
}

static u32 shifted(int i, int width, int by) { return i * width + by; }                              // a stream that starts `by` bytes on
static u32 rows(int i, int pitch, int by) { return (i % 16 * 4 + i / 16 * pitch * 4) + by * 4; }      // 16 lanes in each of two rows
static u32 rows8(int i, int pitch, int by) { return (i % 8 * 4 + i / 8 * pitch * 4) + by * 4; }
static u32 rows_bytes(int i, int pitch, int by) { return i % 16 + i / 16 * pitch + by; }
static u32 every(int i, int stride, int by) { return i * stride + by; }
static u32 same(int i, int groups, int apart) { return i % groups * apart; }

int main() {
  CHECK(cudaMalloc(&data, 64 << 20));
  CHECK(cudaMemset(data, 0, 64 << 20));
  CHECK(cudaMalloc(&out, 1 << 24));
  cudaDeviceProp prop;
  CHECK(cudaGetDeviceProperties(&prop, 0));
  sms = prop.multiProcessorCount;
  printf("{\"gpu\": \"%s\", \"points\": [", prop.name);
  all<16>(1); all<32>(1); all<64>(1); all<8>(8);
  for (int by : {0, 4, 8, 16, 32, 60, 64, 96, 100, 124}) pattern<4>("shifted", 4, by, shifted);
  for (int by : {0, 8, 16, 32, 64, 120}) pattern<8>("shifted", 8, by, shifted);
  for (int by : {0, 16, 32, 64, 112}) pattern<16>("shifted", 16, by, shifted);
  for (int by : {0, 1, 2, 3, 16, 31, 32, 96, 97, 112, 127}) pattern<1>("shifted", 1, by, shifted);
  for (int by : {0, 2, 30, 64, 66, 126}) pattern<2>("shifted", 2, by, shifted);
  for (int stride : {1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64}) pattern<1>("every", stride, 0, every), pattern<1>("every", stride, 1, every);
  for (int stride : {2, 4, 6, 8, 16, 32}) pattern<2>("every", stride, 0, every);
  for (int stride : {4, 8, 12, 16, 20, 24, 28, 36, 40, 48, 64, 80, 96, 128, 132, 136, 144, 160, 192, 256}) pattern<4>("every", stride, 0, every);
  for (int stride : {8, 16, 24, 32, 40, 48, 64, 72, 128}) pattern<8>("every", stride, 0, every);
  for (int stride : {16, 32, 48, 64, 80, 128}) pattern<16>("every", stride, 0, every);
  for (int pitch : {16, 20, 24, 28, 32, 34, 40, 48, 50, 58, 64, 66, 80, 96, 112, 114, 128, 144, 226, 256, 272})
    for (int by : {0, 1, 7, 8, 15, 16, 17, 24, 31}) pattern<4>("rows", pitch, by, rows);
  for (int pitch : {8, 16, 24, 32, 40, 58, 66, 128, 226}) for (int by : {0, 1, 4, 8, 28}) pattern<4>("rows8", pitch, by, rows8);
  for (int pitch : {64, 65, 100, 128, 130, 4000, 4002}) for (int by : {0, 1, 15, 120}) pattern<1>("rows_bytes", pitch, by, rows_bytes);
  for (int groups : {1, 2, 4, 8, 16, 32}) for (int apart : {4, 32, 64, 128, 132, 256, 4096, 4100}) pattern<4>("same", groups, apart, same);
  printf("\n]}\n");
  return 0;
}
