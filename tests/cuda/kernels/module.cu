// Variables of the module, pointers to functions, functions of the system.
__device__ int counter = 5;
__device__ float table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__device__ float zeros[4096];
__device__ float *pointer = table + 2;
__constant__ float coefficient[4] = {0.5f, 1.5f, 2.5f, 3.5f};
__device__ __noinline__ int triple(int x) { return 3 * x; }
__device__ __noinline__ int plus(int x) { return x + 7; }
typedef int (*Function)(int);
__device__ Function functions[2] = {triple, plus};
extern "C" {
int printf(const char *, ...);
__device__ void __assertfail(const char *, const char *, unsigned, const char *, size_t);
}

__device__ __noinline__ float of(const float *p, int i) { return p[i]; }

extern "C" __global__ void variables(float *out, int *count)
{
    int i = threadIdx.x;
    out[i] = table[i & 7] * coefficient[i & 3] + pointer[i & 3];
    zeros[4 * i] = i;
    atomicAdd(&counter, 1);
    __syncthreads();
    count[i] = counter + (int)zeros[4 * (63 - i)];
    out[i + 64] = of(i & 1 ? coefficient : table, i & 3);
}

extern "C" __global__ void pointers(int *out) { out[threadIdx.x] = functions[threadIdx.x % 3 == 1](threadIdx.x); }

extern "C" __global__ void system_calls(int *out, int n)
{
    int i = threadIdx.x;
    printf("hello %d\n", i);
    if (i >= n) __assertfail("i < n", "module.cu", 1, "system_calls", 1);
    int *mine = (int *)malloc(20);
    for (int k = 0; k < 5; k++) mine[k] = i + k;
    out[i] = mine[0] + mine[4];
    free(mine);
}
