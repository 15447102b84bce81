// Tensor-core products through mma.sync and ldmatrix, movmatrix, stmatrix.
typedef unsigned u32;

static __device__ __forceinline__ u32 smem_addr(const void *p)
{
    return (u32)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ void ldsm4(u32 &a, u32 &b, u32 &c, u32 &d, const void *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(smem_addr(p)));
}

static __device__ __forceinline__ void ldsm2t(u32 &a, u32 &b, const void *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(a), "=r"(b) : "r"(smem_addr(p)));
}

static __device__ __forceinline__ void mma_f16(float *d, const u32 *a, const u32 *b)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    for (int i = 0; i < 2; i++)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(b[i]));
#endif
}

extern "C" __global__ void mma_f16_f32(const u32 *a, const u32 *b, float *c)
{
    int t = threadIdx.x;
    u32 ra[4], rb[2];
    float d[4];
    for (int i = 0; i < 4; i++) ra[i] = a[t * 4 + i];
    for (int i = 0; i < 2; i++) rb[i] = b[t * 2 + i];
    for (int i = 0; i < 4; i++) d[i] = c[t * 4 + i];
    mma_f16(d, ra, rb);
    for (int i = 0; i < 4; i++) c[t * 4 + i] = d[i];
}

extern "C" __global__ void mma_f16_f16(const u32 *a, const u32 *b, u32 *c, int reps)
{
    int t = threadIdx.x;
    u32 a0 = a[t], a1 = a[t + 32], b0 = b[t], d0 = c[t], d1 = c[t + 32];
    for (int i = 0; i < reps; i++) {
#if __CUDA_ARCH__ >= 800
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%2,%3}, {%4,%4}, {%0,%1};"
                     : "+r"(d0), "+r"(d1) : "r"(a0), "r"(a1), "r"(b0));
#endif
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%0,%1};"
                     : "+r"(d0), "+r"(d1) : "r"(a0), "r"(a1), "r"(b0));
    }
    c[t] = d0;
    c[t + 32] = d1;
}

extern "C" __global__ void mma_bf16(const u32 *a, const u32 *b, float *c, int reps)
{
    int t = threadIdx.x;
    u32 x[4] = {a[t], a[t + 32], a[t + 64], a[t + 96]}, y[2] = {b[t], b[t + 32]};
    float d[4] = {c[t], c[t + 32], c[t + 64], c[t + 96]};
    for (int i = 0; i < reps; i++) {
#if __CUDA_ARCH__ >= 800
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(x[0]), "r"(x[1]), "r"(y[0]));
#else
        for (int k = 0; k < 4; k++)
            d[k] += __uint_as_float(x[k] << 16) * __uint_as_float(y[0] << 16) +
                    __uint_as_float(x[k] & 0xffff0000u) * __uint_as_float(y[1] & 0xffff0000u);
#endif
    }
    for (int k = 0; k < 4; k++) c[t + 32 * k] = d[k];
}

extern "C" __global__ void mma_tf32(const float *a, const float *b, float *c, int reps)
{
    int t = threadIdx.x;
    float d[4] = {c[t], c[t + 32], c[t + 64], c[t + 96]};
    float x[4] = {a[t], a[t + 32], a[t + 64], a[t + 96]}, y[2] = {b[t], b[t + 32]};
#if __CUDA_ARCH__ >= 800
    u32 p[4], q[2];
    for (int k = 0; k < 4; k++) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(p[k]) : "f"(x[k]));
    for (int k = 0; k < 2; k++) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(q[k]) : "f"(y[k]));
#endif
    for (int i = 0; i < reps; i++) {
#if __CUDA_ARCH__ >= 800
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "r"(q[0]), "r"(q[1]));
        asm volatile("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(p[0]), "r"(p[1]), "r"(q[0]));
#else
        for (int k = 0; k < 4; k++) d[k] = fmaf(x[k], y[k & 1], d[k]);
#endif
    }
    for (int k = 0; k < 4; k++) c[t + 32 * k] = d[k];
}

extern "C" __global__ void mma_s8(const u32 *a, const u32 *b, int *c, int reps)
{
    int t = threadIdx.x;
    u32 x[4] = {a[t], a[t + 32], a[t + 64], a[t + 96]}, y[2] = {b[t], b[t + 32]};
    int d[4] = {c[t], c[t + 32], c[t + 64], c[t + 96]};
    for (int i = 0; i < reps; i++) {
        asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                     : "+r"(d[0]), "+r"(d[1]) : "r"(x[0]), "r"(y[0]));
        asm volatile("mma.sync.aligned.m8n8k16.row.col.satfinite.s32.u8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                     : "+r"(d[2]), "+r"(d[3]) : "r"(x[1]), "r"(y[1]));
#if __CUDA_ARCH__ >= 800
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(x[0]), "r"(x[1]), "r"(y[0]));
#endif
    }
    for (int k = 0; k < 4; k++) c[t + 32 * k] = d[k];
}

