// Integer arithmetic: division, wide products, bit operations, SIMD-in-word, dot products.
typedef unsigned u32;
typedef unsigned long long u64;

extern "C" __global__ void int_div_mod(int n, const int *a, const int *b, int *q, int *r)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    q[i] = a[i] / b[i];
    r[i] = a[i] % b[i];
}

extern "C" __global__ void uint_div_const(const u32 *a, u32 *out)
{
    int i = threadIdx.x;
    u32 v = a[i];
    out[i] = v / 3 + v / 7 + v / 10 + v % 641 + v / 1000000007u + (v >> 3) % 5;
    out[i + 256] = (u32)((int)v / 7 + (int)v / -9 + (int)v % 16 + (int)v / 8);
}

extern "C" __global__ void int64_div_mod(const long long *a, const long long *b, long long *q)
{
    int i = threadIdx.x;
    q[i] = a[i] / b[i];
}

extern "C" __global__ void uint64_mod(const u64 *a, const u64 *b, u64 *r)
{
    int i = threadIdx.x;
    r[i] = a[i] % b[i] + a[i] / 10;
}

extern "C" __global__ void int64_arith(const long long *a, const long long *b, long long *out, int sh)
{
    int i = threadIdx.x;
    long long x = a[i], y = b[i], r = x * y + (x << sh) - (y >> sh);
    r += (long long)((u64)x >> (sh & 63));
    r ^= x > y ? x - y : y - x;
    r += __mul64hi(x, y) ^ (long long)__umul64hi((u64)x, (u64)y);
    r += min(x, y) & max(x, 7ll);
    r -= (x & ~y) | (y ^ 0x123456789abcdefll);
    out[i] = r;
}

extern "C" __global__ void mul_variants(const int *a, const int *b, long long *w, int *out)
{
    int i = threadIdx.x, x = a[i], y = b[i];
    out[i] = __mulhi(x, y) + (int)__umulhi((u32)x, (u32)y) + __mul24(x, y) + (int)__umul24((u32)x, (u32)y) + x * y * 31;
    w[i] = (long long)x * y + (long long)((u64)(u32)x * (u32)y);
    w[i + 256] = (long long)x * 1000003 + w[i];
}

extern "C" __global__ void bit_ops(const u32 *a, const u64 *b, u32 *out)
{
    int i = threadIdx.x;
    u32 v = a[i], r = 0;
    u64 w = b[i];
    r += __popc(v) + __popcll(w);
    r += __clz((int)v) + __clzll((long long)w);
    r += __ffs((int)v) + __ffsll((long long)w);
    r ^= __brev(v) ^ (u32)__brevll(w);
    u32 f;
    asm("bfind.u32 %0, %1;" : "=r"(f) : "r"(v)); r += f;
    asm("bfind.s32 %0, %1;" : "=r"(f) : "r"(v)); r ^= f;
    asm("bfind.shiftamt.u32 %0, %1;" : "=r"(f) : "r"(v)); r += f;
    asm("bfe.u32 %0, %1, 5, 9;" : "=r"(f) : "r"(v)); r += f;
    asm("bfe.s32 %0, %1, %2, 11;" : "=r"(f) : "r"(v), "r"(i)); r += f;
    asm("bfi.b32 %0, %1, %2, %3, 7;" : "=r"(f) : "r"(v), "r"(r), "r"(i)); r ^= f;
    asm("fns.b32 %0, %1, 0, %2;" : "=r"(f) : "r"(v), "r"(i)); r += f;
    asm("bmsk.clamp.b32 %0, %1, 6;" : "=r"(f) : "r"(i)); r ^= f;
    asm("szext.wrap.s32 %0, %1, 13;" : "=r"(f) : "r"(v)); r += f;
    out[i] = r;
}

extern "C" __global__ void funnel_prmt(const u32 *a, const u32 *b, u32 *out, int s)
{
    int i = threadIdx.x;
    u32 x = a[i], y = b[i], r;
    r = __funnelshift_l(x, y, s) ^ __funnelshift_r(x, y, s) ^ __funnelshift_lc(x, y, s) ^ __funnelshift_rc(x, y, s);
    r += __funnelshift_l(x, x, 7) + __funnelshift_r(y, y, 13);
    r ^= __byte_perm(x, y, 0x0123) + __byte_perm(x, y, 0x5140) + __byte_perm(x, y, s);
    u32 t;
    asm("prmt.b32.f4e %0, %1, %2, %3;" : "=r"(t) : "r"(x), "r"(y), "r"(s)); r += t;
    asm("prmt.b32.rc8 %0, %1, %2, %3;" : "=r"(t) : "r"(x), "r"(y), "r"(s)); r += t;
    asm("prmt.b32.ecl %0, %1, %2, %3;" : "=r"(t) : "r"(x), "r"(y), "r"(s)); r += t;
    out[i] = r + (x << s) + (y >> s) + ((int)x >> s);
}

