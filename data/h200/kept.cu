// Which lines L1 keeps: warps load what a table says, so many loads at once, turn after turn; then lines are touched one
// after the other, and the time of each says whether it was there. Patterns and results: kept.py, kept.json.gz.
//   nvcc -arch=sm_90 -cubin -o kept.cubin kept.cu
// Before that, `before` other lines are loaded in a row. A load touches `width` lines, 32 / width lanes each, `unit` bytes apart.
// Modes: 0 one warp touches the lines of a list; 1 every warp touches what it has just loaded, in every turn.
// Lines from 32768 on are those of `old`. Tables (numbers of lines) are in shared memory while it runs, so that nothing else passes through L1.
__device__ unsigned load(const char *at) {
  unsigned v;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}
__device__ unsigned timed(const char *at, unsigned &sum) {
  unsigned before, after = 0;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(before) :: "memory");
  sum += load(at);
  if (sum != 12345u) asm volatile("mov.u32 %0, %%clock;" : "=r"(after) :: "memory");  // when it is there
  return min(after - before, 65535u);
}
__device__ const char *place(const char *data, const char *old, int line) {
  return line < 32768 ? data + line * 128 : old + (line - 32768) * 128;
}
template <int LOADS>
__device__ void kept(const char *data, const char *old, const unsigned short *table, int before, int turns, int width, int unit, int mode, int probes, unsigned short *out) {
  extern __shared__ unsigned short shared[];
  int warps = blockDim.x >> 5, warp = threadIdx.x >> 5, lane = threadIdx.x & 31, per = 32 / width;
  int lines = turns * LOADS * warps * width, total = lines + (mode ? 0 : probes);
  for (int i = threadIdx.x; i < total; i += blockDim.x) shared[i] = __ldcg(table + i);
  unsigned short *times = shared + total;
  unsigned sum = 0;
#pragma unroll 1
  for (int i = warp; i < before; i += warps) sum += load(old + i * 128 + lane * 4), __syncwarp(sum == 12345u ? 1u : 0xffffffffu);
#pragma unroll 1
  for (int t = 0; t < turns; t++) {
    const char *at[LOADS];
    unsigned v[LOADS];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < LOADS; k++) at[k] = place(data, old, shared[((t * LOADS + k) * warps + warp) * width + lane / per]) + lane % per * unit;
#pragma unroll
    for (int k = 0; k < LOADS; k++) v[k] = load(at[k]);
#pragma unroll
    for (int k = 0; k < LOADS; k++) sum += v[k];
    if (mode)
      for (int k = 0; k < LOADS; k++) {
        unsigned taken = timed(at[k] + (sum == 12345u), sum);
        if (!lane) times[(t * LOADS + k) * warps + warp] = taken;
      }
  }
  __syncthreads();
  if (!mode && threadIdx.x < 32)
#pragma unroll 1
    for (int p = 0; p < probes; p++) {
      times[p] = timed(place(data, old, shared[lines + p]) + (sum == 12345u), sum);
    }
  __syncthreads();
  for (int p = threadIdx.x; p < probes; p += blockDim.x) out[p] = times[p];
}
#define KEPT(N) extern "C" __global__ void __launch_bounds__(1024) kept##N(const char *data, const char *old, const unsigned short *table, int before, int turns, int width, int unit, int mode, int probes, unsigned short *out) { kept<N>(data, old, table, before, turns, width, unit, mode, probes, out); }
KEPT(1) KEPT(2) KEPT(4) KEPT(8) KEPT(16)
