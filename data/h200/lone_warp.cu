// Straight-line code and small loops between two reads of the clock, for one warp alone on an SM.
// Each kernel writes the cycles between its two clock reads; run_cubins.py runs the committed cubin.
#define R2(x) x x
#define R4(x) R2(R2(x))
#define R8(x) R2(R4(x))
#define R16(x) R2(R8(x))
#define R32(x) R2(R16(x))
#define R64(x) R2(R32(x))
// The timed code runs four times and the last run counts: its instructions are then in the caches.
#define FLOATS int t = threadIdx.x; float a = f[t], b = f[t + 32], c = f[t + 64], d = f[t + 96]; \
  float e = f[t + 128], g = f[t + 160], h = f[t + 192], k = f[t + 224]; int i = n[t], j = n[t + 32], c0, c1;
#define DOUBLES double x = q[t], y = q[t + 32], z = q[t + 64], w = q[t + 96], v = q[t + 128];
#define SHARED __shared__ int s[64]; s[threadIdx.x] = (int)__cvta_generic_to_shared(s); __syncthreads();
#define BEGIN _Pragma("unroll 1") for (int run = 0; run < 4; run++) { c0 = clock();
#define END c1 = clock(); } f[t] = a + b + c + d + e + g + h + k; n[t] = i + j; if (t == 0) cycles[0] = c1 - c0;
#define KERNEL(name) extern "C" __global__ void __launch_bounds__(32) name(float *f, int *n, double *q, int *cycles)
#define FADD(x, y) asm volatile("add.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
#define FMUL(x, y) asm volatile("mul.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
#define FFMA(x, y, z) asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(x) : "f"(y), "f"(z));
#define IADD(x, y) asm volatile("add.s32 %0, %0, %1;" : "+r"(x) : "r"(y));
#define IMAD(x, y) asm volatile("mad.lo.s32 %0, %0, %1, %1;" : "+r"(x) : "r"(y));
#define LOP(x, y) asm volatile("lop3.b32 %0, %0, %1, %1, 0x96;" : "+r"(x) : "r"(y));
#define SHF(x, y) asm volatile("shf.l.wrap.b32 %0, %0, %1, 5;" : "+r"(x) : "r"(y));
#define MUFU(x) asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(x));
#define EX2(x) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
#define DFMA(x, y) asm volatile("fma.rn.f64 %0, %0, %1, %1;" : "+d"(x) : "d"(y));
#define DADD(x, y) asm volatile("add.rn.f64 %0, %0, %1;" : "+d"(x) : "d"(y));
#define POPC(x) asm volatile("popc.b32 %0, %0;" : "+r"(x));
#define SHFL(x) asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, -1;" : "+r"(x));
#define I2F(x, y) asm volatile("cvt.rn.f32.s32 %0, %1;" : "=f"(x) : "r"(y));
#define F2I(x, y) asm volatile("cvt.rzi.s32.f32 %0, %1;" : "=r"(x) : "f"(y));
#define LDS(x) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(x));
#define STS(x, y) asm volatile("st.shared.u32 [%0], %1;" ::"r"(x), "r"(y) : "memory");

