// Long straight-line kernels.
typedef unsigned u32;

__constant__ u32 sha_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static __device__ __forceinline__ u32 rotr(u32 x, int n) { return __funnelshift_r(x, x, n); }

static __device__ __forceinline__ void sha_block(u32 *s, u32 *w)
{
    u32 a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
#pragma unroll
    for (int i = 0; i < 64; i++) {
        if (i >= 16) {
            u32 x = w[(i + 1) & 15], y = w[(i + 14) & 15];
            w[i & 15] += w[(i + 9) & 15] + (rotr(x, 7) ^ rotr(x, 18) ^ (x >> 3)) + (rotr(y, 17) ^ rotr(y, 19) ^ (y >> 10));
        }
        u32 t1 = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) + sha_k[i] + w[i & 15];
        u32 t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g; g = f; f = e; e = d + t1; d = c; c = b; b = a; a = t1 + t2;
    }
    s[0] += a; s[1] += b; s[2] += c; s[3] += d;
    s[4] += e; s[5] += f; s[6] += g; s[7] += h;
}

extern "C" __global__ void __launch_bounds__(256) sha256_four_blocks(const uint4 *__restrict__ in, u32 *__restrict__ out)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    u32 s[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
#pragma unroll
    for (int b = 0; b < 4; b++) {
        u32 w[16];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            uint4 v = in[(i * 4 + b) * 4 + k];
            w[k * 4 + 0] = __byte_perm(v.x, 0, 0x0123);
            w[k * 4 + 1] = __byte_perm(v.y, 0, 0x0123);
            w[k * 4 + 2] = __byte_perm(v.z, 0, 0x0123);
            w[k * 4 + 3] = __byte_perm(v.w, 0, 0x0123);
        }
        sha_block(s, w);
    }
#pragma unroll
    for (int k = 0; k < 8; k++) out[i * 8 + k] = s[k];
}

static __device__ __forceinline__ void dct8(float &a, float &b, float &c, float &d, float &e, float &f, float &g, float &h)
{
    float s0 = a + h, s1 = b + g, s2 = c + f, s3 = d + e, d0 = a - h, d1 = b - g, d2 = c - f, d3 = d - e;
    float t0 = s0 + s3, t1 = s1 + s2, t2 = s0 - s3, t3 = s1 - s2;
    a = 0.35355339f * (t0 + t1);
    e = 0.35355339f * (t0 - t1);
    c = 0.46193977f * t2 + 0.19134172f * t3;
    g = 0.19134172f * t2 - 0.46193977f * t3;
    b = 0.49039264f * d0 + 0.41573481f * d1 + 0.27778512f * d2 + 0.09754516f * d3;
    d = 0.41573481f * d0 - 0.09754516f * d1 - 0.49039264f * d2 - 0.27778512f * d3;
    f = 0.27778512f * d0 - 0.49039264f * d1 + 0.09754516f * d2 + 0.41573481f * d3;
    h = 0.09754516f * d0 - 0.27778512f * d1 + 0.41573481f * d2 - 0.49039264f * d3;
}

extern "C" __global__ void __launch_bounds__(128) dct_8x8_registers(const unsigned char *__restrict__ in, int pitch, short *__restrict__ out, float q)
{
    float m[8][8];
    const unsigned char *p = in + blockIdx.y * 8 * pitch + (blockIdx.x * 128 + threadIdx.x) * 8;
#pragma unroll
    for (int r = 0; r < 8; r++)
#pragma unroll
        for (int c = 0; c < 8; c++) m[r][c] = (float)p[r * pitch + c] - 128.0f;
#pragma unroll
    for (int r = 0; r < 8; r++) dct8(m[r][0], m[r][1], m[r][2], m[r][3], m[r][4], m[r][5], m[r][6], m[r][7]);
#pragma unroll
    for (int c = 0; c < 8; c++) dct8(m[0][c], m[1][c], m[2][c], m[3][c], m[4][c], m[5][c], m[6][c], m[7][c]);
    short *o = out + ((blockIdx.y * gridDim.x + blockIdx.x) * 128 + threadIdx.x) * 64;
#pragma unroll
    for (int r = 0; r < 8; r++)
#pragma unroll
        for (int c = 0; c < 8; c++) o[r * 8 + c] = (short)__float2int_rn(m[r][c] * q / (1.0f + r + c));
}

extern "C" __global__ void straight_line_mixed(const float *__restrict__ a, const int *__restrict__ b, float *__restrict__ out, int *__restrict__ iout, float k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = a[i], y = a[i + 1], z = k;
    int u = b[i], v = b[i + 1], w = i;
    double d = x;
#pragma unroll
    for (int r = 0; r < 152; r++) {
        x = fmaf(x, y, z + (float)r);
        y = fminf(y * 0.75f, x) - z;
        z = r % 5 == 0 ? rsqrtf(fabsf(z) + 1.0f) : z + x * 0.125f;
        u = u * (2 * r + 3) + (v >> (r % 29 + 1));
        v = (v ^ u) & (w | (r * 0x10101));
        w = max(w + __popc(u), v) - (r & 3 ? __clz(v) : (int)x);
        if (r % 8 == 7) d = fma(d, 0.5 + r, (double)u);
        if (r % 10 == 9) x = u > v ? x : y;
        if (r % 24 == 23) iout[i * 8 + r / 24 % 7] = w;
        if (r % 30 == 29) y += a[(w & 1023) + r];
    }
    out[i] = x + y + z + (float)d;
    iout[i * 8 + 7] = u ^ v ^ w;
}
