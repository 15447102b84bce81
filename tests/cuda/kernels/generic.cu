// Pointers of which only the address says whether they point to shared, local or global memory.
__device__ __noinline__ float sum(const float *p, int n)
{
    float s = 0;
    for (int i = 0; i < n; i++) s += p[i];
    return s;
}
__device__ __noinline__ void bump(float *p) { *p += 1.0f; atomicAdd(p, 2.0f); }
__device__ __noinline__ void count(int *p) { atomicAdd(p, 3); }

extern "C" __global__ void generic(float *out, int *counts)
{
    __shared__ float s[32];
    __shared__ int total;
    float mine[8];
    int i = threadIdx.x;
    s[i] = i;
    if (i == 0) total = 0;
    for (int k = 0; k < 8; k++) mine[k] = k * i;
    __syncthreads();
    const float *p = i & 1 ? s : mine;
    float r = sum(p, 8);
    __syncthreads();
    bump(i & 1 ? &s[i] : &out[i + 32]);
    bump(&mine[i & 7]);
    count(i & 2 ? &total : counts);
    __syncthreads();
    out[i] = r + s[i] + mine[i & 7] + (__isShared(p) ? 1000 : 0) + (__isLocal(p) ? 2000 : 0);
    counts[i + 1] = total;
}

// Floats added to shared memory: a loop of compare-and-swap that tells by a flag.
extern "C" __global__ void shared_sum(float *out)
{
    __shared__ float s[4];
    if (threadIdx.x < 4) s[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&s[threadIdx.x & 3], (float)threadIdx.x);
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x & 3];
}

// Sums and maxima of 64 bits in shared memory are loops of compare-and-swap.
extern "C" __global__ void wide_shared(unsigned long long *out)
{
    __shared__ unsigned long long s[2];
    if (threadIdx.x < 2) s[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&s[0], (unsigned long long)threadIdx.x << 35);
    atomicMax(&s[1], (unsigned long long)(threadIdx.x ^ 5) << 40);
    __syncthreads();
    if (threadIdx.x < 2) out[threadIdx.x] = s[threadIdx.x];
}

// Sixteen bytes per thread of an array in local memory: four words, of a line each.
extern "C" __global__ void local_vectors(const int *in, float4 *out)
{
    float4 mine[8];
    for (int k = 0; k < 8; k++) mine[(k + in[0]) & 7] = make_float4(k, k + 1, k + 2, threadIdx.x);
    out[threadIdx.x] = mine[in[1] & 7];
}
