// Memory spaces and ordering: constants, textures, surfaces, cache hints, fences, barriers, special registers.
typedef unsigned u32;
typedef unsigned long long u64;

__constant__ float c_table[256];
__constant__ double c_f64[8] = {1.0, 0.5, 0.25, 0.125, 3.0, 5.0, 7.0, 11.0};
__constant__ int4 c_vec[16];
__constant__ unsigned char c_bytes[64];
__device__ int g_counter;
__device__ float g_array[1024];

extern "C" __global__ void constant_dynamic(const int *idx, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = idx[i];
    int4 v = c_vec[j & 15];
    out[i] = c_table[j & 255] + c_table[7] + (float)(v.x + v.w) + (float)c_f64[j & 7] + (float)c_bytes[j & 63];
}

extern "C" __global__ void constant_uniform(float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0.0f;
    for (int k = 0; k < n; k++) s = fmaf(s, c_table[k], c_table[(k + blockIdx.x) & 255]);
    out[i] = s * (float)c_f64[2];
}

extern "C" __global__ void device_globals(int n, float *out)
{
    int i = threadIdx.x;
    if (i < n) g_array[i] = g_array[1023 - i] + 1.0f;
    if (i == 0) g_counter++;
    out[i] = g_array[i] + (float)atomicAdd(&g_counter, 1);
}

extern "C" __global__ void texture_fetch(cudaTextureObject_t a, cudaTextureObject_t b, cudaTextureObject_t c, float4 *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float u = i * 0.01f, v = 1.0f - u;
    float s = tex1Dfetch<float>(a, i);
    float4 p = tex2D<float4>(b, u, v);
    float4 q = tex2DLod<float4>(b, v, u, 1.5f);
    float r = tex3D<float>(c, u, v, 0.5f);
    int4 z = tex1Dfetch<int4>(a, i + 1);
    out[i] = make_float4(s + p.x, r * q.y, p.z + q.z, (float)(z.x + z.w));
}

extern "C" __global__ void texture_more(cudaTextureObject_t a, cudaTextureObject_t l, cudaTextureObject_t cube, float4 *out)
{
    int i = threadIdx.x;
    float u = i * 0.125f, v = i * 0.25f;
    float4 p = tex2Dgather<float4>(a, u, v, 2);
    float2 q = tex2DLayered<float2>(l, u, v, i & 3);
    float r = texCubemap<float>(cube, u, v, 1.0f);
    float g = tex2DGrad<float>(a, u, v, make_float2(0.1f, 0.2f), make_float2(0.3f, 0.1f));
    int w, h;
    asm("txq.width.b32 %0, [%1];" : "=r"(w) : "l"(a));
    asm("txq.height.b32 %0, [%1];" : "=r"(h) : "l"(a));
    out[i] = make_float4(p.x + q.x, p.y + q.y, r + g, p.w * (w + h));
}

extern "C" __global__ void surface_copy(cudaSurfaceObject_t src, cudaSurfaceObject_t dst, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float4 v;
    surf2Dread(&v, src, x * 16, y);
    surf2Dwrite(make_float4(v.w, v.z, v.y, v.x), dst, x * 16, y);
    int k = surf1Dread<int>(src, x * 4);
    surf1Dwrite(k + 1, dst, x * 4, cudaBoundaryModeZero);
    asm volatile("sured.b.2d.add.u32.trap [%0, {%1, %2}], %3;" :: "l"(dst), "r"(x * 4), "r"(y), "r"(k) : "memory");
}