KERNEL(empty) { FLOATS BEGIN END }
KERNEL(fadd_ilp1) { FLOATS BEGIN R64(FADD(a, b)) END }
KERNEL(fadd_ilp2) { FLOATS BEGIN R32(FADD(a, b) FADD(c, d)) END }
KERNEL(fmul_ilp1) { FLOATS BEGIN R64(FMUL(a, b)) END }
KERNEL(ffma_ilp1) { FLOATS BEGIN R64(FFMA(a, b, c)) END }
KERNEL(ffma_ilp4) { FLOATS BEGIN R16(FFMA(a, g, h) FFMA(b, g, h) FFMA(c, g, h) FFMA(d, g, h)) END }
KERNEL(ffma_ilp8) { FLOATS float l = e, m = g; BEGIN R8(FFMA(a, h, k) FFMA(b, h, k) FFMA(c, h, k) FFMA(d, h, k) FFMA(e, h, k) FFMA(g, h, k) FFMA(l, h, k) FFMA(m, h, k)) END f[t] += l + m; }
KERNEL(iadd_ilp1) { FLOATS BEGIN R64(IADD(i, j)) END }
KERNEL(imad_ilp1) { FLOATS BEGIN R64(IMAD(i, j)) END }
KERNEL(lop3_ilp1) { FLOATS BEGIN R64(LOP(i, j)) END }
KERNEL(shf_ilp1) { FLOATS BEGIN R64(SHF(i, j)) END }
KERNEL(mixed_int) { FLOATS BEGIN R16(IADD(i, j) LOP(i, j) IMAD(i, j) SHF(i, j)) END }
KERNEL(mixed_float_int) { FLOATS BEGIN R16(FADD(a, b) IADD(i, j) FFMA(c, a, b) IMAD(j, i)) END }
KERNEL(mufu_ilp1) { FLOATS BEGIN R32(MUFU(a)) END }
KERNEL(mufu_ilp4) { FLOATS BEGIN R8(MUFU(a) MUFU(b) MUFU(c) MUFU(d)) END }
KERNEL(ex2_ilp1) { FLOATS BEGIN R32(EX2(a)) END }
KERNEL(mufu_fadd) { FLOATS BEGIN R32(MUFU(a) FADD(a, b)) END }
KERNEL(mufu_fadd4) { FLOATS BEGIN R16(MUFU(a) R4(FADD(a, b))) END }
KERNEL(dfma_ilp1) { FLOATS DOUBLES BEGIN R32(DFMA(x, y)) END q[t] = x + z + w + v; }
KERNEL(dfma_ilp4) { FLOATS DOUBLES BEGIN R16(DFMA(x, v) DFMA(y, v) DFMA(z, v) DFMA(w, v)) END q[t] = x + y + z + w; }
KERNEL(dadd_ilp1) { FLOATS DOUBLES BEGIN R32(DADD(x, y)) END q[t] = x + z + w + v; }
KERNEL(popc_ilp1) { FLOATS BEGIN R32(POPC(i)) END }
KERNEL(shfl_ilp1) { FLOATS BEGIN R32(SHFL(i)) END }
KERNEL(convert_ilp1) { FLOATS BEGIN R16(I2F(a, i) F2I(i, a)) END }
KERNEL(lds_ilp1) { SHARED FLOATS i = s[0]; BEGIN R32(LDS(i)) END }
KERNEL(lds_ilp4) { SHARED FLOATS i = s[0]; j = s[1]; int l = s[2], m = s[3]; BEGIN R8(LDS(i) LDS(j) LDS(l) LDS(m)) END n[t] += l + m; }
KERNEL(lds_iadd) { SHARED FLOATS i = s[0]; j = n[200] & 0; BEGIN R32(LDS(i) IADD(i, j)) END }
KERNEL(sts_lds) { SHARED FLOATS i = s[0]; BEGIN R16(STS(i, i) LDS(i)) END }
KERNEL(barriers) { FLOATS BEGIN R16(asm volatile("bar.sync 0;");) END }
KERNEL(barrier_fadd) { FLOATS BEGIN R16(FADD(a, b) asm volatile("bar.sync 0;");) END }
KERNEL(loop_fadd8) { FLOATS BEGIN
#pragma unroll 1
  for (int z = 0; z < 100; z++) { R8(FADD(a, b)) } END }
KERNEL(loop_ffma32) { FLOATS BEGIN
#pragma unroll 1
  for (int z = 0; z < 100; z++) { R8(FFMA(a, g, h) FFMA(b, g, h) FFMA(c, g, h) FFMA(d, g, h)) } END }
KERNEL(loop_mufu) { FLOATS BEGIN
#pragma unroll 1
  for (int z = 0; z < 100; z++) { MUFU(a) FADD(a, b) } END }
KERNEL(branch_not_taken) { FLOATS BEGIN R16(if (i == 0x7fffffff) { FMUL(a, b) i = __shfl_sync(-1, i, 3); } FADD(a, b)) END }
KERNEL(branch_over) { FLOATS BEGIN R16(if (gridDim.x == 7) { FMUL(a, b) i = __shfl_sync(-1, i, 3); } FADD(a, b)) END }
KERNEL(branch_over_fadd4) { FLOATS BEGIN R16(if (gridDim.x == 7) { FMUL(a, b) i = __shfl_sync(-1, i, 3); } R4(FADD(a, b))) END }
KERNEL(region_entered) { FLOATS BEGIN R16(if (i != 0x7fffffff) { FMUL(a, b) i = __shfl_sync(-1, i, 3); } FADD(a, b)) END }
KERNEL(region_skipped_fadd4) { FLOATS BEGIN R16(if (i == 0x7fffffff) { FMUL(a, b) i = __shfl_sync(-1, i, 3); } R4(FADD(a, b))) END }
KERNEL(loop_ffma16) { FLOATS BEGIN
#pragma unroll 1
  for (int z = 0; z < 100; z++) { R4(FFMA(a, g, h) FFMA(b, g, h) FFMA(c, g, h) FFMA(d, g, h)) } END }
KERNEL(loop_ffma64) { FLOATS BEGIN
#pragma unroll 1
  for (int z = 0; z < 100; z++) { R16(FFMA(a, g, h) FFMA(b, g, h) FFMA(c, g, h) FFMA(d, g, h)) } END }
KERNEL(loop_iadd) { FLOATS BEGIN
#pragma unroll 1
  for (int z = 0; z < 100; z++) { R8(IADD(i, j)) } END }
