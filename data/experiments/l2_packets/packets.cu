// What L2 and DRAM take for the packets of a warp's access: a packet is what one access asks of one line of 128 bytes.
// Loads, stores and both, by the sectors of a packet and how full they are; reductions by the lines that all share;
// stores of many SMs to one sector. Bases are random, the same for a warp. One JSON object per line.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
typedef unsigned long long u64;
enum { LOAD, STORE, BOTH };

__device__ __forceinline__ unsigned next(unsigned& x) { x = x * 1664525u + 1013904223u; return x ^ x >> 15; }
__device__ __forceinline__ unsigned first(const unsigned* p) { return *p; }
__device__ __forceinline__ unsigned first(const uint2* p) { uint2 v = *p; return v.x ^ v.y; }
__device__ __forceinline__ unsigned first(const uint4* p) { uint4 v = *p; return v.x ^ v.y ^ v.z ^ v.w; }
__device__ __forceinline__ void put(unsigned* p, unsigned v) { *p = v; }
__device__ __forceinline__ void put(uint2* p, unsigned v) { *p = make_uint2(v, v); }
__device__ __forceinline__ void put(uint4* p, unsigned v) { *p = make_uint4(v, v, v, v); }

// A warp's span of 32 strides (bytes) at a random place; stride 0: every lane at a random place of its own.
template <typename T, int KIND> __global__ void packets(char* from, char* to, u64 bytes, int stride, int trips, unsigned* out) {
  unsigned id = blockIdx.x * blockDim.x + threadIdx.x, lane = id % 32;
  unsigned x = (stride ? id / 32 : id) * 2654435761u + 12345u, sum = 0;
  u64 unit = stride ? 32ull * stride : 32, places = bytes / unit;
  for (int t = 0; t < trips; t++) {
    u64 at[4];
#pragma unroll
    for (int k = 0; k < 4; k++) at[k] = __umul64hi((u64)next(x) << 32, places) * unit + (stride ? lane * stride : 0);
    unsigned v[4] = {id, id, id, id};
#pragma unroll
    for (int k = 0; k < 4; k++) if (KIND != STORE) v[k] = first((const T*)(from + at[k]));
#pragma unroll
    for (int k = 0; k < 4; k++) if (KIND == LOAD) sum += v[k]; else put((T*)(to + at[k]), v[k]);
  }
  if (KIND == LOAD && sum == 0x12345) *out = sum;
}
// Reductions: every one of `lanes` lanes of a warp to a random word; old: the old value is asked for.
template <bool OLD> __global__ void reductions(unsigned* data, unsigned words, int lanes, int trips, unsigned* out) {
  unsigned id = blockIdx.x * blockDim.x + threadIdx.x, x = id * 2654435761u + 12345u, sum = 0;
  if ((int)(id % 32) >= lanes) return;
  for (int t = 0; t < trips; t++)
#pragma unroll
    for (int k = 0; k < 4; k++) {
      unsigned* p = data + __umulhi(next(x), words);
      if (OLD) sum += atomicAdd(p, 1u); else atomicAdd(p, 1u);
    }
  if (OLD && sum == 0x12345) *out = sum;
}
// Stores of one word into lines that are the same for all blocks at a time; together: blocks that share a line.
__global__ void shared_lines(unsigned* data, unsigned lines, int together, int trips) {
  unsigned lane = threadIdx.x, x = ((blockIdx.x / together) * blockDim.x + lane) * 2654435761u + 12345u;
  for (int t = 0; t < trips; t++)
#pragma unroll
    for (int k = 0; k < 4; k++) data[(u64)__umulhi(next(x), lines) * 32 + blockIdx.x % 32] = t;
}
static cudaEvent_t a, b;
template <typename F> float best(F f) {
  float least = 1e30f;
  f();
  for (int i = 0; i < 3; i++) {
    CHECK(cudaEventRecord(a)); f(); CHECK(cudaEventRecord(b)); CHECK(cudaEventSynchronize(b));
    float ms; CHECK(cudaEventElapsedTime(&ms, a, b)); least = std::min(least, ms);
  }
  CHECK(cudaGetLastError());
  return least * 1e3f;
}
template <typename T, int KIND> void sweep(const char* name, char* data, unsigned* out) {
  int strides[] = {0, 4, 8, 16, 32, 64, 128};
  u64 sizes[] = {8ull << 20, 16ull << 20, 128ull << 20, 512ull << 20, 2ull << 30, 16ull << 30};
  for (u64 bytes : sizes) for (int stride : strides) for (int blocks : {264, 66}) {
    if ((stride && stride < (int)sizeof(T)) || (blocks == 66 && bytes != 16ull << 20 && bytes != 2ull << 30)) continue;
    u64 part = KIND == BOTH ? bytes / 2 : bytes;
    int trips = 32, width = sizeof(T);
    float us = best([&] { packets<T, KIND><<<blocks, 1024>>>(data, data + (KIND == BOTH ? part : 0), part, stride, trips, out); });
    int lines = stride == 0 ? 32 : stride * 32 / 128, sectors = stride == 0 ? 32 : stride < 32 ? stride : 32;
    double requests = (double)blocks * 32 * trips * 4;
    printf("{\"what\": \"%s\", \"width\": %d, \"stride\": %d, \"bytes\": %llu, \"blocks\": %d, \"us\": %.2f, \"packets_per_ns\": %.3f, \"sectors_per_ns\": %.3f}\n",
           name, width, stride, bytes, blocks, us, requests * lines / us / 1e3, requests * sectors / us / 1e3);
    fflush(stdout);
  }
}
int main() {
  char* data; unsigned* out; u64 most = 16ull << 30;
  CHECK(cudaMalloc(&data, most)); CHECK(cudaMalloc(&out, 256)); CHECK(cudaMemset(data, 0, most));
  CHECK(cudaEventCreate(&a)); CHECK(cudaEventCreate(&b));
  sweep<unsigned, LOAD>("load", data, out); sweep<uint2, LOAD>("load", data, out); sweep<uint4, LOAD>("load", data, out);
  sweep<unsigned, STORE>("store", data, out); sweep<uint2, STORE>("store", data, out); sweep<uint4, STORE>("store", data, out);
  sweep<unsigned, BOTH>("both", data, out); sweep<uint4, BOTH>("both", data, out);
  for (int old : {0, 1}) for (int lanes : {32, 8, 1}) for (unsigned words = 1; words <= 1u << 20; words *= 2) for (int blocks : {264, 66}) {
    if (blocks == 66 && (lanes != 32 || words % 3 == 2)) continue;
    int trips = words < 1024 ? 8 : 32;
    float us = best([&] { if (old) reductions<true><<<blocks, 1024>>>((unsigned*)data, words, lanes, trips, out);
                          else reductions<false><<<blocks, 1024>>>((unsigned*)data, words, lanes, trips, out); });
    printf("{\"what\": \"%s\", \"lanes\": %d, \"words\": %u, \"blocks\": %d, \"us\": %.2f, \"adds_per_ns\": %.4f}\n",
           old ? "atomic" : "reduction", lanes, words, blocks, us, (double)blocks * 32 * lanes * trips * 4 / us / 1e3);
    fflush(stdout);
  }
  for (int together : {1, 2, 4, 8, 32, 132}) {
    float us = best([&] { shared_lines<<<264, 1024>>>((unsigned*)data, 131072, together, 32); });
    printf("{\"what\": \"shared lines\", \"together\": %d, \"us\": %.2f, \"packets_per_ns\": %.3f}\n", together, us, 264.0 * 1024 * 32 * 4 / us / 1e3);
  }
  return 0;
}
