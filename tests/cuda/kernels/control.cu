// Calls, recursion, jump tables, reductions at barriers, lanes that part and meet.
extern "C" __device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ __noinline__ int inner(int x) { return x % 3 == 0 ? x + 1 : x * 2; }
__device__ __noinline__ int outer(int x) { return x & 1 ? inner(x) + inner(x + 1) : inner(x * 3) - 1; }

extern "C" __global__ void recursion(int *out, int most) { out[threadIdx.x] = fibonacci(threadIdx.x % most); }

extern "C" __global__ void nested(int *out) { out[threadIdx.x] = outer(threadIdx.x) + outer(threadIdx.x / 2); }

extern "C" __global__ void jump_table(const int *in, int *out)
{
    int i = threadIdx.x, x = in[i];
    switch (in[i + 64]) {
    case 0: x = x * 17 + 3; break;
    case 1: x = x ^ 0x55; out[i + 64] = 1; break;
    case 2: x = x / 3; break;
    case 3: x = __popc(x); break;
    case 4: for (int k = 0; k < i; k++) x += k; break;
    case 5: x = -x; out[i + 64] = 5; break;
    case 6: x = x << 3; break;
    case 7: x = x % 7; break;
    case 8: x = min(x, 3); break;
    case 9: x = x * x; break;
    }
    out[i] = x;
}

extern "C" __global__ void reductions(int *out)
{
    int i = threadIdx.x;
    int a = __syncthreads_count(i % 3 == 0), b = __syncthreads_and(i < 95), c = __syncthreads_or(i == 17);
    int d = __syncthreads_and(i >= 0), e = __syncthreads_or(i == 1000);
    out[i] = a + 1000 * b + 2000 * c + 4000 * d + 8000 * e;
}

extern "C" __global__ void partial(int *out)
{
    int i = threadIdx.x, v = i;
    if (i < 12) v += __shfl_xor_sync(0xfff, v, 1);
    else v += __shfl_xor_sync(0xfffff000, v, 2);
    __syncwarp();
    unsigned same = __match_any_sync(0xffffffff, i & 3);
    out[i] = v + 1000 * __popc(same) + 100000 * __any_sync(0xffffffff, i == 40);
}

// Each half of a warp, the even lanes and the odd ones, names itself: in one place of the code two masks.
extern "C" __global__ void two_masks(const int *in, int *out)
{
    int i = threadIdx.x, n = blockDim.x, all;
    unsigned m = i & 1 ? 0xaaaaaaaau : 0x55555555u;
    out[i] = __ballot_sync(m, in[i] & 2);
    out[i + n] = __match_any_sync(m, in[i] & 3);
    out[i + 2 * n] = __match_all_sync(m, i & 1, &all) + all;
    out[i + 3 * n] = __shfl_sync(m, in[i], (i & 1) + 4);
    out[i + 4 * n] = __any_sync(m, i & 1);
#if __CUDA_ARCH__ >= 800
    out[i + 5 * n] = __reduce_add_sync(m, in[i]);
#endif
}

// Named barriers: half of the threads make, the other half take.
extern "C" __global__ void producer(int *out, int rounds)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    for (int r = 0; r < rounds; r++) {
        if (t < 64) {
            asm volatile("bar.sync 2, 128;" ::: "memory");
            s[t] = t * r;
            asm volatile("bar.arrive 1, 128;" ::: "memory");
        } else {
            asm volatile("bar.arrive 2, 128;" ::: "memory");
            asm volatile("bar.sync 1, 128;" ::: "memory");
            out[r * 64 + t - 64] = s[127 - t];
            asm volatile("bar.sync 3, 64;" ::: "memory");
        }
    }
}

extern "C" __global__ void stuck(int *out)
{
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;" ::: "memory");
    out[threadIdx.x] = 1;
}

// Barriers that name how many threads they wait for count whole warps, also of lanes that have ended.
extern "C" __global__ void half_warps(int *out)
{
    __shared__ int s[64];
    int i = threadIdx.x;
    if ((i & 31) >= 16) return;
    s[i] = 3 * i;
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[i] = s[(i + 32) & 63];
}

// Warps of two barriers arrive in turns, each of which counts its own.
extern "C" __global__ void two_counts(int *out)
{
    int i = threadIdx.x, odd = i / 32 & 1, yes = i % (odd ? 2 : 4) == 0, r;
    asm volatile("{.reg .pred p; setp.ne.s32 p, %1, 0; barrier.cta.red.popc.u32 %0, %2, 64, p;}"
                 : "=r"(r) : "r"(yes), "r"(odd + 1));
    out[i] = r;
}

// A lock for which lanes of a warp contend: the one that has it must not wait for the others behind the loop.
extern "C" __global__ void locked(int *lock, volatile int *out)
{
    while (atomicCAS(lock, 0, 1) != 0) { }
    __threadfence();
    out[0] += 1;
    out[1] += threadIdx.x + blockIdx.x * blockDim.x;
    __threadfence();
    atomicExch(lock, 0);
}

// Two tiles ahead, as far as there are any: the smaller of two numbers that all threads share.
extern "C" __global__ void ahead(int *out, int n)
{
    __shared__ int s[2][64];
    int t = threadIdx.x, f = 0;
#pragma unroll 1
    for (int i = 0; i < n; i++) {
#pragma unroll 1
        for (; f < n && f < i + 2; f++) s[f & 1][t] = 100 * f + t;
        __syncthreads();
        out[i * 64 + t] = s[i & 1][63 - t];
        __syncthreads();
    }
}
