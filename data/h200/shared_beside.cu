// Loads of shared memory in four chains, K adds behind each, on some schedulers; beside them, on the last one, a warp that loads alone.
// shared_beside.py compiles it and runs it. Loads of each warp per cycle.
template <int K> __device__ __forceinline__ void body(float *keep, double *rates, float zero, unsigned active, unsigned schedulers) {
  __shared__ unsigned s[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  unsigned base = (unsigned)__cvta_generic_to_shared(s);
  s[lane] = base;
  float f[16]; unsigned g[4];
  for (int i = 0; i < 16; i++) f[i] = 1;
  for (int i = 0; i < 4; i++) g[i] = base;
  __syncthreads();
  bool alone = warp == 3, runs = alone || (warp % 4 != 3 && schedulers >> (warp % 4) & 1 && active >> (warp >> 2) & 1);
  if (!runs) { if (!lane) rates[blockIdx.x * 32 + warp] = 0; return; }
  constexpr int U = (192 / (K + 1) + 3) / 4 * 4;
  long long start = clock64(), spent; int done = 0;
  if (alone) {
#pragma unroll 1
    do {
#pragma unroll
      for (int u = 0; u < 64; u++) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(g[0]));
      done += 64; spent = clock64() - start;
    } while (spent < 200000);
  } else {
#pragma unroll 1
    do {
      int m = 0;
#pragma unroll
      for (int u = 0; u < U; u++) {
        asm volatile("ld.shared.u32 %0, [%0];" : "+r"(g[u & 3]));
#pragma unroll
        for (int i = 0; i < K; i++) { int c = m++ & 15; asm volatile("add.f32 %0, %0, %1;" : "+f"(f[c]) : "f"(zero)); }
      }
      done += U; spent = clock64() - start;
    } while (spent < 200000);
  }
  float sum = 0;
  for (int i = 0; i < 16; i++) sum += f[i];
  for (int i = 0; i < 4; i++) sum += g[i];
  if (sum == 1.2345f) keep[0] = 1;
  if (!lane) rates[blockIdx.x * 32 + warp] = (double)done / spent;
}

#define KERNEL(K) \
  extern "C" __global__ void __launch_bounds__(1024) beside_##K(float *keep, double *rates, float zero, unsigned active, unsigned schedulers) { body<K>(keep, rates, zero, active, schedulers); }
KERNEL(0) KERNEL(1) KERNEL(2) KERNEL(3) KERNEL(4) KERNEL(6)
