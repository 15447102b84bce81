// Reductions by shuffle, shared memory and atomics; scans; decoupled look-back.
#define FULL 0xffffffffu
typedef unsigned long long u64;

static __device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(FULL, v, o);
    return v;
}

extern "C" __global__ void reduce_shuffle(int n, const float *x, float *out)
{
    __shared__ float part[32];
    float s = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
    s = warp_sum(s);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (lane == 0) part[warp] = s;
    __syncthreads();
    if (warp == 0) {
        s = lane < (blockDim.x + 31) / 32 ? part[lane] : 0.0f;
        s = warp_sum(s);
        if (lane == 0) out[blockIdx.x] = s;
    }
}

extern "C" __global__ void reduce_shared_tree(int n, const int *x, int *out)
{
    __shared__ int buf[256];
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    buf[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int s = 128; s > 0; s >>= 1) {
        if (t < s) buf[t] += buf[t + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = buf[0];
}

extern "C" __global__ void reduce_shared_unrolled(const double *x, double *out)
{
    __shared__ double buf[256];
    int t = threadIdx.x;
    buf[t] = x[blockIdx.x * 512 + t] + x[blockIdx.x * 512 + t + 256];
    __syncthreads();
#pragma unroll
    for (int s = 128; s >= 32; s >>= 1) {
        if (t < s) buf[t] += buf[t + s];
        __syncthreads();
    }
    if (t < 32) {
        double v = buf[t];
#pragma unroll
        for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(FULL, v, o);
        if (t == 0) out[blockIdx.x] = v;
    }
}

extern "C" __global__ void reduce_atomic(int n, const float *x, float *out)
{
    float s = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i] * x[i];
    s = warp_sum(s);
    if ((threadIdx.x & 31) == 0) atomicAdd(out, s);
}

extern "C" __global__ void reduce_minmax_arg(int n, const float *x, float2 *out, int *arg)
{
    __shared__ float lo[32], hi[32];
    __shared__ int who[32];
    float mn = 3.4e38f, mx = -3.4e38f;
    int a = -1;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float v = x[i];
        mn = fminf(mn, v);
        if (v > mx) { mx = v; a = i; }
    }
    for (int o = 16; o; o >>= 1) {
        mn = fminf(mn, __shfl_xor_sync(FULL, mn, o));
        float v = __shfl_xor_sync(FULL, mx, o);
        int b = __shfl_xor_sync(FULL, a, o);
        if (v > mx || (v == mx && b < a)) { mx = v; a = b; }
    }
    int w = threadIdx.x >> 5;
    if ((threadIdx.x & 31) == 0) { lo[w] = mn; hi[w] = mx; who[w] = a; }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < (int)(blockDim.x >> 5); k++) {
            mn = fminf(mn, lo[k]);
            if (hi[k] > mx) { mx = hi[k]; a = who[k]; }
        }
        *out = make_float2(mn, mx);
        *arg = a;
    }
}

extern "C" __global__ void dot_product(int n, const float4 *__restrict__ a, const float4 *__restrict__ b, float *out)
{
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 p = a[i], q = b[i];
        s0 += p.x * q.x;
        s1 += p.y * q.y;
        s2 += p.z * q.z;
        s3 += p.w * q.w;
    }
    float s = warp_sum((s0 + s1) + (s2 + s3));
    if ((threadIdx.x & 31) == 0) atomicAdd(out, s);
}

extern "C" __global__ void scan_warp(int n, const int *in, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    int v = i < n ? in[i] : 0;
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
        int u = __shfl_up_sync(FULL, v, o);
        if (lane >= o) v += u;
    }
    if (i < n) out[i] = v;
}

extern "C" __global__ void scan_hillis_steele(const float *in, float *out)
{
    __shared__ float a[2][512];
    int t = threadIdx.x, p = 0;
    a[0][t] = in[blockIdx.x * 512 + t];
    __syncthreads();
    for (int o = 1; o < 512; o <<= 1) {
        a[p ^ 1][t] = t >= o ? a[p][t] + a[p][t - o] : a[p][t];
        p ^= 1;
        __syncthreads();
    }
    out[blockIdx.x * 512 + t] = a[p][t];
}

extern "C" __global__ void scan_blelloch(unsigned *data)
{
    __shared__ unsigned s[1024 + 32];
    int t = threadIdx.x, off = 1;
    data += blockIdx.x * 1024;
    s[t + (t >> 5)] = data[t];
    s[t + 512 + ((t + 512) >> 5)] = data[t + 512];
    for (int d = 512; d > 0; d >>= 1, off <<= 1) {
        __syncthreads();
        if (t < d) {
            int i = off * (2 * t + 1) - 1, j = off * (2 * t + 2) - 1;
            s[j + (j >> 5)] += s[i + (i >> 5)];
        }
    }
    if (t == 0) s[1023 + 31] = 0;
    for (int d = 1; d < 1024; d <<= 1) {
        off >>= 1;
        __syncthreads();
        if (t < d) {
            int i = off * (2 * t + 1) - 1, j = off * (2 * t + 2) - 1;
            i += i >> 5;
            j += j >> 5;
            unsigned x = s[i];
            s[i] = s[j];
            s[j] += x;
        }
    }
    __syncthreads();
    data[t] = s[t + (t >> 5)];
    data[t + 512] = s[t + 512 + ((t + 512) >> 5)];
}

extern "C" __global__ void scan_lookback(int n, const int *in, int *out, volatile u64 *state, unsigned *ticket)
{
    __shared__ int wsum[32];
    __shared__ int prefix, tile;
    if (threadIdx.x == 0) tile = (int)atomicAdd(ticket, 1u);
    __syncthreads();
    int b = tile, i = b * blockDim.x + threadIdx.x;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int v = i < n ? in[i] : 0, s = v;
    for (int o = 1; o < 32; o <<= 1) {
        int u = __shfl_up_sync(FULL, s, o);
        if (lane >= o) s += u;
    }
    if (lane == 31) wsum[warp] = s;
    __syncthreads();
    int add = 0, total = 0;
    for (int k = 0; k < (int)(blockDim.x >> 5); k++) {
        if (k < warp) add += wsum[k];
        total += wsum[k];
    }
    if (threadIdx.x == 0) {
        state[b] = ((u64)(b == 0 ? 2 : 1) << 32) | (unsigned)total;
        __threadfence();
        int run = 0;
        for (int k = b - 1; k >= 0;) {
            u64 st = state[k];
            unsigned flag = (unsigned)(st >> 32);
            if (flag == 0) { __nanosleep(40); continue; }
            run += (int)(unsigned)st;
            if (flag == 2) break;
            k--;
        }
        state[b] = (2ull << 32) | (unsigned)(run + total);
        __threadfence();
        prefix = run;
    }
    __syncthreads();
    if (i < n) out[i] = prefix + add + s;
}

extern "C" __global__ void segmented_scan(int n, const float *in, const unsigned char *head, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    bool ok = i < n;
    float v = ok ? in[i] : 0.0f;
    unsigned heads = __ballot_sync(FULL, ok && head[i]) | 1u;
    int start = 31 - __clz(heads & (FULL >> (31 - lane)));
    for (int o = 1; o < 32; o <<= 1) {
        float u = __shfl_up_sync(FULL, v, o);
        if (lane - o >= start) v += u;
    }
    if (ok) out[i] = v;
}
