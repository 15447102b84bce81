// Warp-group matrix products for sm_90a, with an mma.sync form elsewhere.
typedef unsigned u32;
typedef unsigned long long u64;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
static __device__ __forceinline__ u64 descriptor(const void *p)
{
    u64 a = (u64)(u32)__cvta_generic_to_shared(p);
    return ((a & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}
#endif

extern "C" __global__ void __launch_bounds__(128) wgmma_f16_n16(const uint4 *a, const uint4 *b, float *c, int reps)
{
    __shared__ __align__(1024) uint4 as[512], bs[128];
    int t = threadIdx.x;
    for (int i = t; i < 512; i += 128) as[i] = a[i];
    bs[t] = b[t];
    __syncthreads();
    float d[8] = {};
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    u64 da = descriptor(as), db = descriptor(bs);
    asm volatile("fence.proxy.async;" ::: "memory");
    for (int r = 0; r < reps; r++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, p, 1, 1, 0, 0;\n}"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
                     : "l"(da + r), "l"(db), "r"(r));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
#else
    for (int r = 0; r < reps; r++) {
        uint4 x = as[t + r], y = bs[t];
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(x.x), "r"(x.y), "r"(y.x));
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]) : "r"(x.z), "r"(x.w), "r"(y.y));
    }
#endif
    for (int i = 0; i < 8; i++) c[i * 128 + t] = d[i];
}

extern "C" __global__ void __launch_bounds__(128) wgmma_reg_a(const u32 *a, const uint4 *b, float *c)
{
    __shared__ __align__(1024) uint4 bs[256];
    int t = threadIdx.x;
    bs[t] = b[t];
    bs[t + 128] = b[t + 128];
    u32 x[4] = {a[t], a[t + 128], a[t + 256], a[t + 384]};
    float d[4] = {c[t], c[t + 128], c[t + 256], c[t + 384]};
    __syncthreads();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    u64 db = descriptor(bs);
    asm volatile("fence.proxy.async;\n wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, 1, 1, -1, 1;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(db));
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, 1, 1, 1;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(db + 16));
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, 1, 1, 1;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(db + 32));
    asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory");
#else
    for (int i = 0; i < 4; i++) {
        uint4 y = bs[(t + i * 64) & 255];
        d[i] += __uint_as_float(x[i] << 16) * __uint_as_float(y.x & 0xffff0000u) + (float)(y.y ^ y.z ^ y.w);
    }
#endif
    for (int i = 0; i < 4; i++) c[t + i * 128] = d[i];
}

extern "C" __global__ void __launch_bounds__(256, 1) wgmma_s8_setmaxnreg(const uint4 *a, const uint4 *b, int *c, int k)
{
    __shared__ __align__(1024) uint4 as[512], bs[256];
    int t = threadIdx.x & 127, role = threadIdx.x >> 7;
    int d[4] = {0, 0, 0, 0};
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if (role == 0) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    else asm volatile("setmaxnreg.inc.sync.aligned.u32 200;");
#endif
    for (int kk = 0; kk < k; kk++) {
        __syncthreads();
        if (role == 0) {
            for (int i = t; i < 512; i += 128) as[i] = a[kk * 512 + i];
            for (int i = t; i < 256; i += 128) bs[i] = b[kk * 256 + i];
        }
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
        asm volatile("fence.proxy.async;" ::: "memory");
#endif
        __syncthreads();
        if (role == 1) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
            asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%0,%1,%2,%3}, %4, %5, 1;"
                         : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "l"(descriptor(as)), "l"(descriptor(bs)));
            asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory");
#else
            uint4 x = as[t], y = bs[t];
            d[0] = __dp4a((int)x.x, (int)y.x, d[0]);
            d[1] = __dp4a((int)x.y, (int)y.y, d[1]);
            d[2] = __dp4a((int)x.z, (int)y.z, d[2]);
            d[3] = __dp4a((int)x.w, (int)y.w, d[3]);
#endif
        }
    }
    if (role) for (int i = 0; i < 4; i++) c[t + i * 128] = d[i];
}
