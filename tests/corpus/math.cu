// Floating-point arithmetic and functions in single and double precision.
extern "C" __global__ void f32_precise(int n, const float *x, const float *y, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i], b = y[i];
    float r = sinf(a) + cosf(b);
    r += expf(a) * logf(b);
    r += sqrtf(a) / b;
    r += powf(a, b);
    r += tanhf(a) + atan2f(a, b);
    r += rsqrtf(a) + cbrtf(b);
    out[i] = r;
}

extern "C" __global__ void f32_more_functions(int n, const float *x, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i];
    out[i] = erff(a) + log1pf(a) + expm1f(a) + asinf(a) + hypotf(a, 2.0f) + fmodf(a, 1.7f) + lgammaf(a);
    out[i + n] = floorf(a) + ceilf(a) + truncf(a) + rintf(a) + roundf(a) + fabsf(a) + copysignf(1.0f, a) +
                 ldexpf(a, 3) + (float)ilogbf(a) + nextafterf(a, 0.0f);
}

extern "C" __global__ void f32_intrinsics(int n, const float *x, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i], s, c;
    __sincosf(a, &s, &c);
    float r = __expf(a) + __logf(a) + s * c + __sinf(a * 2.0f) - __cosf(a * 3.0f);
    r += __powf(a, 1.5f) + __fdividef(a, r) + __frsqrt_rn(a) + __frcp_rn(a) + __tanf(a);
    r = __saturatef(r) + __fmaf_rz(a, a, r) + __fadd_ru(a, r) + __fmul_rd(a, r) + __fsqrt_rn(a) + __fdiv_rz(a, r);
    r += __exp10f(a) + __log2f(a) + __log10f(a);
    out[i] = r;
}

extern "C" __global__ void f32_ptx_approx(const float *x, float *out)
{
    int i = threadIdx.x;
    float a = x[i], r, s = 0.0f;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a)); s += r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a)); s += r;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a)); s += r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a)); s += r;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a)); s += r;
    asm("sin.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); s += r;
    asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); s += r;
    asm("fma.rn.ftz.f32 %0, %1, %1, %0;" : "+f"(s) : "f"(a));
    asm("fma.rn.sat.f32 %0, %1, %1, %0;" : "+f"(s) : "f"(a));
    asm("add.ftz.f32 %0, %0, %1;" : "+f"(s) : "f"(a));
    asm("mul.rp.f32 %0, %0, %1;" : "+f"(s) : "f"(a));
#if __CUDA_ARCH__ >= 800
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(s) : "f"(a));
#endif
#if __CUDA_ARCH__ >= 860
    asm("max.xorsign.abs.f32 %0, %0, %1;" : "+f"(s) : "f"(a));
#endif
    asm("{ .reg .pred p1; testp.subnormal.f32 p1, %0; @p1 add.f32 %0, %0, 0f3F800000; }" : "+f"(s));
    out[i] = s;
}

extern "C" __global__ void f32_compare_select(int n, const float *a, const float *b, float *out, int *flags)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[i], y = b[i];
    int f = 0;
    if (x < y) f |= 1;
    if (x <= y) f |= 2;
    if (x == y) f |= 4;
    if (x != y) f |= 8;
    if (!(x >= y)) f |= 16;
    if (isnan(x) || isinf(y)) f |= 32;
    if (signbit(x)) f |= 64;
    if (fabsf(x) > -y) f |= 128;
    flags[i] = f;
    out[i] = x > 0.0f ? fminf(x, y) : fmaxf(-x, fabsf(y));
}

extern "C" __global__ void f32x2_packed(int n, const float2 *x, float2 *y, float a)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 p = x[i], q = y[i];
#if __CUDA_ARCH__ >= 1000
    asm("{ .reg .b64 u, v, w; mov.b64 u, {%2, %3}; mov.b64 v, {%4, %4}; mov.b64 w, {%0, %1};\n"
        "fma.rn.f32x2 w, u, v, w; mul.rn.f32x2 w, w, u; add.rn.f32x2 w, w, v; mov.b64 {%0, %1}, w; }"
        : "+f"(q.x), "+f"(q.y) : "f"(p.x), "f"(p.y), "f"(a));
    asm("max.f32 %0, %1, %2, %3;" : "=f"(q.x) : "f"(q.x), "f"(p.x), "f"(a));
    asm("min.f32 %0, %1, %2, %3;" : "=f"(q.y) : "f"(q.y), "f"(p.y), "f"(a));
#else
    q.x = fminf((p.x * a + q.x) * p.x + a, a);
    q.y = fmaxf((p.y * a + q.y) * p.y + a, a);
#endif
    y[i] = q;
}

