// Warp-level operations: shuffles, votes, match, redux, active mask, elect.
#define FULL 0xffffffffu

extern "C" __global__ void shfl_variants(const int *in, int *out, int lane, int width_sel)
{
    int t = threadIdx.x, v = in[t];
    int r = __shfl_sync(FULL, v, lane);
    r ^= __shfl_sync(FULL, v, t + 1, 8);
    r += __shfl_up_sync(FULL, v, 3);
    r ^= __shfl_up_sync(FULL, v, lane, 16);
    r += __shfl_down_sync(FULL, v, 5, 4);
    r ^= __shfl_down_sync(FULL, r, width_sel & 7);
    r += __shfl_xor_sync(FULL, v, 7);
    r ^= __shfl_xor_sync(FULL, r, lane, 16);
    r += __shfl_sync(0x0000ffffu << (t & 16), r, t ^ 1);
    out[t] = r;
}

extern "C" __global__ void shfl_wide_types(const double *d, const long long *l, const float *f, double *od, long long *ol, float *of)
{
    int t = threadIdx.x;
    od[t] = __shfl_sync(FULL, d[t], 31 - (t & 31));
    ol[t] = __shfl_down_sync(FULL, l[t], 4);
    of[t] = __shfl_xor_sync(FULL, f[t], 16);
    int p, v = (int)l[t];
    asm volatile("{ .reg .pred q; shfl.sync.up.b32 %0|q, %0, 2, 0, 0xffffffff; selp.b32 %1, 1, 0, q; }" : "+r"(v), "=r"(p));
    if (p) ol[t] += v;
}

extern "C" __global__ void vote_variants(int n, const int *in, unsigned *out)
{
    int t = threadIdx.x, v = in[t];
    unsigned b = __ballot_sync(FULL, v > n);
    if (__all_sync(FULL, v != 0)) b |= 0x80000000u;
    if (__any_sync(FULL, v == n)) b ^= 0x00ff00ffu;
    unsigned u;
    asm volatile("{ .reg .pred p, q; setp.lt.s32 p, %1, 10; vote.sync.uni.pred q, p, 0xffffffff; selp.u32 %0, 1, 0, q; }" : "=r"(u) : "r"(v));
    out[t] = __popc(b & ((1u << (t & 31)) - 1)) + u;
}

extern "C" __global__ void match_variants(const int *k32, const unsigned long long *k64, unsigned *out)
{
    int t = threadIdx.x, pred = 0;
    unsigned m = __match_any_sync(FULL, k32[t]);
    unsigned q = __match_all_sync(FULL, k64[t], &pred);
    unsigned r = __match_any_sync(FULL, k64[t]);
    if (__ffs(m) - 1 == (t & 31)) atomicAdd(&out[k32[t] & 63], __popc(m));
    out[64 + t] = q ^ r ^ (pred ? 0x1234u : 0u);
}

extern "C" __global__ void redux_variants(const unsigned *in, unsigned *out)
{
    int t = threadIdx.x;
    unsigned v = in[t], r[8];
#if __CUDA_ARCH__ >= 800
    r[0] = __reduce_add_sync(FULL, v);
    r[1] = __reduce_min_sync(FULL, v);
    r[2] = __reduce_max_sync(FULL, v);
    r[3] = (unsigned)__reduce_min_sync(FULL, (int)v);
    r[4] = (unsigned)__reduce_max_sync(FULL, (int)v);
    r[5] = __reduce_and_sync(FULL, v);
    r[6] = __reduce_or_sync(FULL, v);
    r[7] = __reduce_xor_sync(FULL, v);
#else
    for (int k = 0; k < 8; k++) r[k] = v;
    for (int o = 16; o; o >>= 1) {
        r[0] += __shfl_xor_sync(FULL, r[0], o);
        r[1] = min(r[1], __shfl_xor_sync(FULL, r[1], o));
        r[2] = max(r[2], __shfl_xor_sync(FULL, r[2], o));
        r[5] &= __shfl_xor_sync(FULL, r[5], o);
        r[6] |= __shfl_xor_sync(FULL, r[6], o);
        r[7] ^= __shfl_xor_sync(FULL, r[7], o);
    }
#endif
    if ((t & 31) == 0)
        for (int k = 0; k < 8; k++) out[(t >> 5) * 8 + k] = r[k];
}

extern "C" __global__ void aggregated_filter(int n, const int *in, int *out, int *count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && in[i] > 0) {
        unsigned m = __activemask();
        int leader = __ffs(m) - 1, lane, pos = 0;
        unsigned below;
        asm("mov.u32 %0, %%laneid;" : "=r"(lane));
        asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
        if (lane == leader) pos = atomicAdd(count, __popc(m));
        pos = __shfl_sync(m, pos, leader) + __popc(m & below);
        out[pos] = in[i];
    }
}

extern "C" __global__ void elect_one(const int *in, int *out)
{
    int t = threadIdx.x, sum = in[t];
    unsigned pred = 0;
    sum += __shfl_xor_sync(FULL, sum, 1);
#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(pred));
#else
    pred = (t & 31) == __ffs(__activemask()) - 1;
#endif
    if (pred) out[t >> 5] = sum;
    __syncwarp();
    out[64 + t] = sum;
}

extern "C" __global__ void warp_partial_masks(const int *in, int *out)
{
    int t = threadIdx.x, lane = t & 31, v = in[t];
    if (lane < 12) {
        v += __shfl_xor_sync(0x00000fffu, v, 1);
        __syncwarp(0x00000fffu);
        v = __any_sync(0x00000fffu, v > 4) ? v * 2 : v;
    } else {
        v -= __shfl_xor_sync(0xfffff000u, v, 2);
        __syncwarp(0xfffff000u);
    }
    unsigned m = FULL;
    while (m) {
        int k = __ffs(m) - 1;
        int peer = __shfl_sync(FULL, v, k);
        unsigned same = __ballot_sync(FULL, peer == v);
        if (peer == v) v += __popc(same);
        m &= ~same;
        m &= m - 1;
    }
    out[t] = v;
}

extern "C" __global__ void bitonic_warp_sort(const unsigned *in, unsigned *out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    unsigned v = in[t];
#pragma unroll
    for (int k = 2; k <= 32; k <<= 1)
#pragma unroll
        for (int j = k >> 1; j > 0; j >>= 1) {
            unsigned u = __shfl_xor_sync(FULL, v, j);
            bool up = ((lane & k) == 0) == ((lane & j) == 0);
            v = up ? min(u, v) : max(u, v);
        }
    out[t] = v;
}
