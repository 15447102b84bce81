// Asynchronous copies and barriers in shared memory.
typedef unsigned long long u64;
typedef unsigned u32;
__device__ __forceinline__ u32 place(const void *p) { return (u32)__cvta_generic_to_shared(p); }

#if __CUDA_ARCH__ >= 800
// Two stages of copies; the odd elements of the last tile are filled with zeros.
extern "C" __global__ void staged(const float *in, float *out, int tiles)
{
    __shared__ float s[2][128];
    int t = threadIdx.x;
    for (int i = 0; i <= tiles; i++) {
        if (i < tiles) {
            int live = i == tiles - 1 && t % 2 ? 0 : 4;
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                         :: "r"(place(&s[i & 1][t])), "l"(in + i * 128 + t), "r"(live) : "memory");
        }
        asm volatile("cp.async.commit_group;\n cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        if (i > 0) out[(i - 1) * 128 + t] = 2.0f * s[(i - 1) & 1][127 - t];
        __syncthreads();
    }
}

// Copies of 16 bytes of which 16, 12, 8 are read, and of 8 of which 0 to 7 are; the others are zeros.
extern "C" __global__ void cut_off(const char *in, u32 *out)
{
    __shared__ __align__(16) u32 s[32 * 14];
    int t = threadIdx.x;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, 16;" :: "r"(place(&s[4 * t])), "l"(in + 16 * t) : "memory");
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, 12;" :: "r"(place(&s[128 + 4 * t])), "l"(in + 16 * t) : "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, 8;" :: "r"(place(&s[256 + 4 * t])), "l"(in + 16 * t) : "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
                 :: "r"(place(&s[384 + 2 * t])), "l"(in + 8 * t), "r"(t % 8) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    for (int i = 0; i < 14; i++) out[32 * i + t] = s[32 * i + t];
}

// Threads meet at a barrier in shared memory; a copy arrives at another.
extern "C" __global__ void mbarriers(const float *in, float *out, int rounds)
{
    __shared__ float s[128];
    __shared__ u64 bar, copied;
    int t = threadIdx.x;
    if (t == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(place(&bar)), "r"(128) : "memory");
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(place(&copied)), "r"(128) : "memory");
    }
    __syncthreads();
    for (int r = 0; r < rounds; r++) {
        u64 token;
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(place(&s[t])), "l"(in + r * 128 + t) : "memory");
        asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(place(&copied)) : "memory");
        for (u32 *b = (u32 *)&copied; (((volatile u32 *)b)[1] >> 31) == (r & 1);) { }
        out[r * 128 + t] = s[127 - t] + r;
        asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(token) : "r"(place(&bar)) : "memory");
        u32 done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(place(&bar)), "l"(token) : "memory");
    }
}
#endif

#if __CUDA_ARCH__ >= 900
// One thread copies a tile in, all double it, one copies it out and adds it to a sum.
extern "C" __global__ void bulk(const float *in, float *out, float *total, int tiles)
{
    __shared__ __align__(128) float s[2][256];
    __shared__ __align__(8) u64 full[2];
    int t = threadIdx.x;
    if (t == 0)
        for (int i = 0; i < 2; i++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(place(&full[i])) : "memory");
    __syncthreads();
    for (int i = 0; i < tiles; i++) {
        u32 b = place(&full[i & 1]);
        if (t == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(1024) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                         :: "r"(place(s[i & 1])), "l"(in + i * 256), "r"(1024), "r"(b) : "memory");
        }
        asm volatile("{\n.reg .pred p;\nW_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra W_%=;\n}"
                     :: "r"(b), "r"((i >> 1) & 1) : "memory");
        for (int k = t; k < 256; k += blockDim.x) s[i & 1][k] *= 2.0f;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (t == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                         :: "l"(out + i * 256), "r"(place(s[i & 1])), "r"(1024) : "memory");
            asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
                         :: "l"(total), "r"(place(s[i & 1])), "r"(1024) : "memory");
            asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group.read 0;" ::: "memory");
        }
        __syncthreads();
    }
}

// A copy from a place between sixteen bytes, one that signals outside of shared memory, a barrier that one thread misses.
extern "C" __global__ void wrong_copy(const char *in, int off, int away, int missing)
{
    __shared__ __align__(128) float s[256];
    __shared__ __align__(8) u64 bar;
    u32 b = place(&bar), done = 0;
    u64 token;
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(b), "r"(1 + missing) : "memory");
    if (off || away)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :: "r"(place(s)), "l"(in + off), "r"(512), "r"(b + away) : "memory");
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(token) : "r"(b) : "memory");
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(b), "l"(token) : "memory");
}

struct __align__(64) TensorMap { u64 words[16]; };

// A tile by a tensor map: its values are unknown, and so is what is computed from them.
extern "C" __global__ void by_tensor_map(const __grid_constant__ TensorMap map, float *out, float *other, int away)
{
    __shared__ __align__(128) float s[256], plain[256];
    __shared__ __align__(8) u64 bar;
    int t = threadIdx.x;
    u32 b = place(&bar);
    plain[t] = t;
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(b) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" :: "r"(b) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(place(s)), "l"(&map), "r"(0), "r"(0), "r"(b + away) : "memory");
    }
    __syncthreads();
    asm volatile("{\n.reg .pred p;\nW_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra W_%=;\n}" :: "r"(b) : "memory");
    out[t] = s[t] + plain[t];
    if (t < 32) s[t] = 7.0f;
    __syncthreads();
    other[t] = s[t % 64] + plain[t];
}

// Special registers of a cluster of one block; a store that tells a barrier.
extern "C" __global__ void cluster(u32 *out)
{
    __shared__ u32 s[32];
    __shared__ __align__(8) u64 bar;
    int t = threadIdx.x;
    u32 rank, size, number, of, elected, b = place(&bar);
    if (t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" :: "r"(b) : "memory");
    __syncthreads();
    asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(number));
    asm volatile("mov.u32 %0, %%nclusterid.x;" : "=r"(of));
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4;" :: "r"(b) : "memory");
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                 :: "r"(place(&s[31 - t])), "r"(t * 3), "r"(b) : "memory");
    asm volatile("{\n.reg .pred p;\nW_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra W_%=;\n}" :: "r"(b) : "memory");
    out[32 * blockIdx.x + t] = s[t] + 1000 * (rank + size) + 10000 * number + 100000 * of + 1000000 * elected;
}
#endif