extern "C" __global__ void f64_chain(int n, const double *x, double *out, int reps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double a = x[i], b = 1.0000001, c = 0.5;
    for (int k = 0; k < reps; k++) {
        a = fma(a, b, c);
        b = a * 0.999 + b * 0.001;
        c = c - a * 1e-9;
        a = fmin(a, 1e100);
        if (a < -5.0) a = -a;
    }
    out[i] = a + b * c;
}

extern "C" __global__ void f64_math_a(int n, const double *x, double *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double a = x[i];
    out[i] = sin(a) + exp(a) + sqrt(fabs(a)) + 1.0 / a;
}

extern "C" __global__ void f64_math_b(int n, const double *x, const double *y, double *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double a = x[i], b = y[i];
    out[i] = a / b + log(a) + rsqrt(b) + tanh(a) + floor(b) + rint(a) + fmax(a, b) + __dmul_rz(a, b) + __dadd_ru(a, b);
}

extern "C" __global__ void f64_pow(int n, const double *x, double e, double *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = pow(x[i], e);
}

extern "C" __global__ void horner_ilp8(int n, const float *x, float *out, const float *coef)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (i + 7 >= n) return;
    float v[8], r[8];
#pragma unroll
    for (int k = 0; k < 8; k++) { v[k] = x[i + k]; r[k] = coef[0]; }
#pragma unroll
    for (int d = 1; d < 16; d++) {
        float c = coef[d];
#pragma unroll
        for (int k = 0; k < 8; k++) r[k] = fmaf(r[k], v[k], c);
    }
#pragma unroll
    for (int k = 0; k < 8; k++) out[i + k] = r[k];
}

extern "C" __global__ void horner_imm_f64(int n, const double *x, double *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double v = x[i], r = 2.4801587301587302e-05;
    r = r * v + 1.9841269841269841e-04;
    r = r * v + 1.3888888888888889e-03;
    r = r * v + 8.3333333333333332e-03;
    r = r * v + 4.1666666666666664e-02;
    r = r * v + 1.6666666666666666e-01;
    r = r * v + 0.5;
    r = r * v + 1.0;
    r = r * v + 1.0;
    out[i] = r;
}

static __device__ __forceinline__ float cnd(float d)
{
    float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    float c = 0.39894228f * __expf(-0.5f * d * d) *
              (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
    return d > 0 ? 1.0f - c : c;
}

extern "C" __global__ void black_scholes(int n, const float *__restrict__ price, const float *__restrict__ strike,
                                         const float *__restrict__ years, float *__restrict__ call,
                                         float *__restrict__ put, float r, float v)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = price[i], x = strike[i], t = years[i];
    float st = sqrtf(t), d1 = (logf(s / x) + (r + 0.5f * v * v) * t) / (v * st), d2 = d1 - v * st;
    float e = expf(-r * t), c1 = cnd(d1), c2 = cnd(d2);
    call[i] = s * c1 - x * e * c2;
    put[i] = x * e * (1.0f - c2) - s * (1.0f - c1);
}

extern "C" __global__ void nbody_forces(int n, const float4 *__restrict__ pos, float4 *__restrict__ acc, float eps2)
{
    __shared__ float4 s[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    float4 p = pos[i];
    float ax = 0, ay = 0, az = 0;
    for (int t = 0; t < n; t += 256) {
        s[threadIdx.x] = pos[t + threadIdx.x];
        __syncthreads();
#pragma unroll 16
        for (int j = 0; j < 256; j++) {
            float4 q = s[j];
            float dx = q.x - p.x, dy = q.y - p.y, dz = q.z - p.z;
            float d2 = dx * dx + dy * dy + dz * dz + eps2;
            float inv = rsqrtf(d2);
            float f = q.w * inv * inv * inv;
            ax += dx * f;
            ay += dy * f;
            az += dz * f;
        }
        __syncthreads();
    }
    acc[i] = make_float4(ax, ay, az, 0.0f);
}

extern "C" __global__ void complex_mandelbrot(int w, int h, float x0, float y0, float dx, int limit, int *out)
{
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= w || py >= h) return;
    float cx = x0 + px * dx, cy = y0 + py * dx, zx = 0, zy = 0;
    int k = 0;
    while (k < limit && zx * zx + zy * zy < 4.0f) {
        float t = zx * zx - zy * zy + cx;
        zy = 2.0f * zx * zy + cy;
        zx = t;
        k++;
    }
    out[py * w + px] = k;
}

extern "C" __global__ void mandelbrot_f64(int w, double x0, double y0, double dx, int limit, unsigned short *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double cx = x0 + (i % w) * dx, cy = y0 + (i / w) * dx, zx = cx, zy = cy;
    int k;
    for (k = 0; k < limit; k++) {
        double a = zx * zx, b = zy * zy;
        if (a + b > 4.0) break;
        zy = 2.0 * zx * zy + cy;
        zx = a - b + cx;
    }
    out[i] = (unsigned short)k;
}
