// What it costs to go from one warp to another: K independent adds, then an instruction that waits for the one C bodies before.
// switches.py compiles it, changes control codes in the machine code, runs it. Cycles of one scheduler per body.
typedef unsigned long long u64;
enum Other { NONE, MUFU, LDS };

template <int O> __device__ __forceinline__ void other(float &f) {
  unsigned r;
  if (O == MUFU) asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(f));
  if (O == LDS) { r = __float_as_uint(f); asm volatile("ld.shared.u32 %0, [%0];" : "+r"(r)); f = __uint_as_float(r); }
}

template <int O, int K, int C> __device__ __forceinline__ void body(float *keep, double *rates, float zero, unsigned active) {
  __shared__ unsigned s[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  unsigned base = (unsigned)__cvta_generic_to_shared(s);
  s[lane] = base;
  float f[16], g[C];
  for (int i = 0; i < 16; i++) f[i] = 1;
  for (int i = 0; i < C; i++) g[i] = O == LDS ? __uint_as_float(base) : 1;
  __syncthreads();
  if (!(active >> (warp >> 2) & 1)) { if (!lane) rates[blockIdx.x * 32 + warp] = 0; return; }
  constexpr int U = (256 / (K + 1) + 3) / 4 * 4;
  long long start = clock64(), spent; int done = 0;
#pragma unroll 1
  do {
    int m = 0;
#pragma unroll
    for (int u = 0; u < U; u++) {
      other<O>(g[u % C]);
#pragma unroll
      for (int i = 0; i < K; i++) { int c = m++ & 15; asm volatile("add.f32 %0, %0, %1;" : "+f"(f[c]) : "f"(zero)); }
    }
    done += U; spent = clock64() - start;
  } while (spent < 400000);
  float sum = 0;
  for (int i = 0; i < 16; i++) sum += f[i];
  for (int i = 0; i < C; i++) sum += g[i];
  if (sum == 1.2345f) keep[0] = 1;
  if (!lane) rates[blockIdx.x * 32 + warp] = (double)done / spent;
}

#define KERNEL(O, K, C) \
  extern "C" __global__ void __launch_bounds__(1024) O##_##K##_##C(float *keep, double *rates, float zero, unsigned active) { body<O, K, C>(keep, rates, zero, active); }
#define CHAINS(O, K) KERNEL(O, K, 1) KERNEL(O, K, 2) KERNEL(O, K, 4)
#define ADDS(O) CHAINS(O, 4) CHAINS(O, 8) CHAINS(O, 16) CHAINS(O, 32)
ADDS(MUFU) ADDS(LDS) KERNEL(NONE, 8, 1) KERNEL(NONE, 16, 1)
