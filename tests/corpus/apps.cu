// Application kernels: sorting, FFT, sparse products, softmax, normalisation, attention, clustering.
typedef unsigned u32;
#define FULL 0xffffffffu

extern "C" __global__ void bitonic_step(int *data, int j, int k, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, m = i ^ j;
    if (i >= n || m <= i) return;
    int a = data[i], b = data[m];
    if ((a > b) == ((i & k) == 0)) {
        data[i] = b;
        data[m] = a;
    }
}

extern "C" __global__ void bitonic_block_pairs(u32 *keys, u32 *vals)
{
    __shared__ u32 k[1024], v[1024];
    int t = threadIdx.x, b = blockIdx.x * 1024;
    k[t] = keys[b + t]; k[t + 512] = keys[b + t + 512];
    v[t] = vals[b + t]; v[t + 512] = vals[b + t + 512];
    for (int size = 2; size <= 1024; size <<= 1) {
        for (int stride = size >> 1; stride > 0; stride >>= 1) {
            __syncthreads();
            int p = 2 * t - (t & (stride - 1)), q = p + stride;
            bool up = (p & size) == 0;
            u32 x = k[p], y = k[q];
            if ((x > y) == up) {
                k[p] = y; k[q] = x;
                u32 w = v[p];
                v[p] = v[q];
                v[q] = w;
            }
        }
    }
    __syncthreads();
    keys[b + t] = k[t]; keys[b + t + 512] = k[t + 512];
    vals[b + t] = v[t]; vals[b + t + 512] = v[t + 512];
}

extern "C" __global__ void radix_count(int n, const u32 *keys, int shift, u32 *counts)
{
    __shared__ u32 h[16][33];
    int lane = threadIdx.x & 31;
    for (int i = threadIdx.x; i < 16 * 33; i += blockDim.x) (&h[0][0])[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&h[(keys[i] >> shift) & 15][lane], 1u);
    __syncthreads();
    if (threadIdx.x < 16) {
        u32 s = 0;
        for (int k = 0; k < 32; k++) s += h[threadIdx.x][k];
        counts[threadIdx.x * gridDim.x + blockIdx.x] = s;
    }
}

extern "C" __global__ void merge_path(int na, const float *a, int nb, const float *b, float *out, int per)
{
    int diag = (blockIdx.x * blockDim.x + threadIdx.x) * per;
    if (diag >= na + nb) return;
    int lo = max(0, diag - nb), hi = min(diag, na);
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (a[mid] <= b[diag - 1 - mid]) lo = mid + 1;
        else hi = mid;
    }
    int i = lo, j = diag - lo;
    for (int k = 0; k < per && diag + k < na + nb; k++) {
        bool take = j >= nb || (i < na && a[i] <= b[j]);
        out[diag + k] = take ? a[i++] : b[j++];
    }
}

extern "C" __global__ void fft_radix2_pass(float2 *data, int logn)
{
    __shared__ float2 s[1024];
    int t = threadIdx.x, n = 1 << logn;
    float2 *p = data + blockIdx.x * n;
    for (int i = t; i < n; i += blockDim.x) s[__brev(i) >> (32 - logn)] = p[i];
    for (int len = 2; len <= n; len <<= 1) {
        __syncthreads();
        for (int k = t; k < n / 2; k += blockDim.x) {
            int half = len >> 1, j = k & (half - 1), i = 2 * k - j;
            float sn, cs;
            __sincosf(-6.2831853f * j / len, &sn, &cs);
            float2 u = s[i], v = s[i + half];
            float2 w = make_float2(v.x * cs - v.y * sn, v.x * sn + v.y * cs);
            s[i] = make_float2(u.x + w.x, u.y + w.y);
            s[i + half] = make_float2(u.x - w.x, u.y - w.y);
        }
    }
    __syncthreads();
    for (int i = t; i < n; i += blockDim.x) p[i] = s[i];
}

