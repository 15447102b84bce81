// Warps of one scheduler run the same slots, which together.py fills, from when each of them sees that the time has come.
typedef unsigned u32;
#define A4 "add.f32 %24, %24, %25;\n add.f32 %24, %24, %25;\n add.f32 %24, %24, %25;\n add.f32 %24, %24, %25;\n"
#define C(k) "mov.u32 %" #k ", %%clock;\n" A4
#define T(k) "=r"(t[k]), "=r"(t[k + 1]), "=r"(t[k + 2]), "=r"(t[k + 3])
extern "C" __global__ void __launch_bounds__(512) together(u32 *out, float *in, int warps) {
  __shared__ u32 begin;
  int warp = threadIdx.x / 32, group = warp / 4;
  if (warp % 4 || group >= warps) return;
  float x = in[threadIdx.x % 32], y = in[32 + threadIdx.x % 32];
#pragma unroll 1
  for (int rep = 0; rep < 12; rep++) {
    u32 now, t[24];
    asm volatile("mov.u32 %0, %%clock;" : "=r"(now));
    if (warp == 0) begin = now + 700;
    asm volatile("barrier.sync 0, %0;" ::"r"(warps * 32) : "memory");
    u32 until = *(volatile u32 *)&begin;
    do asm volatile("mov.u32 %0, %%clock;" : "=r"(now));
    while ((int)(now - until) < 0);
    asm volatile(C(0) A4 C(1) C(2) C(3) C(4) C(5) C(6) C(7) C(8) C(9) C(10) C(11) C(12) C(13) C(14) C(15) C(16) C(17)
                 C(18) C(19) C(20) C(21) C(22) C(23)
                 : T(0), T(4), T(8), T(12), T(16), T(20), "+f"(x) : "f"(y));
    if (threadIdx.x % 32 == 0)
#pragma unroll
      for (int i = 0; i < 24; i++) out[(rep * 32 + group) * 32 + i] = t[i];
    asm volatile("barrier.sync 0, %0;" ::"r"(warps * 32) : "memory");
  }
  out[16384 + threadIdx.x] = (u32)x;
}
