// Scattered accesses on the GPU at hand: rates of random loads, stores and reductions by footprint, and what a load
// that hits in L1 costs by the places its lanes read. One JSON object per line.
#include <cstdio>
#include <cstdlib>
#include <cstdint>
#include <vector>
#include <string>
#include <random>
#include <algorithm>
#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
typedef unsigned long long u64;

__device__ __forceinline__ u64 mix(u64 x) {
  x ^= x >> 33; x *= 0xff51afd7ed558ccdull; x ^= x >> 33; x *= 0xc4ceb9fe1a85ec53ull; x ^= x >> 33; return x;
}
// kind 0: load, 1: store, 2: reduction. `lanes` neighbouring lanes share a piece of lanes*4 bytes, aligned.
template <int KIND, int ILP> __global__ void scattered(unsigned* data, u64 mask, int trips, int lanes, unsigned seed, unsigned* out) {
  u64 id = blockIdx.x * (u64)blockDim.x + threadIdx.x;
  u64 group = id / lanes, within = id % lanes;
  unsigned sum = 0;
  for (int t = 0; t < trips; t++) {
    unsigned* p[ILP];
#pragma unroll
    for (int k = 0; k < ILP; k++)
      p[k] = data + (((mix(group * 0x9E3779B97F4A7C15ull + (u64)(t * ILP + k) * 0xD1B54A32D192ED03ull + seed) * lanes) & mask) + within);
    if (KIND == 0) {
      unsigned v[ILP];
#pragma unroll
      for (int k = 0; k < ILP; k++) v[k] = *p[k];
#pragma unroll
      for (int k = 0; k < ILP; k++) sum += v[k];
    } else if (KIND == 1) {
#pragma unroll
      for (int k = 0; k < ILP; k++) *p[k] = (unsigned)id;
    } else {
#pragma unroll
      for (int k = 0; k < ILP; k++) atomicAdd(p[k], 1u);
    }
  }
  if (KIND == 0 && sum == 0x12345) out[0] = sum;
}
// pieces of lanes * 16 bytes
template <int KIND> __global__ void pieces(uint4* data, u64 mask, int trips, int lanes, unsigned seed, unsigned* out) {
  u64 id = blockIdx.x * (u64)blockDim.x + threadIdx.x;
  u64 group = id / lanes, within = id % lanes;
  unsigned sum = 0;
  for (int t = 0; t < trips; t++) {
    uint4* p[4];
#pragma unroll
    for (int k = 0; k < 4; k++)
      p[k] = data + (((mix(group * 0x9E3779B97F4A7C15ull + (u64)(t * 4 + k) * 0xD1B54A32D192ED03ull + seed) * lanes) & mask) + within);
    if (KIND == 0) {
      uint4 v[4];
#pragma unroll
      for (int k = 0; k < 4; k++) v[k] = *p[k];
#pragma unroll
      for (int k = 0; k < 4; k++) sum += v[k].x + v[k].w;
    } else {
#pragma unroll
      for (int k = 0; k < 4; k++) *p[k] = make_uint4(t, t, t, t);
    }
  }
  if (KIND == 0 && sum == 0x12345) out[0] = sum;
}
template <int KIND> void piecewise(const char* name, unsigned* data, unsigned* out) {
  for (u64 bytes : {16ull << 20, 1ull << 30, 8ull << 30}) for (int lanes : {1, 2, 4, 8, 16, 32, 64, 128, 256}) for (int blocks : {264, 132, 33}) {
    int trips = 64; u64 mask = bytes / 16 - 1;
    float ms = best([&] { pieces<KIND><<<blocks, 1024>>>((uint4*)data, mask, trips, lanes, 7, out); }, 3);
    CHECK(cudaGetLastError());
    double n = (double)blocks * 1024 * 256 / lanes;
    printf("{\"what\": \"%s\", \"piece_bytes\": %d, \"bytes\": %llu, \"blocks\": %d, \"us\": %.2f, \"bytes_per_ns\": %.1f}\n", name, lanes * 16, bytes, blocks, ms * 1e3, n * lanes * 16 / (ms * 1e6));
    fflush(stdout);
  }
}
// what it takes to make the addresses
__global__ void addresses(int trips, int lanes, unsigned seed, unsigned* out) {
  u64 id = blockIdx.x * (u64)blockDim.x + threadIdx.x, group = id / lanes; u64 sum = 0;
  for (int t = 0; t < trips; t++)
#pragma unroll
    for (int k = 0; k < 4; k++) sum += mix(group * 0x9E3779B97F4A7C15ull + (u64)(t * 4 + k) * 0xD1B54A32D192ED03ull + seed);
  if (sum == 0x12345) out[0] = sum;
}
__device__ __forceinline__ void get(unsigned& v, const unsigned* p) { asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(v) : "l"(p)); }
__device__ __forceinline__ void get(uint2& v, const uint2* p) { asm volatile("ld.global.ca.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p)); }
__device__ __forceinline__ void get(uint4& v, const uint4* p) { asm volatile("ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p)); }
// L1: 32 warps of one block, 8 loads of WORDS words per trip at offsets of the lane from a table
template <typename T> __global__ void patterned(const T* data, const int* table, int trips, int shift, long long* cycles, T* out) {
  int lane = threadIdx.x & 31;
  const T* p = data + table[lane];
  T v[8]; int sum = 0;
  for (int warm = 0; warm < 2; warm++) {
    __syncthreads();
    long long start = clock64();
    int n = warm ? trips : 4;
    for (int t = 0; t < n; t++) {
#pragma unroll
      for (int k = 0; k < 8; k++) get(v[k], p + k * shift);
#pragma unroll
      for (int k = 0; k < 8; k++) sum += *(int*)&v[k];
      p += *(int*)&v[7];  // zero: the next loads are others for the compiler
    }
    __syncthreads();
    if (warm && threadIdx.x == 0) cycles[blockIdx.x] = clock64() - start;
  }
  if (sum == 0x12345) out[0] = v[0];
}
static cudaEvent_t a, b;
template <typename F> float best(F f, int n = 5) {
  float least = 1e30f;
  f();
  for (int i = 0; i < n; i++) {
    CHECK(cudaEventRecord(a)); f(); CHECK(cudaEventRecord(b)); CHECK(cudaEventSynchronize(b));
    float ms; CHECK(cudaEventElapsedTime(&ms, a, b)); least = std::min(least, ms);
  }
  return least;
}
template <int KIND> void sweep(const char* name, unsigned* data, unsigned* out, u64 most) {
  for (int lanes : {1, 8, 16, 32})
    for (u64 bytes = KIND == 2 ? 128 : 1 << 20; bytes <= most; bytes *= (KIND == 2 ? 8 : 2)) {
      if (lanes > 1 && bytes != (16ull << 20) && bytes != (1ull << 30) && !(KIND == 2 && bytes == (4ull << 20))) continue;
      for (int blocks : {132 * 2, 132, 33}) for (int ilp : {4, 1}) {
        if (blocks != 264 && (lanes > 1 || (bytes != (16ull << 20) && bytes != (1ull << 30)))) continue;
        int trips = ilp == 4 ? 64 : 256; u64 mask = bytes / 4 - 1; unsigned seed = bytes % 977;
        float ms = best([&] { if (ilp == 4) scattered<KIND, 4><<<blocks, 1024>>>(data, mask, trips, lanes, seed, out);
                              else scattered<KIND, 1><<<blocks, 1024>>>(data, mask, trips, lanes, seed, out); }, 3);
        CHECK(cudaGetLastError());
        double pieces = (double)blocks * 1024 / lanes * 256;
        printf("{\"what\": \"%s\", \"lanes\": %d, \"bytes\": %llu, \"blocks\": %d, \"ilp\": %d, \"us\": %.2f, \"pieces_per_ns\": %.4f}\n", name, lanes, bytes, blocks, ilp, ms * 1e3, pieces / (ms * 1e6));
        fflush(stdout);
      }
    }
}
template <typename T> void pattern(const std::string& name, const std::vector<int>& lanes, T* data, int* table, long long* cycles, T* out, int shift) {
  CHECK(cudaMemcpy(table, lanes.data(), 32 * sizeof(int), cudaMemcpyHostToDevice));
  int trips = 64;
  CHECK(cudaFuncSetAttribute(patterned<T>, cudaFuncAttributePreferredSharedMemoryCarveout, 0));
  long long got[3], least = 1ll << 60;
  for (int i = 0; i < 4; i++) { patterned<T><<<1, 1024>>>(data, table, trips, shift, cycles, out); CHECK(cudaMemcpy(got, cycles, 8, cudaMemcpyDeviceToHost)); least = std::min(least, got[0]); }
  printf("{\"what\": \"l1\", \"pattern\": \"%s\", \"width\": %d, \"cycles\": %.3f, \"at\": [", name.c_str(), (int)sizeof(T), (double)least / (32.0 * 8 * trips));
  for (int i = 0; i < 32; i++) printf("%s%d", i ? "," : "", lanes[i]);
  printf("]}\n"); fflush(stdout);
}
template <typename T> void patterns(void* data, int* table, long long* cycles, void* out) {
  std::mt19937 rng(7);
  int words = sizeof(T) / 4, line = 32 / words;  // elements per line
  for (int s : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 17, 20, 24, 25, 28, 31, 32, 33, 40, 48, 49, 64, 65}) {
    std::vector<int> l(32); for (int i = 0; i < 32; i++) l[i] = i * s;
    if (l[31] / line > 500) continue;
    pattern<T>("stride " + std::to_string(s), l, (T*)data, table, cycles, (T*)out, line);
  }
  for (int o : {1, 4, 8, 16, 24, 31}) {
    if (o >= line) continue;
    std::vector<int> l(32); for (int i = 0; i < 32; i++) l[i] = o + i;
    pattern<T>("offset " + std::to_string(o), l, (T*)data, table, cycles, (T*)out, line);
  }
  for (int half : {2, 4, 8, 16}) {  // rows of neighbours: 32/half rows of half lanes, 33 and 100 lines' worth apart
    for (int apart : {33, 40, 100, 128, 1000}) {
      std::vector<int> l(32); for (int i = 0; i < 32; i++) l[i] = i / half * apart + i % half;
      pattern<T>("rows of " + std::to_string(half) + ", " + std::to_string(apart) + " apart", l, (T*)data, table, cycles, (T*)out, line);
    }
  }
  for (int n : {1, 2, 4, 8, 16, 32}) for (int kind = 0; kind < 3; kind++) {  // n lines; banks: own, random, one
    std::vector<int> l(32);
    for (int i = 0; i < 32; i++) { int bank = kind == 0 ? i % line : kind == 1 ? (int)(rng() % line) : 0; l[i] = (i * n / 32) * line + bank; }
    pattern<T>("lines " + std::to_string(n) + (kind == 0 ? " own banks" : kind == 1 ? " random banks" : " one bank"), l, (T*)data, table, cycles, (T*)out, line);
    for (int i = 0; i < 32; i++) { int bank = kind == 0 ? i % line : kind == 1 ? (int)(rng() % line) : 0; l[i] = (i % n) * line + bank; }
    pattern<T>("interleaved lines " + std::to_string(n) + (kind == 0 ? " own banks" : kind == 1 ? " random banks" : " one bank"), l, (T*)data, table, cycles, (T*)out, line);
  }
  for (int reach : {64, 256, 1024, 4096, 16384}) for (int rep = 0; rep < 3; rep++) {
    std::vector<int> l(32); for (int i = 0; i < 32; i++) l[i] = rng() % (reach / words);
    pattern<T>("random " + std::to_string(reach), l, (T*)data, table, cycles, (T*)out, line);
  }
}
int main() {
  unsigned* data; unsigned* out; int* table; long long* cycles;
  u64 most = 64ull << 30;
  CHECK(cudaMalloc(&data, most)); CHECK(cudaMemset(data, 0, most)); CHECK(cudaMalloc(&out, 1024)); CHECK(cudaMalloc(&table, 1024)); CHECK(cudaMalloc(&cycles, 4096));
  CHECK(cudaEventCreate(&a)); CHECK(cudaEventCreate(&b));
  { float ms = best([&] { addresses<<<264, 1024>>>(64, 1, 1, out); }, 3); printf("{\"what\": \"addresses\", \"us\": %.2f}\n", ms * 1e3); }
  patterns<unsigned>(data, table, cycles, out); patterns<uint2>(data, table, cycles, out); patterns<uint4>(data, table, cycles, out);
  piecewise<0>("load pieces", data, out); piecewise<1>("store pieces", data, out);
  sweep<0>("load", data, out, most); sweep<1>("store", data, out, 4ull << 30); sweep<2>("reduction", data, out, 1ull << 29);
  return 0;
}