extern "C" __global__ void lop3_mix(const u32 *a, const u32 *b, const u32 *c, u32 *out)
{
    int i = threadIdx.x;
    u32 x = a[i], y = b[i], z = c[i], r, t;
    r = (x & y) ^ (~x & z);
    r += (x & y) | (x & z) | (y & z);
    r ^= x ^ y ^ z;
    r += ~(x | y) & 0x0f0f0f0fu;
    asm("lop3.b32 %0, %1, %2, %3, 0x1b;" : "=r"(t) : "r"(x), "r"(y), "r"(r)); r ^= t;
    asm("lop3.b32 %0, %1, %2, %3, 0xe7;" : "=r"(t) : "r"(z), "r"(y), "r"(r)); r ^= t;
    if ((x & y & 0x80u) == 0) r = ~r;
    if (((x ^ z) | y) != 0) r++;
    out[i] = r;
}

extern "C" __global__ void dot_products(const int *a, const int *b, int *out)
{
    int i = threadIdx.x, x = a[i], y = b[i], r = 0;
    r = __dp4a(x, y, r);
    r = (int)__dp4a((u32)x, (u32)y, (u32)r);
    r = __dp2a_lo(x, y, r);
    r = __dp2a_hi(x, y, r);
    r = (int)__dp2a_lo((u32)x, (u32)y, (u32)r);
    asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(r) : "r"(x), "r"(y));
    asm("dp2a.hi.s32.u32 %0, %1, %2, %0;" : "+r"(r) : "r"(x), "r"(y));
    out[i] = r;
}

extern "C" __global__ void minmax_saturate(const int *a, const int *b, int *out)
{
    int i = threadIdx.x, x = a[i], y = b[i], r, t;
    r = min(x, y) + max(x, y) + (int)min((u32)x, (u32)y) + (int)max((u32)x, 17u);
    asm("add.sat.s32 %0, %1, %2;" : "=r"(t) : "r"(x), "r"(y)); r ^= t;
    asm("sub.sat.s32 %0, %1, %2;" : "=r"(t) : "r"(x), "r"(y)); r ^= t;
    asm("mad.hi.sat.s32 %0, %1, %2, %3;" : "=r"(t) : "r"(x), "r"(y), "r"(r)); r ^= t;
    asm("sad.s32 %0, %1, %2, %3;" : "=r"(t) : "r"(x), "r"(y), "r"(r)); r ^= t;
    r += abs(x) + __hadd(x, y) + __rhadd(x, y) + (int)__uhadd((u32)x, (u32)y) + (int)__usad((u32)x, (u32)y, 3u);
    out[i] = max(0, min(255, r)) + (x == y ? -1 : x < y ? 2 : 5);
}

extern "C" __global__ void simd_in_word(const u32 *a, const u32 *b, u32 *out)
{
    int i = threadIdx.x;
    u32 x = a[i], y = b[i], r = 0;
    r ^= __vadd2(x, y) ^ __vadd4(x, y) ^ __vsub4(x, y) ^ __vaddss2(x, y) ^ __vaddus4(x, y);
    r += __vabsdiffu4(x, y) + __vsadu4(x, y) + __vmaxs2(x, y) + __vminu4(x, y) + __vavgu4(x, y);
    r ^= __vcmpgtu4(x, y) + __vseteq2(x, y) + __vneg2(x) + __vabs4(y);
    u32 t;
    asm("vadd.s32.u32.s32.sat %0, %1, %2;" : "=r"(t) : "r"(x), "r"(y)); r += t;
    asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(t) : "r"(x), "r"(y), "r"(r)); r += t;
    asm("vmad.s32.s32.u32 %0, %1.b1, %2.b2, %3;" : "=r"(t) : "r"(x), "r"(y), "r"(r)); r += t;
    out[i] = r;
}

