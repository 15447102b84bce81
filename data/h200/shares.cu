// All warps run the same short loop without end of work, and note the clock eight times: who gets how many issue slots.
typedef unsigned u32;
#define LOOP(name, count, ...) extern "C" __global__ void __launch_bounds__(1024) name(u32 *out, const float *in, int turns) { \
  __shared__ u32 chain[1024]; \
  u32 place = (u32)__cvta_generic_to_shared(chain); \
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) chain[i] = place; \
  float x = in[threadIdx.x], y = in[1], x1 = x + 1, x2 = x + 2, x3 = x + 3; \
  int a = (int)x, b = (int)y + 3, c = b + 5; \
  double d = x, e = y; \
  long long wide = a; \
  u32 clock[9]; \
  __syncthreads(); \
  asm volatile("mov.u32 %0, %%clock;" : "=r"(clock[0]) :: "memory"); \
  _Pragma("unroll") for (int k = 1; k < 9; k++) { \
    _Pragma("unroll 1") for (int t = 0; t < turns; t++) { _Pragma("unroll") for (int j = 0; j < count; j++) asm volatile(__VA_ARGS__); } \
    asm volatile("mov.u32 %0, %%clock;" : "=r"(clock[k]) :: "memory"); \
  } \
  if (threadIdx.x % 32 == 0) for (int k = 0; k < 9; k++) out[9 * (threadIdx.x / 32) + k] = clock[k]; \
  if (x + x1 + x2 + x3 + a + d + wide + place == 12345.0f) out[5000] = 1; \
}
#define ADD "add.f32 %0, %0, %1;"
#define ADDS ADD ADD ADD ADD ADD ADD ADD ADD
LOOP(fadd, 32, ADD : "+f"(x) : "f"(y))
LOOP(fadd4, 8, "add.f32 %0, %0, %4; add.f32 %1, %1, %4; add.f32 %2, %2, %4; add.f32 %3, %3, %4;"
     : "+f"(x), "+f"(x1), "+f"(x2), "+f"(x3) : "f"(y))
LOOP(lop3, 32, "lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(a) : "r"(b), "r"(c))
LOOP(imad, 32, "mad.lo.s32 %0, %0, %1, %2;" : "+r"(a) : "r"(b), "r"(c))
LOOP(imad_wide, 32, "mad.wide.u32 %0, %1, %2, %0;" : "+l"(wide) : "r"(b), "r"(c))
LOOP(dadd, 32, "add.f64 %0, %0, %1;" : "+d"(d) : "d"(e))
LOOP(hfma2, 32, "fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(a) : "r"(b), "r"(c))
LOOP(mufu, 32, "ex2.approx.ftz.f32 %0, %0;" : "+f"(x))
LOOP(lds, 32, "ld.shared.b32 %0, [%0];" : "+r"(place))
LOOP(fadd8_mufu, 8, ADDS "ex2.approx.ftz.f32 %0, %0;" : "+f"(x) : "f"(y))
LOOP(fadd8_lds, 8, "add.f32 %0, %0, %2; add.f32 %0, %0, %2; add.f32 %0, %0, %2; add.f32 %0, %0, %2; add.f32 %0, %0, %2;"
     "add.f32 %0, %0, %2; add.f32 %0, %0, %2; add.f32 %0, %0, %2; ld.shared.b32 %1, [%1];" : "+f"(x), "+r"(place) : "f"(y))
