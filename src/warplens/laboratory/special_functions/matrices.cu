// One matrix instruction per warp on fragments given as registers: a[warp][lane][A], b[...][B], c[...][C].
#define R(v, k) "r"(v[k])
#define MMA(NAME, NA, NB, NC, TEXT, DS, AS, BS, CS)                                              \
  extern "C" __global__ void NAME(const unsigned* A, const unsigned* B, const unsigned* C,       \
                                  unsigned* D, unsigned n) {                                     \
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                          \
    if (i >= n * 32) return;                                                                     \
    unsigned a[NA], b[NB], c[NC], d[NC];                                                         \
    for (int k = 0; k < NA; k++) a[k] = A[i * NA + k];                                           \
    for (int k = 0; k < NB; k++) b[k] = B[i * NB + k];                                           \
    for (int k = 0; k < NC; k++) c[k] = C[i * NC + k];                                           \
    asm volatile(TEXT : DS : AS, BS, CS);                                                        \
    for (int k = 0; k < NC; k++) D[i * NC + k] = d[k];                                           \
  }
#define D4 "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
#define D2 "=r"(d[0]), "=r"(d[1])
#define A4 R(a, 0), R(a, 1), R(a, 2), R(a, 3)
#define A2 R(a, 0), R(a, 1)
#define B2 R(b, 0), R(b, 1)
#define B1 R(b, 0)
#define C4 R(c, 0), R(c, 1), R(c, 2), R(c, 3)
#define C2 R(c, 0), R(c, 1)
#define T424 " {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%11,%12,%13};"
#define T214 " {%0,%1,%2,%3},{%4,%5},{%6},{%7,%8,%9,%10};"
#define T422 " {%0,%1},{%2,%3,%4,%5},{%6,%7},{%8,%9};"
#define T212 " {%0,%1},{%2,%3},{%4},{%5,%6};"
#define M "mma.sync.aligned.m16n8"
MMA(f16_f32, 4, 2, 4, M "k16.row.col.f32.f16.f16.f32" T424, D4, A4, B2, C4)
MMA(bf16_f32, 4, 2, 4, M "k16.row.col.f32.bf16.bf16.f32" T424, D4, A4, B2, C4)
MMA(f16_f16, 4, 2, 2, M "k16.row.col.f16.f16.f16.f16" T422, D2, A4, B2, C2)
MMA(tf32_f32, 4, 2, 4, M "k8.row.col.f32.tf32.tf32.f32" T424, D4, A4, B2, C4)
MMA(f16_f32_k8, 2, 1, 4, M "k8.row.col.f32.f16.f16.f32" T214, D4, A2, B1, C4)
MMA(bf16_f32_k8, 2, 1, 4, M "k8.row.col.f32.bf16.bf16.f32" T214, D4, A2, B1, C4)
MMA(f16_f16_k8, 2, 1, 2, M "k8.row.col.f16.f16.f16.f16" T212, D2, A2, B1, C2)
MMA(tf32_f32_k4, 2, 1, 4, M "k4.row.col.f32.tf32.tf32.f32" T214, D4, A2, B1, C4)
