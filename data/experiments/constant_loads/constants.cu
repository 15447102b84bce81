// How often an SM loads from constant memory (LDC), alone and beside shared memory: cycles of an SM per instruction.
//   nvcc -O3 -arch=sm_90 -o constants data/experiments/constant_loads/constants.cu && ./constants > data/experiments/constant_loads/constants.json
// Each warp has so many chains of loads, each load the address of the next; `with` another instruction in turn.
#include <cstdio>
typedef unsigned u32;
typedef unsigned long long u64;
enum With { ALONE, LDS, SFU, SPECIAL };
__constant__ u32 table[512];

template <int W, int C> __global__ void body(u32 *data, double *rates, int warps, int start) {
  __shared__ u32 s[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  u32 base = (u32)__cvta_generic_to_shared(s);
  s[lane] = base;
  u32 x[C], y = base; float f = 1;
  for (int i = 0; i < C; i++) x[i] = ((volatile u32 *)data)[lane] + start;
  __syncthreads();
  if (warp >= warps) { if (!lane) rates[warp] = 0; return; }
  long long begin = clock64(), spent; int done = 0;
#pragma unroll 1
  do {
#pragma unroll
    for (int u = 0; u < 64 / C; u++)
#pragma unroll
      for (int i = 0; i < C; i++) {
        x[i] = table[x[i]];
        if (W == LDS) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(y));
        if (W == SPECIAL) { u32 z; asm volatile("mov.u32 %0, %%warpid;" : "=r"(z)); y += z; }
        if (W == SFU) asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(f));
      }
    done += 64; spent = clock64() - begin;
  } while (spent < 400000);
  u32 sum = y + (u32)f;
  for (int i = 0; i < C; i++) sum += x[i];
  if (sum == 12345) data[64] = sum;
  if (!lane) rates[warp] = (double)done / spent;
}

static u32 *data; static double *rates; static int first = 1;
template <int W, int C> void run(const char *with) {
  for (int warps : {1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32}) {
    double host[32], best = 0, least = 1e9;
    for (int repetition = 0; repetition < 5; repetition++) {
      body<W, C><<<1, 1024>>>(data, rates, warps, 0);
      if (cudaMemcpy(host, rates, sizeof host, cudaMemcpyDeviceToHost)) fprintf(stderr, "failed\n");
      double sum = 0; for (double r : host) sum += r;
      if (sum > best) best = sum;
      if (sum < least) least = sum;
    }
    printf("%s\n{\"with\": \"%s\", \"chains\": %d, \"warps\": %d, \"cycles\": %.4f, \"most\": %.4f}", first ? "" : ",", with, C, warps, 1 / best, 1 / least);
    first = 0;
  }
}
int main() {
  u32 zeros[512] = {};
  cudaMemcpyToSymbol(table, zeros, sizeof zeros);
  cudaMalloc(&data, 4096); cudaMemset(data, 0, 4096); cudaMalloc(&rates, 256);
  cudaDeviceProp p; cudaGetDeviceProperties(&p, 0);
  printf("{\"gpu\": \"%s\", \"samples\": [", p.name);
  run<ALONE, 1>("alone"); run<ALONE, 2>("alone"); run<ALONE, 4>("alone"); run<ALONE, 8>("alone");
  run<LDS, 1>("lds"); run<LDS, 4>("lds"); run<SFU, 4>("sfu");
  run<SPECIAL, 4>("special");
  printf("\n]}\n");
}
