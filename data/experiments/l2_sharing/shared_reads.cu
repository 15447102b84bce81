// Groups of blocks that read the same lines at about the same time, past L1: what meets on the way to L2?
// One block per SM (dynamic shared memory sees to that). `out` gets the SM of each block and a sum.
extern "C" __global__ void __launch_bounds__(512) shared_reads(const uint4 *x, unsigned *out, int groups, int consecutive,
                                                               int size, int lines, int passes) {
  int group = consecutive ? blockIdx.x / size : blockIdx.x % groups;
  const uint4 *own = x + (long long)group * lines * 8;
  unsigned sum = 0;
  for (int p = 0; p < passes; p++)
    for (int i = threadIdx.x; i < lines * 8; i += 512 * 8) {
      uint4 v[8];
#pragma unroll
      for (int k = 0; k < 8; k++) {
        const uint4 *at = own + i + k * 512;
        asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[k].x), "=r"(v[k].y), "=r"(v[k].z), "=r"(v[k].w) : "l"(at));
      }
#pragma unroll
      for (int k = 0; k < 8; k++) sum ^= v[k].x + v[k].y + v[k].z + v[k].w;
    }
  unsigned sm;
  asm("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x == 0) out[blockIdx.x] = sm;
  if (sum == 12345) out[132 + blockIdx.x] = sum;
}