static __device__ __forceinline__ float2 cmul(float2 a, float2 b)
{
    return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

extern "C" __global__ void __launch_bounds__(64) fft_radix4_256(float2 *data)
{
    __shared__ float sx[256 + 16], sy[256 + 16];
    int t = threadIdx.x;
    float2 *p = data + blockIdx.x * 256;
    float2 v[4];
#pragma unroll
    for (int k = 0; k < 4; k++) v[k] = p[t + k * 64];
#pragma unroll
    for (int ns = 1; ns < 256; ns *= 4) {
        int j = t & (ns - 1);
        float ang = -6.2831853f * j / (ns * 4);
#pragma unroll
        for (int k = 1; k < 4; k++) {
            float2 w;
            sincosf(ang * k, &w.y, &w.x);
            v[k] = cmul(v[k], w);
        }
        float2 a = make_float2(v[0].x + v[2].x, v[0].y + v[2].y), b = make_float2(v[0].x - v[2].x, v[0].y - v[2].y);
        float2 c = make_float2(v[1].x + v[3].x, v[1].y + v[3].y), d = make_float2(v[1].y - v[3].y, v[3].x - v[1].x);
        v[0] = make_float2(a.x + c.x, a.y + c.y);
        v[1] = make_float2(b.x + d.x, b.y + d.y);
        v[2] = make_float2(a.x - c.x, a.y - c.y);
        v[3] = make_float2(b.x - d.x, b.y - d.y);
        int o = (t / ns) * ns * 4 + j;
#pragma unroll
        for (int k = 0; k < 4; k++) { int q = o + k * ns; sx[q + (q >> 4)] = v[k].x; sy[q + (q >> 4)] = v[k].y; }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 4; k++) { int q = t + k * 64; v[k] = make_float2(sx[q + (q >> 4)], sy[q + (q >> 4)]); }
        __syncthreads();
    }
#pragma unroll
    for (int k = 0; k < 4; k++) p[t + k * 64] = v[k];
}

extern "C" __global__ void spmv_csr_scalar(int n, const int *__restrict__ row, const int *__restrict__ col,
                                           const float *__restrict__ val, const float *__restrict__ x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 0.0f;
    for (int k = row[i]; k < row[i + 1]; k++) s += val[k] * x[col[k]];
    y[i] = s;
}

extern "C" __global__ void spmv_csr_vector(int n, const int *__restrict__ row, const int *__restrict__ col,
                                           const double *__restrict__ val, const double *__restrict__ x, double *y)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
    if (i >= n) return;
    double s = 0.0;
    for (int k = row[i] + lane, e = row[i + 1]; k < e; k += 32) s += val[k] * x[col[k]];
    for (int o = 16; o; o >>= 1) s += __shfl_down_sync(FULL, s, o);
    if (lane == 0) y[i] = s;
}

extern "C" __global__ void softmax_row(int cols, const float *__restrict__ in, float *__restrict__ out)
{
    __shared__ float red[32];
    const float *p = in + (long long)blockIdx.x * cols;
    float *q = out + (long long)blockIdx.x * cols;
    int t = threadIdx.x, lane = t & 31, w = t >> 5, nw = blockDim.x >> 5;
    float m = -3.4e38f;
    for (int i = t; i < cols; i += blockDim.x) m = fmaxf(m, p[i]);
    for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(FULL, m, o));
    if (lane == 0) red[w] = m;
    __syncthreads();
    m = red[lane < nw ? lane : 0];
    for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(FULL, m, o));
    __syncthreads();
    float s = 0.0f;
    for (int i = t; i < cols; i += blockDim.x) s += __expf(p[i] - m);
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(FULL, s, o);
    if (lane == 0) red[w] = s;
    __syncthreads();
    s = lane < nw ? red[lane] : 0.0f;
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(FULL, s, o);
    float inv = 1.0f / s;
    for (int i = t; i < cols; i += blockDim.x) q[i] = __expf(p[i] - m) * inv;
}

extern "C" __global__ void layer_norm_row(int cols, const float4 *__restrict__ in, const float4 *__restrict__ g,
                                          const float4 *__restrict__ b, float4 *__restrict__ out, float eps)
{
    __shared__ float2 red[32];
    const float4 *p = in + (long long)blockIdx.x * cols;
    float s = 0.0f, q = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        float4 v = p[i];
        s += v.x + v.y + v.z + v.w;
        q += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    for (int o = 16; o; o >>= 1) {
        s += __shfl_xor_sync(FULL, s, o);
        q += __shfl_xor_sync(FULL, q, o);
    }
    if ((threadIdx.x & 31) == 0) red[threadIdx.x >> 5] = make_float2(s, q);
    __syncthreads();
    s = q = 0.0f;
    for (int k = 0; k < (int)(blockDim.x >> 5); k++) { s += red[k].x; q += red[k].y; }
    float mean = s / (cols * 4), rstd = rsqrtf(q / (cols * 4) - mean * mean + eps);
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        float4 v = p[i], a = g[i], c = b[i];
        v.x = (v.x - mean) * rstd * a.x + c.x;
        v.y = (v.y - mean) * rstd * a.y + c.y;
        v.z = (v.z - mean) * rstd * a.z + c.z;
        v.w = (v.w - mean) * rstd * a.w + c.w;
        out[(long long)blockIdx.x * cols + i] = v;
    }
}