extern "C" __global__ void mma_s4_b1(const u32 *a, const u32 *b, int *c)
{
    int t = threadIdx.x;
    int d0 = c[t], d1 = c[t + 32];
    u32 x = a[t], y = b[t];
#if __CUDA_ARCH__ < 900
    asm volatile("mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(d0), "+r"(d1) : "r"(x), "r"(y));
    asm volatile("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(d0), "+r"(d1) : "r"(x), "r"(y));
#else
    for (int i = 0; i < 8; i++) {
        d0 += ((int)(x << (28 - 4 * i)) >> 28) * ((int)(y << (28 - 4 * i)) >> 28);
        d1 += __popc((x ^ y) >> i);
    }
#endif
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(d0), "+r"(d1) : "r"(x), "r"(y));
#endif
    c[t] = d0;
    c[t + 32] = d1;
}

extern "C" __global__ void mma_f64(const double *a, const double *b, double *c, int reps)
{
    int t = threadIdx.x;
    double x = a[t], y = b[t], d0 = c[t], d1 = c[t + 32];
    for (int i = 0; i < reps; i++) {
#if __CUDA_ARCH__ >= 800
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                     : "+d"(d0), "+d"(d1) : "d"(x), "d"(y));
#else
        d0 = fma(x, y, d0);
        d1 = fma(x, -y, d1);
#endif
#if __CUDA_ARCH__ >= 900
        double e0 = d0, e1 = d1;
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%4,%5}, {%4,%5}, {%0,%1,%2,%3};"
                     : "+d"(d0), "+d"(d1), "+d"(e0), "+d"(e1) : "d"(x), "d"(y));
        d0 += e0 * e1;
#endif
    }
    c[t] = d0;
    c[t + 32] = d1;
}

extern "C" __global__ void mma_fp8(const u32 *a, const u32 *b, float *c)
{
    int t = threadIdx.x;
    u32 x[4] = {a[t], a[t + 32], a[t + 64], a[t + 96]}, y[2] = {b[t], b[t + 32]};
    float d[4] = {c[t], c[t + 32], c[t + 64], c[t + 96]};
#if __CUDA_ARCH__ >= 890
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
#else
    for (int k = 0; k < 4; k++) mma_f16(d, x, y);
#endif
    for (int k = 0; k < 4; k++) c[t + 32 * k] = d[k];
}

extern "C" __global__ void mma_sparse(const u32 *a, const u32 *b, const u32 *meta, float *c)
{
    int t = threadIdx.x;
    u32 x[4] = {a[t], a[t + 32], a[t + 64], a[t + 96]}, y[4] = {b[t], b[t + 32], b[t + 64], b[t + 96]};
    float d[4] = {c[t], c[t + 32], c[t + 64], c[t + 96]};
#if __CUDA_ARCH__ >= 800
    u32 e = meta[t];
    asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9,%10,%11}, {%0,%1,%2,%3}, %12, 0x0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(e));
#else
    if (meta[t] & 1) mma_f16(d, x, y + 2);
    mma_f16(d, x, y);
#endif
    for (int k = 0; k < 4; k++) c[t + 32 * k] = d[k];
}

extern "C" __global__ void ldmatrix_variants(const uint4 *in, u32 *out)
{
    __shared__ uint4 s[128];
    int t = threadIdx.x;
    s[t] = in[t];
    s[t + 32] = in[t + 32];
    s[t + 64] = in[t + 64];
    s[t + 96] = in[t + 96];
    __syncwarp();
    u32 r[8];
    ldsm4(r[0], r[1], r[2], r[3], &s[t]);
    ldsm2t(r[4], r[5], &s[32 + (t & 15)]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[6]) : "r"(smem_addr(&s[64 + (t & 7)])));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1+256];" : "=r"(r[7]) : "r"(smem_addr(&s[64 + (t & 7)])));
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(r[6]));
#if __CUDA_ARCH__ >= 900
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};"
                 :: "r"(smem_addr(&s[t])), "r"(r[3]), "r"(r[2]), "r"(r[1]), "r"(r[0]) : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1,%2};"
                 :: "r"(smem_addr(&s[64 + (t & 15)])), "r"(r[5]), "r"(r[4]) : "memory");
#else
    s[t] = make_uint4(r[3], r[2], r[1], r[0]);
#endif
    __syncwarp();
    for (int k = 0; k < 8; k++) out[t + 32 * k] = r[k] ^ s[(t + k) & 127].y;
}

extern "C" __global__ void __launch_bounds__(128) hgemm_mma_tile(int n, int k, const uint4 *__restrict__ a,
                                                                 const uint4 *__restrict__ b, float *__restrict__ c)
{
    __shared__ uint4 as[64 * 4], bs[32 * 8];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    int wm = (warp >> 1) * 32, wn = (warp & 1) * 32;
    float acc[2][4][4] = {};
    for (int kk = 0; kk < k; kk += 32) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int q = t + i * 128;
            as[(q & ~3) | ((q ^ (q >> 3)) & 3)] = a[((blockIdx.y * 64 + (q >> 2)) * k + kk) / 8 + (q & 3)];
            bs[(q & ~7) | ((q ^ (q >> 3)) & 7)] = b[((kk + (q >> 3)) * n + blockIdx.x * 64) / 8 + (q & 7)];
        }
        __syncthreads();
#pragma unroll
        for (int ks = 0; ks < 2; ks++) {
            u32 fa[2][4], fb[4][2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int row = wm + i * 16 + (lane & 15), ch = ks * 2 + (lane >> 4);
                ldsm4(fa[i][0], fa[i][1], fa[i][2], fa[i][3], &as[row * 4 + (ch ^ ((row >> 1) & 3))]);
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int row = ks * 16 + (lane & 15), ch = wn / 8 + j;
                ldsm2t(fb[j][0], fb[j][1], &bs[row * 8 + (ch ^ (row & 7))]);
            }
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) mma_f16(acc[i][j], fa[i], fb[j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int row = blockIdx.y * 64 + wm + i * 16 + lane / 4, col = blockIdx.x * 64 + wn + j * 8 + (lane & 3) * 2;
            *(float2 *)&c[row * n + col] = make_float2(acc[i][j][0], acc[i][j][1]);
            *(float2 *)&c[(row + 8) * n + col] = make_float2(acc[i][j][2], acc[i][j][3]);
        }
}
