// Atomics on global and shared memory with and without a returned value; histograms.
typedef unsigned u32;
typedef unsigned long long u64;

extern "C" __global__ void atomics_global_int(int *p, u32 *u, int *out, int n)
{
    int t = threadIdx.x, r = 0;
    r += atomicAdd(p + 0, t);
    r += atomicSub(p + 1, t);
    r += atomicMin(p + 2, t);
    r += atomicMax(p + 3, t);
    r += atomicExch(p + 4, t);
    r += atomicCAS(p + 5, n, t);
    r += atomicAnd(p + 6, t);
    r += atomicOr(p + 7, t);
    r += atomicXor(p + 8, t);
    r += (int)atomicInc(u, 31u);
    r += (int)atomicDec(u + 1, 31u);
    r += (int)atomicMin(u + 2, (u32)t);
    r += (int)atomicMax(u + 3, (u32)t);
    out[t] = r;
}

extern "C" __global__ void atomics_global_noreturn(int *p, u32 *u, float *f, double *d, u64 *l)
{
    int t = threadIdx.x;
    atomicAdd(p, 1);
    atomicMin(p + 1, t);
    atomicMax(p + 2, t);
    atomicAnd(p + 3, t);
    atomicOr(p + 4, t);
    atomicXor(p + 5, t);
    atomicInc(u, 100u);
    atomicAdd(f, 1.5f);
    atomicAdd(d, 2.5);
    atomicAdd(l, (u64)t);
    atomicMax(l + 1, (u64)t);
    atomicMin((long long *)l + 2, (long long)-t);
}

extern "C" __global__ void atomics_global_64(u64 *p, long long *s, double *d, float *f, u64 *out)
{
    int t = threadIdx.x;
    u64 r = atomicAdd(p, (u64)t);
    r ^= atomicCAS(p + 1, r, (u64)t);
    r ^= atomicExch(p + 2, r);
    r ^= atomicMin(p + 3, r);
    r ^= atomicMax(p + 4, r);
    r ^= atomicAnd(p + 5, r);
    r ^= atomicOr(p + 6, r);
    r ^= atomicXor(p + 7, r);
    r ^= (u64)atomicMax(s, (long long)r);
    r ^= (u64)__double_as_longlong(atomicAdd(d, 1.0));
    r ^= __float_as_uint(atomicAdd(f, 1.0f));
    r ^= __float_as_uint(atomicExch(f + 1, 3.0f));
    out[t] = r;
}

extern "C" __global__ void atomics_shared(const int *in, int *out, float *fo, double *dout)
{
    __shared__ int s[16];
    __shared__ u32 u[4];
    __shared__ u64 l[4];
    __shared__ float f[2];
    __shared__ double d[2];
    int t = threadIdx.x, v = in[t];
    if (t < 16) s[t] = 0;
    if (t < 4) { u[t] = 0; l[t] = 0; }
    if (t < 2) { f[t] = 0; d[t] = 0; }
    __syncthreads();
    atomicAdd(&s[0], v);
    atomicMin(&s[1], v);
    atomicMax(&s[2], v);
    atomicAnd(&s[3], v);
    atomicOr(&s[4], v);
    atomicXor(&s[5], v);
    int r = atomicExch(&s[6], v);
    r += atomicCAS(&s[7], 0, v);
    r += (int)atomicInc(&u[0], 7u);
    r += (int)atomicDec(&u[1], 9u);
    r += atomicAdd(&s[8 + (t & 7)], 1);
    atomicAdd(&l[0], (u64)v);
    r += (int)atomicCAS(&l[1], 0ull, (u64)v);
    r += (int)atomicExch(&l[2], (u64)v);
    atomicMax(&l[3], (u64)v);
    atomicAdd(&f[t & 1], (float)v);
    atomicAdd(&d[t & 1], (double)v);
    __syncthreads();
    out[t] = r + s[t & 15];
    if (t < 2) { fo[t] = f[t]; dout[t] = d[t] + (double)l[t]; }
}