extern "C" __global__ void __launch_bounds__(128) attention_tile(int len, const float *__restrict__ q, const float *__restrict__ k,
                                                                 const float *__restrict__ v, float *__restrict__ out, float scale)
{
    __shared__ float ks[16][32], vs[16][32];
    int t = threadIdx.x, row = blockIdx.x * 128 + t;
    float qr[32], acc[32], m = -1e30f, l = 0.0f;
#pragma unroll
    for (int d = 0; d < 32; d++) { qr[d] = q[row * 32 + d] * scale; acc[d] = 0.0f; }
    for (int j0 = 0; j0 < len; j0 += 16) {
        __syncthreads();
        *(float4 *)&ks[t >> 3][(t & 7) * 4] = *(const float4 *)&k[(j0 + (t >> 3)) * 32 + (t & 7) * 4];
        *(float4 *)&vs[t >> 3][(t & 7) * 4] = *(const float4 *)&v[(j0 + (t >> 3)) * 32 + (t & 7) * 4];
        __syncthreads();
        for (int j = 0; j < 16; j++) {
            if (j0 + j > row) break;
            float s = 0.0f;
#pragma unroll
            for (int d = 0; d < 32; d++) s += qr[d] * ks[j][d];
            float mn = fmaxf(m, s), c = __expf(m - mn), e = __expf(s - mn);
            l = l * c + e;
            m = mn;
#pragma unroll
            for (int d = 0; d < 32; d++) acc[d] = acc[d] * c + e * vs[j][d];
        }
    }
    float inv = 1.0f / l;
#pragma unroll
    for (int d = 0; d < 32; d++) out[row * 32 + d] = acc[d] * inv;
}

extern "C" __global__ void kmeans_assign(int n, int k, const float4 *__restrict__ pts, const float4 *__restrict__ cent,
                                         int *label, float *sums, int *counts)
{
    extern __shared__ float4 c[];
    for (int i = threadIdx.x; i < k; i += blockDim.x) c[i] = cent[i];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = pts[i];
    float best = 3.4e38f;
    int who = 0;
    for (int j = 0; j < k; j++) {
        float4 q = c[j];
        float dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z, dw = p.w - q.w;
        float d = dx * dx + dy * dy + dz * dz + dw * dw;
        if (d < best) { best = d; who = j; }
    }
    label[i] = who;
    atomicAdd(&sums[who * 4 + 0], p.x);
    atomicAdd(&sums[who * 4 + 1], p.y);
    atomicAdd(&sums[who * 4 + 2], p.z);
    atomicAdd(&sums[who * 4 + 3], p.w);
    atomicAdd(&counts[who], 1);
}

extern "C" __global__ void bfs_frontier(int nf, const int *frontier, const int *row, const int *col, int *dist, int level,
                                        int *next, int *count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= nf) return;
    int u = frontier[i];
    for (int e = row[u]; e < row[u + 1]; e++) {
        int v = col[e];
        if (dist[v] == -1 && atomicCAS(&dist[v], -1, level) == -1) next[atomicAdd(count, 1)] = v;
    }
}

extern "C" __global__ void smith_waterman_diag(int n, int m, const char *a, const char *b, int *h, int diag)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x + 1, j = diag - i;
    if (i > n || j < 1 || j > m) return;
    int w = m + 1, up = h[(i - 1) * w + j] - 2, left = h[i * w + j - 1] - 2;
    int d = h[(i - 1) * w + j - 1] + (a[i - 1] == b[j - 1] ? 3 : -1);
    h[i * w + j] = max(max(0, d), max(up, left));
}
