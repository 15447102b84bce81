// Conversions between integer and floating-point types with every rounding mode.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long long u64;
typedef long long s64;

extern "C" __global__ void f32_to_ints(const float *x, signed char *a, u8 *b, short *c, u16 *d, int *e, u32 *f, s64 *g, u64 *h)
{
    int i = threadIdx.x;
    float v = x[i];
    a[i] = (signed char)v;
    b[i] = (u8)v;
    c[i] = (short)v;
    d[i] = (u16)v;
    e[i] = (int)v;
    f[i] = (u32)v;
    g[i] = (s64)v;
    h[i] = (u64)v;
}

extern "C" __global__ void f64_to_ints(const double *x, signed char *a, u16 *d, int *e, u32 *f, s64 *g, u64 *h, float *r)
{
    int i = threadIdx.x;
    double v = x[i];
    a[i] = (signed char)v;
    d[i] = (u16)v;
    e[i] = (int)v;
    f[i] = (u32)v;
    g[i] = (s64)v;
    h[i] = (u64)v;
    r[i] = (float)v;
}

extern "C" __global__ void ints_to_floats(const signed char *a, const u8 *b, const short *c, const u16 *d, const int *e,
                                          const u32 *f, const s64 *g, const u64 *h, float *x, double *y)
{
    int i = threadIdx.x;
    x[i] = (float)a[i] + (float)b[i] + (float)c[i] + (float)d[i] + (float)e[i] + (float)f[i] + (float)g[i] + (float)h[i];
    y[i] = (double)a[i] + (double)b[i] + (double)c[i] + (double)d[i] + (double)e[i] + (double)f[i] + (double)g[i] + (double)h[i];
    y[i] += (double)x[i];
}

extern "C" __global__ void rounding_modes(const float *x, const double *y, int *o, float *of)
{
    int i = threadIdx.x;
    float v = x[i];
    double w = y[i];
    o[i] = __float2int_rn(v) ^ __float2int_ru(v) ^ __float2int_rd(v) ^ __float2int_rz(v) ^ (int)__float2uint_rn(v);
    o[i] ^= __double2int_rn(w) ^ __double2int_ru(w) ^ __double2int_rd(w) ^ (int)__double2uint_rz(w);
    o[i] ^= (int)__float2ll_ru(v) ^ (int)__double2ull_rd(w);
    of[i] = __double2float_rn(w) + __double2float_ru(w) + __double2float_rd(w) + __double2float_rz(w);
    of[i] += __int2float_ru(o[i]) + __int2float_rd(o[i]) + __uint2float_rz((u32)o[i]) + __ll2float_ru((s64)o[i]);
    of[i] += floorf(v) + ceilf(v) + rintf(v) + truncf(v) + (float)(floor(w) + ceil(w) + trunc(w));
}

extern "C" __global__ void int_widths(const s64 *a, const int *b, s64 *out, short *s, u8 *c)
{
    int i = threadIdx.x;
    s64 x = a[i];
    int y = b[i];
    out[i] = (s64)(signed char)y + (s64)(short)x + (s64)(u16)y + (s64)(u8)x + (s64)(u32)y + (s64)y;
    s[i] = (short)(x >> 3);
    c[i] = (u8)(y >> 5);
}

extern "C" __global__ void reinterpret_bits(const float *x, const double *y, u32 *a, u64 *b)
{
    int i = threadIdx.x;
    a[i] = __float_as_uint(x[i]) ^ (u32)__double2hiint(y[i]) ^ (u32)__double2loint(y[i]);
    b[i] = (u64)__double_as_longlong(__hiloint2double((int)a[i], 0x12345678)) + (u64)__double_as_longlong(y[i]);
}

extern "C" __global__ void half_bits_convert(const float *x, const double *y, u16 *h, float *back, const short *si)
{
    int i = threadIdx.x;
    u16 a, b, c, d;
    float f, g;
    double e;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(a) : "f"(x[i]));
    asm("cvt.rz.f16.f32 %0, %1;" : "=h"(b) : "f"(x[i]));
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(c) : "d"(y[i]));
    asm("cvt.rn.f16.s16 %0, %1;" : "=h"(d) : "h"(si[i]));
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(a));
    asm("cvt.f64.f16 %0, %1;" : "=d"(e) : "h"(b));
    int n;
    asm("cvt.rni.s32.f16 %0, %1;" : "=r"(n) : "h"(c));
    asm("cvt.rpi.ftz.f32.f32 %0, %1;" : "=f"(g) : "f"(x[i]));
    s64 l;
    asm("cvt.rzi.s64.f16 %0, %1;" : "=l"(l) : "h"(d));
    h[i] = a ^ b ^ c ^ d;
    back[i] = f + (float)e + (float)n + g + (float)l;
}

extern "C" __global__ void bf16_tf32_fp8_bits(const float2 *x, u32 *out)
{
    int i = threadIdx.x;
    float2 v = x[i];
    u32 r;
#if __CUDA_ARCH__ >= 800
    u32 t;
    u16 s;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(v.x), "f"(v.y));
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(t) : "f"(v.x), "f"(v.y)); r ^= t;
    asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(t) : "f"(v.x), "f"(v.y)); r += t;
    asm("cvt.rz.bf16.f32 %0, %1;" : "=h"(s) : "f"(v.x)); r += s;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(t) : "f"(v.y)); r ^= t;
#else
    r = (__float_as_uint(v.x) & 0xffff0000u) | ((__float_as_uint(v.y) + 0x8000u) >> 16);
#endif
#if __CUDA_ARCH__ >= 890
    u16 q;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(q) : "f"(v.x), "f"(v.y)); r += q;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(t) : "h"(q)); r ^= t;
    asm("cvt.rn.satfinite.e5m2x2.f16x2 %0, %1;" : "=h"(q) : "r"(t)); r += q;
    asm("cvt.rn.relu.f16x2.e5m2x2 %0, %1;" : "=r"(t) : "h"(q)); r ^= t;
#endif
#if __CUDA_ARCH__ >= 900
    asm("cvt.f32.bf16 %0, %1;" : "=f"(v.x) : "h"(s)); r += __float_as_uint(v.x);
    asm("cvt.rni.s32.bf16 %0, %1;" : "=r"(t) : "h"(s)); r += t;
    asm("cvt.rn.bf16.s32 %0, %1;" : "=h"(s) : "r"(t)); r += s;
#endif
    out[i] = r;
}

extern "C" __global__ void i2ip_pack_s8(const int *x, u32 *out)
{
    int i = threadIdx.x;
    u32 r, t;
    asm("cvt.pack.sat.s16.s32 %0, %1, %2;" : "=r"(r) : "r"(x[i]), "r"(x[i + 1]));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(t) : "r"(x[i + 2]), "r"(x[i + 3]), "r"(r));
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(x[i + 4]), "r"(x[i + 5]), "r"(t));
    asm("cvt.sat.s8.s32 %0, %1;" : "=r"(t) : "r"(x[i + 6]));
    out[i] = r ^ t;
}