extern "C" __global__ void dpx_ops(const int *a, const int *b, const int *c, int *out)
{
    int i = threadIdx.x, x = a[i], y = b[i], z = c[i], r;
    bool p, q;
    r = __viaddmax_s32(x, y, z) + __viaddmin_s32_relu(x, y, z);
    r += __vimax3_s32(x, y, z) + __vimin3_s32_relu(x, y, z);
    r ^= (int)__viaddmax_s16x2((u32)x, (u32)y, (u32)z) + (int)__vimax3_u16x2((u32)x, (u32)y, (u32)z);
    r += __vibmax_s32(x, y, &p) + (int)__vibmin_u32((u32)x, (u32)z, &q);
    out[i] = r + (p ? 1 : 0) + (q ? 2 : 0);
}

extern "C" __global__ void bignum_add_mul(int n, const u32 *a, const u32 *b, u32 *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u32 x[4], y[4], r[8] = {};
#pragma unroll
    for (int k = 0; k < 4; k++) { x[k] = a[i * 4 + k]; y[k] = b[i * 4 + k]; }
    asm("add.cc.u32 %0, %0, %4;\n addc.cc.u32 %1, %1, %5;\n addc.cc.u32 %2, %2, %6;\n addc.u32 %3, %3, %7;"
        : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3]) : "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]));
#pragma unroll
    for (int j = 0; j < 4; j++) {
        u64 carry = 0;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            u64 t = (u64)x[k] * y[j] + r[j + k] + carry;
            r[j + k] = (u32)t;
            carry = t >> 32;
        }
        r[j + 4] = (u32)carry;
    }
    asm("sub.cc.u32 %0, %0, %2;\n subc.u32 %1, %1, %3;" : "+r"(r[0]), "+r"(r[1]) : "r"(x[0]), "r"(x[1]));
    asm("mad.lo.cc.u32 %0, %2, %3, %0;\n madc.hi.u32 %1, %2, %3, %1;" : "+r"(r[2]), "+r"(r[3]) : "r"(x[2]), "r"(y[2]));
#pragma unroll
    for (int k = 0; k < 8; k++) out[i * 8 + k] = r[k];
}

extern "C" __global__ void rng_xorshift(int n, u32 *state, float *out, int draws)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u32 x = state[i * 4], y = state[i * 4 + 1], z = state[i * 4 + 2], w = state[i * 4 + 3];
    for (int k = 0; k < draws; k++) {
        u32 t = x ^ (x << 11);
        x = y;
        y = z;
        z = w;
        w = w ^ (w >> 19) ^ t ^ (t >> 8);
        out[k * n + i] = w * 2.3283064e-10f;
    }
    state[i * 4] = x;
    state[i * 4 + 1] = y;
    state[i * 4 + 2] = z;
    state[i * 4 + 3] = w;
}

extern "C" __global__ void rng_philox(uint4 *out, u64 seed, u64 offset)
{
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x + offset;
    u32 c0 = (u32)i, c1 = (u32)(i >> 32), c2 = 0, c3 = 0x5eed, k0 = (u32)seed, k1 = (u32)(seed >> 32);
#pragma unroll
    for (int r = 0; r < 10; r++) {
        u32 h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
        u32 h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
        c0 = h1 ^ c1 ^ k0;
        c1 = l1;
        c2 = h0 ^ c3 ^ k1;
        c3 = l0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[i] = make_uint4(c0, c1, c2, c3);
}

extern "C" __global__ void rotate_mix(const u64 *in, u64 *out, int rounds)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    u64 a = in[i], b = 0x736f6d6570736575ull, c = ~a, d = 0x6c7967656e657261ull;
    for (int k = 0; k < rounds; k++) {
        a += b; b = (b << 13) | (b >> 51); b ^= a; a = (a << 32) | (a >> 32);
        c += d; d = (d << 16) | (d >> 48); d ^= c;
        a += d; d = (d << 21) | (d >> 43); d ^= a;
        c += b; b = (b << 17) | (b >> 47); b ^= c; c = (c << 32) | (c >> 32);
    }
    out[i] = a ^ b ^ c ^ d;
}

extern "C" __global__ void crc32_bitwise(int n, const unsigned char *p, u32 *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    u32 c = 0xffffffffu;
    for (int k = 0; k < n; k++) {
        c ^= p[i * n + k];
#pragma unroll
        for (int b = 0; b < 8; b++) c = (c >> 1) ^ (0xedb88320u & (0u - (c & 1u)));
    }
    out[i] = ~c;
}
