// Half and bfloat16 arithmetic, comparisons, functions and atomics through the vendor headers.
#include <cuda_fp16.h>
#include <cuda_bf16.h>

extern "C" __global__ void half_axpy(int n, __half a, const __half *x, __half *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __hfma(a, x[i], y[i]);
}

extern "C" __global__ void half2_arith(int n, const __half2 *x, const __half2 *y, __half2 *z)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half2 a = x[i], b = y[i];
    __half2 r = __hadd2(__hmul2(a, b), __hsub2(a, b));
    r = __hfma2(r, a, __hneg2(b));
    r = __hadd2_sat(r, __h2div(a, b));
    r = __hfma2_sat(r, __habs2(b), a);
    r = __hadd2(r, __lowhigh2highlow(a));
    r = __hadd2(r, __hmax2(a, __hmin2(b, r)));
#if __CUDA_ARCH__ >= 800
    r = __hfma2_relu(a, b, r);
#endif
    z[i] = r;
}

extern "C" __global__ void half_compare(const __half2 *x, const __half2 *y, __half2 *z, int *flags)
{
    int i = threadIdx.x;
    __half2 a = x[i], b = y[i];
    z[i] = __hadd2(__hgt2(a, b), __hadd2(__heq2(a, b), __hle2(a, __float2half2_rn(0.5f))));
    int f = __hbgt2(a, b) ? 1 : 0;
    if (__hlt(__low2half(a), __high2half(b))) f |= 2;
    if (__hne(__low2half(b), __high2half(a))) f |= 4;
    if (__hisnan(__low2half(a))) f |= 8;
    flags[i] = f ^ (int)__hltu2_mask(a, b);
}

extern "C" __global__ void half_functions(const __half *x, __half *out, __half2 *o2)
{
    int i = threadIdx.x;
    __half a = x[i];
    __half r = __hadd(hsqrt(a), hrsqrt(a));
    r = __hadd(r, __hadd(hexp(a), hlog2(a)));
    r = __hadd(r, __hadd(hrcp(a), hsin(a)));
    r = __hadd(r, __hadd(hfloor(a), hrint(a)));
    out[i] = r;
    o2[i] = h2exp2(__halves2half2(a, r));
}

extern "C" __global__ void half_convert(const float2 *x, const int *n, __half2 *h, float2 *back, int *out, __half *hs)
{
    int i = threadIdx.x;
    h[i] = __float22half2_rn(x[i]);
    back[i] = __half22float2(h[i + 32]);
    __half a = __int2half_rn(n[i]), b = __uint2half_rz((unsigned)n[i]), c = __short2half_rd((short)n[i]);
    out[i] = __half2int_rz(a) + (int)__half2uint_ru(b) + __half2short_rn(c) + (int)__half2ll_rd(a);
    hs[i] = __hadd(__double2half((double)x[i].x), __ushort_as_half(__half_as_ushort(a) ^ 0x8000));
}

extern "C" __global__ void half_dot(int n, const __half2 *a, const __half2 *b, float *out)
{
    __half2 s = __float2half2_rn(0.0f);
    float t = 0.0f;
    for (int i = threadIdx.x, k = 0; i < n; i += blockDim.x, k++) {
        s = __hfma2(a[i], b[i], s);
        if ((k & 7) == 7) {
            float2 f = __half22float2(s);
            t += f.x + f.y;
            s = __float2half2_rn(0.0f);
        }
    }
    t += __low2float(s) + __high2float(s);
    for (int o = 16; o; o >>= 1) t += __shfl_xor_sync(0xffffffffu, t, o);
    __half2 u = __shfl_down_sync(0xffffffffu, s, 1);
    if ((threadIdx.x & 31) == 0) atomicAdd(out, t + __low2float(u));
}

extern "C" __global__ void half_atomics(__half *h, __half2 *h2, __nv_bfloat162 *b2, float *out)
{
    int i = threadIdx.x;
    __half old = atomicAdd(h, __float2half(1.0f));
    __half2 o2 = atomicAdd(h2, __float2half2_rn(2.0f));
    atomicAdd(h2 + 1, o2);
    atomicAdd(b2, __float2bfloat162_rn(1.0f));
    out[i] = __half2float(old) + __low2float(o2);
}

extern "C" __global__ void bf16_arith(int n, const __nv_bfloat162 *x, const __nv_bfloat162 *y, __nv_bfloat162 *z)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __nv_bfloat162 a = x[i], b = y[i];
#if __CUDA_ARCH__ >= 800
    __nv_bfloat162 r = __hfma2(a, b, __hadd2(a, b));
    r = __hmul2(r, __hsub2(a, b));
    r = __hmax2(r, __hmin2(a, b));
    r = __hadd2(r, __hneg2(__habs2(b)));
    r = __hfma2_relu(r, a, b);
    z[i] = __hadd2(r, __hgt2(a, b));
#else
    float2 p = __bfloat1622float2(a), q = __bfloat1622float2(b);
    z[i] = __floats2bfloat162_rn(p.x * q.x + p.y, fmaxf(p.y * q.y - q.x, 0.0f));
#endif
}

extern "C" __global__ void bf16_functions(const __nv_bfloat16 *x, __nv_bfloat16 *out, float *f, int *n)
{
    int i = threadIdx.x;
    __nv_bfloat16 a = x[i];
#if __CUDA_ARCH__ >= 800
    __nv_bfloat16 r = __hadd(hsqrt(a), hexp(a));
    r = __hfma(r, hlog(a), hrcp(a));
    r = __hdiv(r, __hadd(a, __float2bfloat16(2.0f)));
    f[i] = __hlt(a, r) ? 1.0f : 0.0f;
#else
    __nv_bfloat16 r = __float2bfloat16(sqrtf(__bfloat162float(a)));
    f[i] = 2.0f;
#endif
    out[i] = r;
    f[i] += __bfloat162float(r);
    n[i] = __bfloat162int_rn(r) + (int)__bfloat162ushort_rz(a);
    out[i + 64] = __int2bfloat16_rn(n[i + 1]);
}

extern "C" __global__ void rms_norm_half(int cols, const __half2 *__restrict__ in, const __half2 *__restrict__ w, __half2 *__restrict__ out)
{
    __shared__ float red[32];
    const __half2 *p = in + (long long)blockIdx.x * cols;
    float s = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        float2 v = __half22float2(p[i]);
        s += v.x * v.x + v.y * v.y;
    }
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    if ((threadIdx.x & 31) == 0) red[threadIdx.x >> 5] = s;
    __syncthreads();
    s = 0.0f;
    for (int k = 0; k < (int)(blockDim.x >> 5); k++) s += red[k];
    __half2 r = __float2half2_rn(rsqrtf(s / (2.0f * cols) + 1e-5f));
    for (int i = threadIdx.x; i < cols; i += blockDim.x) out[(long long)blockIdx.x * cols + i] = __hmul2(__hmul2(p[i], r), w[i]);
}

template <typename T> __global__ void gelu(int n, const T *x, T *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = (float)x[i];
    y[i] = (T)(0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v))));
}
template __global__ void gelu<__half>(int, const __half *, __half *);
template __global__ void gelu<__nv_bfloat16>(int, const __nv_bfloat16 *, __nv_bfloat16 *);
