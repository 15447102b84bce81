// Matrix products whose fragments the compiler lays out (wmma), and with ldmatrix and mma as the PTX ISA has them.
#include <cuda_bf16.h>
#include <mma.h>
namespace wm = nvcuda::wmma;
typedef unsigned u32;

template <typename In, typename Out, int M, int N, int K, typename As, typename Bs, int Step>
__device__ void product(const In *a, const In *b, const Out *c, Out *d)
{
    wm::fragment<wm::matrix_a, M, N, K, As, wm::row_major> fa;
    wm::fragment<wm::matrix_b, M, N, K, As, Bs> fb;
    wm::fragment<wm::accumulator, M, N, K, Out> acc;
    wm::load_matrix_sync(fa, a, K);
    wm::load_matrix_sync(fb, b, Step);
    wm::load_matrix_sync(acc, c, N, wm::mem_row_major);
    wm::mma_sync(acc, fa, fb, acc);
    wm::store_matrix_sync(d, acc, N, wm::mem_row_major);
}

extern "C" __global__ void f16_f32(const __half *a, const __half *b, const float *c, float *d)
{
    product<__half, float, 16, 16, 16, __half, wm::row_major, 16>(a, b, c, d);
}

extern "C" __global__ void f16_f16(const __half *a, const __half *b, const __half *c, __half *d)
{
    product<__half, __half, 16, 16, 16, __half, wm::col_major, 16>(a, b, c, d);
}

extern "C" __global__ void s8_s32(const signed char *a, const signed char *b, const int *c, int *d)
{
    product<signed char, int, 16, 16, 16, signed char, wm::col_major, 16>(a, b, c, d);
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void bf16_f32(const __nv_bfloat16 *a, const __nv_bfloat16 *b, const float *c, float *d)
{
    product<__nv_bfloat16, float, 16, 16, 16, __nv_bfloat16, wm::col_major, 16>(a, b, c, d);
}

extern "C" __global__ void tf32_f32(const float *a, const float *b, const float *c, float *d)
{
    product<float, float, 16, 16, 8, wm::precision::tf32, wm::col_major, 8>(a, b, c, d);
}

extern "C" __global__ void f64_f64(const double *a, const double *b, const double *c, double *d)
{
    product<double, double, 8, 8, 4, double, wm::col_major, 4>(a, b, c, d);
}

// C (16 x 8) = A (16 x 16) B (16 x 8), B by rows: ldmatrix transposes it.
extern "C" __global__ void ldmatrix_mma(const __half *a, const __half *b, float *d)
{
    __shared__ __align__(16) __half sa[256], sb[128];
    int t = threadIdx.x, g = t / 4, k = t % 4;
    for (int i = t; i < 256; i += 32) sa[i] = a[i];
    for (int i = t; i < 128; i += 32) sb[i] = b[i];
    __syncthreads();
    u32 ra[4], rb[2], place = __cvta_generic_to_shared(sa) + (t % 16) * 32 + (t / 16) * 16;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(place));
    place = __cvta_generic_to_shared(sb) + (t % 16) * 16;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(rb[0]), "=r"(rb[1]) : "r"(place));
    float c[4] = {0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    d[g * 8 + 2 * k] = c[0], d[g * 8 + 2 * k + 1] = c[1];
    d[(g + 8) * 8 + 2 * k] = c[2], d[(g + 8) * 8 + 2 * k + 1] = c[3];
}

// C (16 x 8) = A (16 x 32) B (32 x 8) of signed bytes, and of bits; B by columns. Fragments are words in memory.
extern "C" __global__ void bytes_and_bits(const u32 *a, const u32 *b, int *d, int *e)
{
    int t = threadIdx.x, g = t / 4, k = t % 4, c[4] = {1, 2, 3, 4}, f[2] = {0, 0};
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[g * 8 + k]), "r"(a[(g + 8) * 8 + k]), "r"(a[g * 8 + k + 4]), "r"(a[(g + 8) * 8 + k + 4]),
                   "r"(b[g * 8 + k]), "r"(b[g * 8 + k + 4]));
    for (int i = 0; i < 4; i++) d[(g + 8 * (i / 2)) * 8 + 2 * k + i % 2] = c[i];
    asm volatile("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+r"(f[0]), "+r"(f[1]) : "r"(a[g * 8 + k]), "r"(b[g * 8 + k]));
    e[g * 8 + 2 * k] = f[0], e[g * 8 + 2 * k + 1] = f[1];
}
#endif

// An 8 x 8 matrix transposed in registers (movmatrix), and stored by stmatrix where there is one.
extern "C" __global__ void transposed(const u32 *in, u32 *out, u32 *stored)
{
    __shared__ __align__(16) u32 s[32];
    int t = threadIdx.x;
    u32 word = in[t], made;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(made) : "r"(word));
    out[t] = made;
#if __CUDA_ARCH__ >= 900
    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};"
                 :: "r"((u32)__cvta_generic_to_shared(s) + (t % 8) * 16), "r"(word) : "memory");
#else
    s[t] = made;
#endif
    __syncthreads();
    stored[t] = s[t];
}
