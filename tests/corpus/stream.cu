// Element-wise streams over several element types, copies with strides, gather and scatter.
typedef unsigned char u8;
typedef unsigned long long u64;

extern "C" __global__ void saxpy_f32(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void saxpy_f32_grid_stride(int n, float a, const float *__restrict__ x,
                                                 float *__restrict__ y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = a * x[i] + y[i];
}

extern "C" __global__ void saxpy_float2(int n, float a, const float2 *x, float2 *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 p = x[i], q = y[i];
    q.x += a * p.x;
    q.y += a * p.y;
    y[i] = q;
}

extern "C" __global__ void saxpy_float4(int n, float a, const float4 *__restrict__ x, float4 *__restrict__ y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = x[i], q = y[i];
    q.x = fmaf(a, p.x, q.x);
    q.y = fmaf(a, p.y, q.y);
    q.z = fmaf(a, p.z, q.z);
    q.w = fmaf(a, p.w, q.w);
    y[i] = q;
}

extern "C" __global__ void daxpy(long long n, double a, const double *x, double *y)
{
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void triad_double2(int n, double s, const double2 *__restrict__ b,
                                         const double2 *__restrict__ c, double2 *__restrict__ a)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double2 p = b[i], q = c[i];
    a[i] = make_double2(p.x + s * q.x, p.y + s * q.y);
}

extern "C" __global__ void stream_i8(int n, const signed char *x, signed char *y, u8 *z)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = x[i] * 3 + y[i];
    y[i] = (signed char)v;
    z[i] = (u8)(v > 255 ? 255 : v < 0 ? 0 : v);
}

extern "C" __global__ void stream_i16(int n, const short *x, const unsigned short *w, short *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = (short)((x[i] * (int)w[i]) >> 7) + y[i];
}

extern "C" __global__ void stream_i64(int n, long long a, const long long *x, long long *y, const u64 *m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long v = a * x[i] - y[i];
    v ^= (long long)(m[i] >> 11);
    y[i] = v < 0 ? -v : v;
}

extern "C" __global__ void stream_uchar4(int n, const uchar4 *a, const uchar4 *b, uchar4 *c, float t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar4 p = a[i], q = b[i];
    float u = 1.0f - t;
    c[i] = make_uchar4((u8)(p.x * u + q.x * t), (u8)(p.y * u + q.y * t),
                       (u8)(p.z * u + q.z * t), (u8)(p.w * u + q.w * t));
}

extern "C" __global__ void add_const_offsets(const float *a, float *b)
{
    const float *p = a + threadIdx.x;
    float *q = b + threadIdx.x;
    q[0] = p[0] + 1.0f;
    q[1024] = p[-1024] * 0.5f;
    q[-4096] = p[4096] - 3.14159274f;
    q[262144] = p[-262144] + 1e-30f;
    q[1 << 20] = -p[1 << 20];
}

extern "C" __global__ void copy_strided(int n, int sin, int sout, const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[(long long)i * sout] = in[(long long)i * sin];
}

extern "C" __global__ void copy_strided_2d(int w, int h, u64 pitch_in, u64 pitch_out, const u8 *in, u8 *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    const int *src = (const int *)(in + y * pitch_in);
    int *dst = (int *)(out + y * pitch_out);
    dst[x] = src[x];
}

extern "C" __global__ void copy_unroll8(const int4 *__restrict__ in, int4 *__restrict__ out, int blocks)
{
    int base = blockIdx.x * blockDim.x * 8 + threadIdx.x;
    int4 v[8];
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] = in[base + k * blockDim.x];
#pragma unroll
    for (int k = 0; k < 8; k++) out[base + k * blockDim.x] = v[k];
    if (base == 0) out[blocks] = v[0];
}

extern "C" __global__ void gather_f32(int n, const int *__restrict__ idx, const float *__restrict__ src, float *dst)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int j = idx[i];
        dst[i] = j >= 0 ? src[j] : 0.0f;
    }
}

extern "C" __global__ void scatter_f64(int n, const long long *__restrict__ idx, const double *__restrict__ src,
                                       double *dst)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[idx[i]] = src[i];
}

struct Particle { float x, y, z; float vx, vy, vz; int id; short kind; u8 flags, pad; };

extern "C" __global__ void aos_update(int n, Particle *p, float dt, float3 g)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Particle q = p[i];
    if (q.flags & 1) return;
    q.vx += g.x * dt;
    q.vy += g.y * dt;
    q.vz += g.z * dt;
    q.x += q.vx * dt;
    q.y += q.vy * dt;
    q.z += q.vz * dt;
    if (q.z < 0.0f) {
        q.z = -q.z;
        q.vz = -0.9f * q.vz;
        q.kind++;
        q.flags |= 2;
    }
    p[i] = q;
}

struct Params { float coef[12]; int dims[4]; u64 base; };

extern "C" __global__ void struct_param(const Params prm, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = prm.coef[i % 12];
#pragma unroll
    for (int k = 0; k < 12; k++) s = s * prm.coef[k] + (float)prm.dims[k & 3];
    if ((u64)i < prm.base) out[i] = s;
}
