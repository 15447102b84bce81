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