extern "C" __global__ void atomics_ptx_packed(u32 *h, u32 *out, float *f)
{
    int t = threadIdx.x;
    u32 old = 0, one = 0x3c003c00u;
    asm volatile("atom.global.add.noftz.f16x2 %0, [%1], %2;" : "=r"(old) : "l"(h), "r"(one) : "memory");
    asm volatile("red.global.add.noftz.f16x2 [%0], %1;" :: "l"(h + 1), "r"(one) : "memory");
    u32 acc = old;
#if __CUDA_ARCH__ >= 900
    asm volatile("atom.global.add.noftz.bf16x2 %0, [%1], %2;" : "=r"(old) : "l"(h + 2), "r"(0x3f803f80u) : "memory");
    asm volatile("red.global.add.noftz.bf16x2 [%0], %1;" :: "l"(h + 3), "r"(0x3f803f80u) : "memory");
    float4 v = make_float4(1, 2, 3, 4);
    asm volatile("red.global.add.v4.f32 [%0], {%1,%2,%3,%4};" :: "l"(f), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
    asm volatile("atom.global.v2.f32.add {%0,%1}, [%2], {%3,%4};" : "=f"(v.x), "=f"(v.y) : "l"(f + 4), "f"(v.z), "f"(v.w) : "memory");
    acc ^= __float_as_uint(v.x + v.y);
#else
    atomicAdd(f, 1.0f);
    u32 seen = h[2], want;
    do {
        want = seen;
        seen = atomicCAS(h + 2, want, want + one);
    } while (seen != want);
#endif
    out[t] = acc ^ old;
}

extern "C" __global__ void atomics_scopes(u32 *p, u32 *out)
{
    int t = threadIdx.x;
    u32 a, b, c, d;
    asm volatile("atom.relaxed.cta.global.add.u32 %0, [%1], 1;" : "=r"(a) : "l"(p) : "memory");
    asm volatile("atom.acquire.gpu.global.exch.b32 %0, [%1], %2;" : "=r"(b) : "l"(p + 1), "r"(t) : "memory");
    asm volatile("atom.release.sys.global.or.b32 %0, [%1], %2;" : "=r"(c) : "l"(p + 2), "r"(t) : "memory");
    asm volatile("atom.acq_rel.gpu.global.cas.b32 %0, [%1], %2, %3;" : "=r"(d) : "l"(p + 3), "r"(t), "r"(t + 1) : "memory");
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(p + 4) : "memory");
    asm volatile("red.relaxed.sys.global.max.u32 [%0], %1;" :: "l"(p + 5), "r"(t) : "memory");
    atomicAdd_block(p + 6, 1u);
    atomicAdd_system(p + 7, 1u);
    out[t] = a + b + c + d;
}

extern "C" __global__ void atomic_double_mul_cas(double *p, const double *x)
{
    u64 *q = (u64 *)p;
    u64 old = *q, want;
    double v = x[blockIdx.x * blockDim.x + threadIdx.x];
    do {
        want = old;
        old = atomicCAS(q, want, (u64)__double_as_longlong(v * __longlong_as_double((long long)want)));
    } while (old != want);
}

extern "C" __global__ void spin_lock_update(int *lock, volatile float *data, int n)
{
    if ((threadIdx.x & 31) != 0) return;
    while (atomicCAS(lock, 0, 1) != 0) __nanosleep(100);
    __threadfence();
    for (int i = 0; i < n; i++) data[i] = data[i] * 0.5f + 1.0f;
    __threadfence();
    atomicExch(lock, 0);
}

extern "C" __global__ void histogram_shared(int n, const uchar4 *in, u32 *hist)
{
    __shared__ u32 h[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) h[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uchar4 v = in[i];
        atomicAdd(&h[v.x], 1u);
        atomicAdd(&h[v.y], 1u);
        atomicAdd(&h[v.z], 1u);
        atomicAdd(&h[v.w], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (h[i]) atomicAdd(&hist[i], h[i]);
}

extern "C" __global__ void histogram_private(int n, const u32 *in, u32 *part)
{
    __shared__ unsigned char h[64 * 64];
    u32 *hw = (u32 *)h;
    for (int i = threadIdx.x; i < 1024; i += 64) hw[i] = 0;
    __syncthreads();
    unsigned char *mine = h + threadIdx.x;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) {
        u32 v = in[i];
        mine[(v >> 2 & 63) * 64]++;
        mine[(v >> 10 & 63) * 64]++;
        mine[(v >> 18 & 63) * 64]++;
        mine[(v >> 26) * 64]++;
    }
    __syncthreads();
    u32 s = 0;
    for (int k = 0; k < 16; k++) {
        u32 w = hw[threadIdx.x * 16 + ((k + threadIdx.x) & 15)];
        s += (w & 255) + (w >> 8 & 255) + (w >> 16 & 255) + (w >> 24);
    }
    part[blockIdx.x * 64 + threadIdx.x] = s;
}

extern "C" __global__ void hash_insert(int n, const u32 *keys, const u32 *vals, u64 *table, u32 mask, int *fail)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u32 k = keys[i], h = k;
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    h ^= h >> 16;
    u64 item = (u64)k << 32 | vals[i];
    for (u32 probe = 0; probe <= mask; probe++) {
        u64 old = atomicCAS(&table[(h + probe) & mask], ~0ull, item);
        if (old == ~0ull) return;
        if ((u32)(old >> 32) == k) {
            atomicExch(&table[(h + probe) & mask], item);
            return;
        }
    }
    atomicAdd(fail, 1);
}

extern "C" __global__ void hash_lookup(int n, const u32 *keys, const u64 *__restrict__ table, u32 mask, u32 *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u32 k = keys[i], h = (k * 2654435769u) & mask, step = (k >> 7) | 1u;
    u32 r = 0xffffffffu;
    while (true) {
        u64 e = table[h];
        if ((u32)(e >> 32) == k) { r = (u32)e; break; }
        if (e == ~0ull) break;
        h = (h + step) & mask;
    }
    out[i] = r;
}