extern "C" __global__ void load_store_hints(const float *a, float *b, u64 *l)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v, s = 0.0f;
    asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(v) : "l"(a + i)); s += v;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(a + i + 1)); s += v;
    asm volatile("ld.global.cs.f32 %0, [%1];" : "=f"(v) : "l"(a + i + 2)); s += v;
    asm volatile("ld.global.lu.f32 %0, [%1];" : "=f"(v) : "l"(a + i + 3)); s += v;
    asm volatile("ld.global.cv.f32 %0, [%1];" : "=f"(v) : "l"(a + i + 4)); s += v;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(a + i + 5)); s += v;
    asm volatile("ld.volatile.global.f32 %0, [%1];" : "=f"(v) : "l"(a + i + 6)); s += v;
    asm volatile("ld.global.L1::no_allocate.f32 %0, [%1];" : "=f"(v) : "l"(a + i + 7)); s += v;
    asm volatile("ld.global.nc.L1::evict_last.f32 %0, [%1];" : "=f"(v) : "l"(a + i + 8)); s += v;
    s += __ldg(a + i + 9) + __ldcg(a + i + 10) + __ldcs(a + i + 11) + __ldlu(a + i + 12);
    asm volatile("st.global.wb.f32 [%0], %1;" :: "l"(b + i), "f"(s) : "memory");
    asm volatile("st.global.cg.f32 [%0], %1;" :: "l"(b + i + 1), "f"(s) : "memory");
    asm volatile("st.global.cs.f32 [%0], %1;" :: "l"(b + i + 2), "f"(s) : "memory");
    asm volatile("st.global.wt.f32 [%0], %1;" :: "l"(b + i + 3), "f"(s) : "memory");
    asm volatile("st.volatile.global.f32 [%0], %1;" :: "l"(b + i + 4), "f"(s) : "memory");
    asm volatile("st.global.L1::no_allocate.f32 [%0], %1;" :: "l"(b + i + 5), "f"(s) : "memory");
    l[i] = __ldcg(l + i + 1) + __ldcs(l + i + 2);
}

extern "C" __global__ void prefetch_l2_policy(const float4 *a, float4 *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < n; i += gridDim.x * blockDim.x) {
        asm volatile("prefetch.global.L2 [%0];" :: "l"(a + i + 4096));
        asm volatile("prefetch.global.L1 [%0];" :: "l"(a + i + 512));
        asm volatile("prefetchu.L1 [%0];" :: "l"(a + i + 640));
        float4 v;
#if __CUDA_ARCH__ >= 800
        u64 pol, frac;
        asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(pol));
        asm volatile("createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %0, 0.25;" : "=l"(frac));
        asm volatile("ld.global.L2::cache_hint.v4.f32 {%0,%1,%2,%3}, [%4], %5;"
                     : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(a + i), "l"(pol));
        asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1,%2,%3,%4}, %5;"
                     :: "l"(b + i), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "l"(frac) : "memory");
        asm volatile("ld.global.L2::128B.v2.f32 {%0,%1}, [%2];" : "=f"(v.x), "=f"(v.y) : "l"(a + i + 1));
        asm volatile("prefetch.global.L2::evict_last [%0];" :: "l"(a + i + 2048));
        asm volatile("applypriority.global.L2::evict_normal [%0], 128;" :: "l"(a + (i & ~7)));
        asm volatile("discard.global.L2 [%0], 128;" :: "l"(b + ((i + 64) & ~7)) : "memory");
        b[i].x += v.x + v.y;
#else
        v = a[i];
        b[i] = make_float4(v.w, v.z, v.y, v.x);
#endif
    }
}

extern "C" __global__ void shared_vector_access(const float4 *a, const double2 *b, float4 *o, double *p)
{
    __shared__ float4 s4[128];
    __shared__ double2 d2[128];
    __shared__ float2 s2[128];
    __shared__ unsigned char c[128];
    __shared__ short h[128];
    int t = threadIdx.x;
    s4[t] = a[t];
    d2[t] = b[t];
    s2[t] = make_float2(a[t].x, a[t].w);
    c[t] = (unsigned char)t;
    h[t] = (short)(t * 3);
    __syncthreads();
    float4 v = s4[t ^ 5];
    float2 w = s2[127 - t];
    v.x += w.x + c[t ^ 1];
    v.y += w.y + h[t ^ 2];
    o[t] = v;
    p[t] = d2[t ^ 7].x * d2[t ^ 3].y;
}

extern "C" __global__ void dynamic_shared(const int *in, int *out, int n, int m)
{
    extern __shared__ __align__(16) unsigned char raw[];
    int *a = (int *)raw;
    float *b = (float *)(raw + n * 4);
    int t = threadIdx.x;
    for (int i = t; i < n; i += blockDim.x) a[i] = in[i];
    for (int i = t; i < m; i += blockDim.x) b[i] = (float)in[n + i];
    __syncthreads();
    u32 size, total;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
    asm("mov.u32 %0, %%total_smem_size;" : "=r"(total));
    out[t] = a[t % n] + (int)b[(t * 7) % m] + (int)(size ^ total);
}

