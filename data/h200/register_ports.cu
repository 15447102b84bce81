// What an instruction costs among K adds, by the cycles of one scheduler per body: the register ports.
//   nvcc -O3 -arch=sm_90 -o register_ports data/h200/register_ports.cu && ./register_ports > register_ports.json
// With -DALL_SMS -DREPETITIONS=20 -DSCHEDULERS=1: register_ports_alone.json.gz (gzip; what the GPU and the command were was added).
// Chained: the adds depend on one another, the other instruction on nothing or on them. Else 16 chains of adds, 4 of the other.
#include <cstdio>
#ifndef REPETITIONS
#define REPETITIONS 3  // the best one counts; `most`: the cycles of the worst
#endif
#ifdef ALL_SMS
#define SMS 132  // `cycles`: by the mean rate of all SMs and repetitions; `fastest` and `slowest`: of any SM and repetition
#else
#define SMS 1
#endif
#ifndef SCHEDULERS
#define SCHEDULERS 4  // that have warps which run
#endif
typedef unsigned long long u64;
enum Other { NONE, MUFU, LDS, LDG64, ADDRESS_LDG, SHF, MUFU_LOOSE, LDS_LOOSE };

template <int O> __device__ __forceinline__ void other(float &f, unsigned &r, u64 &q, unsigned a) {
  if (O == MUFU) asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(f));
  if (O == LDS) { r = __float_as_uint(f); asm volatile("ld.shared.u32 %0, [%0];" : "+r"(r)); f = __uint_as_float(r); }
  if (O == LDG64) asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(q));
  if (O == ADDRESS_LDG) asm volatile("{.reg .u64 t; mul.wide.u32 t, %1, 4; add.u64 t, t, %2; ld.global.ca.u32 %0, [t];}" : "=r"(r) : "r"(r), "l"(q));
  if (O == SHF) asm volatile("shf.l.wrap.b32 %0, %0, %1, 5;" : "+r"(r) : "r"(a));
}

template <int O, int K, bool CHAINED> __global__ void body(u64 *p, float zero, double *rates, unsigned active, unsigned a) {
  __shared__ unsigned s[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  unsigned base = (unsigned)__cvta_generic_to_shared(s);
  s[lane] = base; p[lane] = O == ADDRESS_LDG ? 0 : (u64)(p + lane);
  float f[16], g[4]; unsigned r[4]; u64 q[4];
  for (int i = 0; i < 16; i++) f[i] = CHAINED && O == LDS ? __uint_as_float(base) : 1;
  for (int i = 0; i < 4; i++) g[i] = O == LDS || O == LDS_LOOSE ? __uint_as_float(base) : 1, r[i] = 0, q[i] = (u64)(p + lane);
  __syncthreads();
  if (warp % 4 >= SCHEDULERS || !(active >> (warp >> 2) & 1)) { if (!lane) rates[blockIdx.x * 32 + warp] = 0; return; }
  constexpr int U = (512 / (K + 1) + 3) / 4 * 4;
  long long start = clock64(), spent; int done = 0;
#pragma unroll 1
  do {
    int m = 0;
#pragma unroll
    for (int u = 0; u < U; u++) {
      constexpr int WHAT = O == MUFU_LOOSE ? MUFU : O == LDS_LOOSE ? LDS : O;
      other<WHAT>(CHAINED && WHAT == O ? f[0] : g[CHAINED ? 0 : u & 3], r[u & 3], q[u & 3], a);
#pragma unroll
      for (int i = 0; i < K; i++) { int c = CHAINED ? 0 : m++ & 15; asm volatile("add.f32 %0, %0, %1;" : "+f"(f[c]) : "f"(zero)); }
    }
    done += U; spent = clock64() - start;
  } while (spent < 400000);
  float sum = 0;
  for (int i = 0; i < 16; i++) sum += f[i];
  for (int i = 0; i < 4; i++) sum += g[i] + r[i] + q[i];
  if (sum == 1.2345f) p[0] = 1;
  if (!lane) rates[blockIdx.x * 32 + warp] = (double)done / spent;
}

static u64 *p;
static const char *names[] = {"none", "mufu", "lds", "ldg64", "address_ldg", "shf", "mufu_loose", "lds_loose"};
static double *rates; static int first = 1;
template <int O, int K, bool CHAINED> void run() {
  for (unsigned active : {0xffu, 0x7fu, 0x3fu, 0x1fu, 0x0fu, 0x55u, 0x03u}) {
    double best = 0, least = 1e9, total = 0; static double host[SMS][32];
    for (int repetition = 0; repetition < REPETITIONS; repetition++) {
      body<O, K, CHAINED><<<132, 1024>>>(p, 0, rates, active, 3);
      if (cudaMemcpy(host, rates, sizeof host, cudaMemcpyDeviceToHost)) fprintf(stderr, "failed\n");
      for (auto &sm : host) {
        double sum = 0; for (double x : sm) sum += x / SCHEDULERS;
        if (sum > best) best = sum;
        if (sum < least) least = sum;
        total += sum / SMS / REPETITIONS;
      }
    }
    printf("%s\n{\"other\": \"%s\", \"adds\": %d, \"chained\": %s, \"active\": %u, ", first ? "" : ",", names[O], K, CHAINED ? "true" : "false", active);
#ifdef ALL_SMS
    printf("\"cycles\": %.4f, \"fastest\": %.4f, \"slowest\": %.4f}", 1 / total, 1 / best, 1 / least);
#else
    printf("\"cycles\": %.3f, \"most\": %.3f}", 1 / best, 1 / least);
#endif
    first = 0;
  }
}
template <int O, bool CHAINED> void adds() { run<O, 4, CHAINED>(); run<O, 8, CHAINED>(); run<O, 16, CHAINED>(); run<O, 32, CHAINED>(); }
int main() {
  cudaMalloc(&p, 4096); cudaMalloc(&rates, 132 * 32 * 8);
  printf("{\"samples\": [");
  adds<NONE, true>(); adds<MUFU, true>(); adds<LDS, true>(); adds<MUFU_LOOSE, true>(); adds<LDS_LOOSE, true>();
  adds<MUFU, false>(); adds<LDS, false>(); adds<LDG64, false>(); adds<ADDRESS_LDG, false>(); adds<SHF, false>();
  run<MUFU, 1, false>(); run<LDS, 1, false>(); run<LDG64, 0, false>(); run<ADDRESS_LDG, 0, false>();
  printf("\n]}\n");
}
