// Whole numbers of 64 and 16 bits, bytes in an order, packing, minima, maxima and rounding of doubles, small floats.
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned u32;

extern "C" __global__ void wide(const i64 *a, const i64 *b, i64 *out)
{
    int i = threadIdx.x;
    i64 x = a[i], y = b[i];
    out[i] = min(x, y);
    out[i + 64] = max((u64)x, (u64)y);
    out[i + 128] = x < y ? x - y : 3 * x + 40;
    out[i + 192] = (u64)x < (u64)y ? -x : ~y;
    out[i + 256] = (x == y) + 2 * (x != 0) + 4 * (x > -1) + 8 * ((u64)x >= (u64)y);
    out[i + 320] = x * y + (x >> 3) - ((u64)y >> 5) + (x << (i & 31));
}

extern "C" __global__ void narrow(const u32 *a, const u32 *b, u32 *out)
{
    int i = threadIdx.x;
    u32 x = a[i], y = b[i], r;
    out[i] = __vadd2(x, y);
    out[i + 64] = __vmaxs2(x, y);
    out[i + 128] = __vminu2(x, y);
    asm("prmt.b32.f4e %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(i));
    out[i + 192] = r;
    asm("prmt.b32.b4e %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(i));
    out[i + 256] = r;
    asm("prmt.b32.rc8 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(i));
    out[i + 320] = r;
    asm("prmt.b32.ecl %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(i));
    out[i + 384] = r;
    asm("prmt.b32.ecr %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(i));
    out[i + 448] = r;
    asm("prmt.b32.rc16 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(i));
    out[i + 512] = r;
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(x >> 20), "r"((int)y >> 22), "r"(x));
    out[i + 576] = r;
    asm("cvt.pack.sat.u16.s32 %0, %1, %2;" : "=r"(r) : "r"((int)x >> 13), "r"((int)y >> 15));
    out[i + 640] = r;
    int s = (int)x, t = (int)y;
    out[i + 704] = ((s < 0) != (t < 0)) && ((s + t < 0) == (s < 0)) ? 1 : 0;
}

extern "C" __global__ void doubles(const double *a, const double *b, double *out)
{
    int i = threadIdx.x;
    out[i] = fmin(a[i], b[i]);
    out[i + 64] = fmax(a[i], b[i]);
    out[i + 128] = fmax(-a[i], 0.25);
    out[i + 192] = __dadd_rd(a[i], -1e-17);
    out[i + 256] = __dadd_ru(a[i], 1e-17);
}

#if __CUDA_ARCH__ >= 890
extern "C" __global__ void small(const float *a, u32 *out, u32 *back)
{
    int i = threadIdx.x;
    unsigned short r;
    u32 h;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(a[2 * i + 1]), "f"(a[2 * i]));
    out[i] = r;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(h) : "h"(r));
    back[i] = h;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(a[2 * i + 1]), "f"(a[2 * i]));
    out[i + 64] = r;
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(h) : "h"(r));
    back[i + 64] = h;
}
#endif

#if __CUDA_ARCH__ >= 1000
extern "C" __global__ void pairs(const float *a, const float *b, float *out)
{
    int i = threadIdx.x;
    u64 x = ((const u64 *)a)[i], y = ((const u64 *)b)[i], r;
    asm("add.rn.f32x2 %0, %1, %2;" : "=l"(r) : "l"(x), "l"(y));
    ((u64 *)out)[i] = r;
    asm("mul.rn.f32x2 %0, %1, %2;" : "=l"(r) : "l"(x), "l"(y));
    ((u64 *)out)[i + 32] = r;
    asm("fma.rn.f32x2 %0, %1, %2, %3;" : "=l"(r) : "l"(x), "l"(y), "l"(x));
    ((u64 *)out)[i + 64] = r;
    float m;
    asm("max.f32 %0, %1, %2, %3;" : "=f"(m) : "f"(a[i]), "f"(b[i]), "f"(a[i + 1]));
    out[i + 192] = m;
}
#endif
