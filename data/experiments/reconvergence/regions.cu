// What branches cost many warps: regions that all lanes skip, or none, with lanes that may part (BSSY, BRA, BSYNC) and
// not (BRA). regions.py compiles it, takes BSYNC and BSSY away, runs it. Cycles of an SM per region.
typedef unsigned u32;

#define NINE "mul.f32 %0, %0, %2; mul.f32 %0, %0, %2; mul.f32 %0, %0, %2; mul.f32 %0, %0, %2; mul.f32 %0, %0, %2; mul.f32 %0, %0, %2; mul.f32 %0, %0, %2; mul.f32 %0, %0, %2; mul.f32 %0, %0, %2; "
#define REGION(BRA) \
  asm volatile("{ .reg .pred p; setp.lt.s32 p, %1, %3; @p " BRA " SKIP; " NINE " SKIP: }" : "+f"(x) : "r"(lane), "f"(y), "r"(limit) : "memory");

// `every`: of the warps one in so many runs, `warps` in all; `limit`: lanes below it skip.
#define KERNEL(NAME, BRA, LANE) \
  extern "C" __global__ void __launch_bounds__(1024) NAME(u32 *data, double *rates, int warps, int every, int limit) { \
    int lane = ((volatile u32 *)data)[0] + LANE, warp = threadIdx.x / 32; \
    float x = ((volatile float *)data)[1], y = ((volatile float *)data)[2]; \
    if (threadIdx.x % 32 == 0) rates[warp] = 0; \
    __syncthreads(); \
    if (warp % every || warp >= warps * every) return; \
    long long begin = clock64(), spent; int done = 0; \
    _Pragma("unroll 1") do { \
      _Pragma("unroll") for (int u = 0; u < 32; u++) { REGION(BRA) } \
      done += 32; spent = clock64() - begin; \
    } while (spent < 400000); \
    if (x == 12345) data[64] = 1; \
    if (threadIdx.x % 32 == 0) rates[warp] = (double)done / spent; \
  }
KERNEL(uniform, "bra.uni", 0)
KERNEL(region, "bra", threadIdx.x % 32)
