// Asynchronous copies: cp.async pipelines, mbarriers, bulk and tensor copies, clusters.
typedef unsigned u32;
typedef unsigned long long u64;

#if __CUDA_ARCH__ >= 800
static __device__ __forceinline__ u32 smem_addr(const void *p)
{
    return (u32)__cvta_generic_to_shared(p);
}
#endif

static __device__ __forceinline__ void copy16(void *s, const void *g)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(smem_addr(s)), "l"(g) : "memory");
#else
    *(int4 *)s = *(const int4 *)g;
#endif
}

static __device__ __forceinline__ void commit()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int N> static __device__ __forceinline__ void wait_group()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
#endif
}

extern "C" __global__ void cp_async_sizes(int n, const char *in, char *out)
{
    __shared__ __align__(16) char s[256 * 16];
    int t = threadIdx.x;
    char *d = s + t * 16;
    const char *g = in + (u64)(blockIdx.x * 256 + t) * 16;
#if __CUDA_ARCH__ >= 800
    int live = t < n ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(smem_addr(d)), "l"(g) : "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(smem_addr(d) + 4), "l"(g + 4), "r"(live) : "memory");
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 8;" :: "r"(smem_addr(d) + 8), "l"(g + 8) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
#else
    *(int *)d = *(const int *)g;
    *(int *)(d + 4) = t < n ? *(const int *)(g + 4) : 0;
    *(int2 *)(d + 8) = *(const int2 *)(g + 8);
#endif
    __syncthreads();
    *(int4 *)(out + (blockIdx.x * 256 + t) * 16) = *(int4 *)(s + (t ^ 1) * 16);
}

extern "C" __global__ void cp_async_pipeline(int tiles, const float4 *__restrict__ in, float *out)
{
    __shared__ float4 buf[4][128];
    int t = threadIdx.x;
    const float4 *src = in + (u64)blockIdx.x * tiles * 128 + t;
#pragma unroll
    for (int i = 0; i < 3; i++) {
        if (i < tiles) copy16(&buf[i][t], src + i * 128);
        commit();
    }
    float s = 0.0f;
    for (int i = 0; i < tiles; i++) {
        wait_group<2>();
        __syncthreads();
        if (i + 3 < tiles) copy16(&buf[(i + 3) & 3][t], src + (i + 3) * 128);
        commit();
        float4 v = buf[i & 3][127 - t];
        s += v.x * v.y + v.z * v.w;
    }
    wait_group<0>();
    out[blockIdx.x * 128 + t] = s;
}

extern "C" __global__ void __launch_bounds__(256) gemm_cp_async(int n, int k, const float *__restrict__ a,
                                                                const float *__restrict__ b, float *__restrict__ c)
{
    extern __shared__ __align__(16) float dyn[];
    float *as = dyn, *bs = dyn + 2 * 16 * 64;
    int t = threadIdx.x, tx = t & 15, ty = t >> 4;
    float acc[4][4] = {};
    const float *ap = a + (t >> 4) * n + blockIdx.y * 64 + (t & 15) * 4;
    const float *bp = b + (t >> 4) * n + blockIdx.x * 64 + (t & 15) * 4;
    copy16(as + t * 4, ap);
    copy16(bs + t * 4, bp);
    commit();
    int cur = 0;
    for (int kk = 0; kk < k; kk += 16) {
        if (kk + 16 < k) {
            ap += 16 * n;
            bp += 16 * n;
            copy16(as + (cur ^ 1) * 1024 + t * 4, ap);
            copy16(bs + (cur ^ 1) * 1024 + t * 4, bp);
        }
        commit();
        wait_group<1>();
        __syncthreads();
#pragma unroll
        for (int q = 0; q < 16; q++) {
            float4 x = *(float4 *)&as[cur * 1024 + q * 64 + ty * 4], y = *(float4 *)&bs[cur * 1024 + q * 64 + tx * 4];
            float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) acc[i][j] += xs[i] * ys[j];
        }
        __syncthreads();
        cur ^= 1;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        *(float4 *)&c[(blockIdx.y * 64 + ty * 4 + i) * n + blockIdx.x * 64 + tx * 4] =
            make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
}

extern "C" __global__ void mbarrier_basic(const float *in, float *out, int rounds)
{
    __shared__ float s[256];
    int t = threadIdx.x;
#if __CUDA_ARCH__ >= 800
    __shared__ u64 bar;
    u32 b = smem_addr(&bar);
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(b), "r"(blockDim.x) : "memory");
    __syncthreads();
    for (int r = 0; r < rounds; r++) {
        s[t] = in[r * 256 + t];
        u64 tok;
        asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(tok) : "r"(b) : "memory");
        u32 done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(b), "l"(tok) : "memory");
        out[r * 256 + t] = s[255 - t];
        asm volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], 1;" : "=l"(tok) : "r"(b) : "memory");
    }
    __syncthreads();
    if (t == 0) asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(b) : "memory");