extern "C" __global__ void fences_volatile(volatile int *flag, int *data, int *out)
{
    int t = threadIdx.x;
    data[t] = t;
    __threadfence_block();
    data[t + 32] = t;
    __threadfence();
    flag[0] = 1;
    __threadfence_system();
    while (flag[1] == 0) {}
    int v, w;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(data + 64) : "memory");
    asm volatile("ld.relaxed.sys.global.s32 %0, [%1];" : "=r"(w) : "l"(data + 65) : "memory");
    asm volatile("st.release.gpu.global.s32 [%0], %1;" :: "l"(data + 66), "r"(v + w) : "memory");
    asm volatile("st.relaxed.cta.global.s32 [%0], %1;" :: "l"(data + 67), "r"(w) : "memory");
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    asm volatile("fence.sc.sys;" ::: "memory");
    out[t] = v;
}

extern "C" __global__ void barriers(const int *in, int *out)
{
    __shared__ int s[256];
    int t = threadIdx.x, v = in[t];
    s[t] = v;
    __syncthreads();
    int c = __syncthreads_count(v > 0), o = __syncthreads_or(v == 7), a = __syncthreads_and(v != 3);
    if (t < 128) {
        asm volatile("bar.sync 1, 128;" ::: "memory");
        v += s[t ^ 1];
        asm volatile("bar.arrive 2, 256;" ::: "memory");
    } else {
        asm volatile("bar.sync 2, 256;" ::: "memory");
        v -= s[t ^ 2];
    }
    int id = 3 + (t >> 7);
    asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(128) : "memory");
    asm volatile("barrier.sync 5;" ::: "memory");
    int r;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; bar.red.popc.u32 %0, 6, p; }" : "=r"(r) : "r"(v));
    __syncwarp();
    out[t] = v + c + o * 2 + a * 4 + r;
}

extern "C" __global__ void special_registers(u64 *out)
{
    u32 r, x = 0;
    u64 l, y = 0;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(r)); x += r;
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(r)); x += r;
    asm volatile("mov.u32 %0, %%nwarpid;" : "=r"(r)); x += r;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(r)); x += r;
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(r)); x += r;
    asm volatile("mov.u32 %0, %%lanemask_eq;" : "=r"(r)); x ^= r;
    asm volatile("mov.u32 %0, %%lanemask_le;" : "=r"(r)); x ^= r;
    asm volatile("mov.u32 %0, %%lanemask_ge;" : "=r"(r)); x ^= r;
    asm volatile("mov.u32 %0, %%lanemask_gt;" : "=r"(r)); x ^= r;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(r)); x += r;
    asm volatile("mov.u32 %0, %%clock_hi;" : "=r"(r)); x += r;
    asm volatile("mov.u64 %0, %%gridid;" : "=l"(l)); y += l;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(l)); y += l;
    asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(r)); x += r;
    asm volatile("mov.u32 %0, %%envreg3;" : "=r"(r)); x += r;
    long long t0 = clock64();
    __nanosleep(x & 1023);
    __nanosleep(64);
    long long t1 = clock64();
    out[threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)] =
        y + x + (u64)(t1 - t0) + blockIdx.y * gridDim.y + blockIdx.z * gridDim.z + blockDim.z;
}

extern "C" __global__ void pointer_chase(const u32 *p, int n, u32 *out, long long *cycles)
{
    u32 j = threadIdx.x;
    long long t = clock64();
    for (int k = 0; k < n; k++) j = p[j];
    cycles[threadIdx.x] = clock64() - t;
    out[threadIdx.x] = j;
}

struct __align__(32) Octet { u32 v[8]; };

extern "C" __global__ void wide_loads(const Octet *a, Octet *b, const longlong2 *c, longlong2 *d)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Octet q;
#if __CUDA_ARCH__ >= 1000
    asm volatile("ld.global.v8.b32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];"
                 : "=r"(q.v[0]), "=r"(q.v[1]), "=r"(q.v[2]), "=r"(q.v[3]), "=r"(q.v[4]), "=r"(q.v[5]), "=r"(q.v[6]), "=r"(q.v[7])
                 : "l"(a + i));
    asm volatile("st.global.v8.b32 [%8], {%7,%6,%5,%4,%3,%2,%1,%0};"
                 :: "r"(q.v[0]), "r"(q.v[1]), "r"(q.v[2]), "r"(q.v[3]), "r"(q.v[4]), "r"(q.v[5]), "r"(q.v[6]), "r"(q.v[7]),
                    "l"(b + i + 32) : "memory");
#else
    q = a[i];
#endif
    b[i] = q;
    longlong2 w = c[i];
    d[i] = make_longlong2(w.y, w.x);
}