#else
    for (int r = 0; r < rounds; r++) {
        s[t] = in[r * 256 + t];
        __syncthreads();
        out[r * 256 + t] = s[255 - t];
        __syncthreads();
    }
#endif
}

extern "C" __global__ void bulk_copy_mbarrier(const float *in, float *out, int tiles)
{
    __shared__ __align__(128) float s[2][1024];
    int t = threadIdx.x;
    const float *src = in + (u64)blockIdx.x * tiles * 1024;
    float *dst = out + (u64)blockIdx.x * tiles * 1024;
#if __CUDA_ARCH__ >= 900
    __shared__ __align__(8) u64 full[2];
    if (t == 0) {
        for (int i = 0; i < 2; i++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(smem_addr(&full[i])) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    for (int i = 0; i < tiles; i++) {
        u32 b = smem_addr(&full[i & 1]);
        if (t == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(4096) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                         :: "r"(smem_addr(s[i & 1])), "l"(src + i * 1024), "r"(4096), "r"(b) : "memory");
        }
        asm volatile("{\n.reg .pred p;\nW_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra W_%=;\n}"
                     :: "r"(b), "r"((i >> 1) & 1) : "memory");
        for (int k = t; k < 1024; k += blockDim.x) s[i & 1][k] *= 2.0f;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (t == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                         :: "l"(dst + i * 1024), "r"(smem_addr(s[i & 1])), "r"(4096) : "memory");
            asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
                         :: "l"(dst), "r"(smem_addr(s[i & 1])), "r"(4096) : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        }
        __syncthreads();
    }
    if (t == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#else
    for (int i = 0; i < tiles; i++) {
        for (int k = t; k < 1024; k += blockDim.x) s[i & 1][k] = src[i * 1024 + k];
        __syncthreads();
        for (int k = t; k < 1024; k += blockDim.x) dst[i * 1024 + k] = 2.0f * s[i & 1][1023 - k];
        __syncthreads();
    }
#endif
}

struct __align__(64) TensorMap { u64 words[16]; };

extern "C" __global__ void tensor_copy_2d(const __grid_constant__ TensorMap map, int x, int y, float *out)
{
    __shared__ __align__(128) float s[32 * 32];
    __shared__ __align__(8) u64 bar;
    int t = threadIdx.x;
#if __CUDA_ARCH__ >= 900
    u32 b = smem_addr(&bar);
    if (t == 0) {
        asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(b) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" :: "r"(b) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(smem_addr(s)), "l"(&map), "r"(x), "r"(y), "r"(b) : "memory");
    }
    __syncthreads();
    asm volatile("{\n.reg .pred p;\nW_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra W_%=;\n}" :: "r"(b) : "memory");
    for (int k = t; k < 1024; k += blockDim.x) out[k] = s[k];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                     :: "l"(&map), "r"(x + 32), "r"(y), "r"(smem_addr(s)) : "memory");
        asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;" ::: "memory");
    }
#else
    bar = map.words[t & 15];
    __syncthreads();
    for (int k = t; k < 1024; k += blockDim.x) s[k] = (float)(map.words[k & 15] + bar) + (float)(x * y);
    __syncthreads();
    for (int k = t; k < 1024; k += blockDim.x) out[k] = s[1023 - k];
#endif
}

extern "C" __global__ void
#if __CUDA_ARCH__ >= 900
__cluster_dims__(2, 1, 1)
#endif
cluster_exchange(const float *in, float *out)
{
    __shared__ float s[128];
    int t = threadIdx.x;
    s[t] = in[blockIdx.x * 128 + t];
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;" ::: "memory");
    u32 rank, size, remote;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(smem_addr(&s[127 - t])), "r"(rank ^ 1));
    float v;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(remote) : "memory");
    asm volatile("red.shared::cluster.add.u32 [%0], 1;" :: "r"(remote) : "memory");
    asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
    __shared__ __align__(8) u64 bar;
    u32 rbar;
    if (t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" :: "r"(smem_addr(&bar)) : "memory");
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(rbar) : "r"(smem_addr(&bar)), "r"(rank ^ 1));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 8;" :: "r"(smem_addr(&bar)) : "memory");
    asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" :: "r"(remote), "r"(t), "r"(rbar) : "memory");
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];"
                 :: "r"(remote), "r"(t), "r"(rbar) : "memory");
    asm volatile("{\n.reg .pred p;\nW_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra W_%=;\n}" :: "r"(smem_addr(&bar)) : "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
    out[blockIdx.x * 128 + t] = v + s[t] * (float)size;
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#else
    __syncthreads();
    out[(blockIdx.x ^ 1) * 128 + t] = s[127 - t] + s[t];
#endif
}
