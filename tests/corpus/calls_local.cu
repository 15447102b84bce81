// Calls, recursion, indirect calls, local memory, register spills, launch bounds.
typedef unsigned u32;

static __device__ __noinline__ float helper(float a, float b, int n)
{
    float r = a;
    for (int i = 0; i < n; i++) r = r * b + a;
    return r;
}

static __device__ __noinline__ double helper_f64(double a, double b)
{
    return a > b ? sqrt(a) : a / b;
}

struct Pair { float lo, hi; int tag; };

static __device__ __noinline__ Pair make_pair(const float *p, int i)
{
    Pair q;
    q.lo = fminf(p[i], p[i + 1]);
    q.hi = fmaxf(p[i], p[i + 1]);
    q.tag = q.lo == p[i] ? i : i + 1;
    return q;
}

extern "C" __global__ void call_noinline(const float *x, float *out, const double *d, double *od, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = helper(x[i], 0.5f, n);
    if (s > 10.0f) s = helper(s, x[i + 1], n + 1);
    Pair q = make_pair(x, i);
    out[i] = s + q.lo * q.hi + (float)q.tag;
    od[i] = helper_f64(d[i], 3.0);
}

static __device__ __noinline__ int fib(int n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

extern "C" __global__ void recursion_fib(const int *a, int *out)
{
    out[threadIdx.x] = fib(a[threadIdx.x]);
}

static __device__ int ackermann(int m, int n, int *depth)
{
    if (++*depth > 1000) return 0;
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1, depth);
    return ackermann(m - 1, ackermann(m, n - 1, depth), depth);
}

extern "C" __global__ void recursion_ackermann(int *out)
{
    int d = 0;
    out[threadIdx.x] = ackermann(2, threadIdx.x & 3, &d) + d;
}

static __device__ __noinline__ int is_odd(int n);
static __device__ __noinline__ int is_even(int n) { return n == 0 ? 1 : is_odd(n - 1); }
static __device__ __noinline__ int is_odd(int n) { return n == 0 ? 0 : is_even(n - 1) + n % 3; }

extern "C" __global__ void recursion_mutual(const int *a, int *out)
{
    out[threadIdx.x] = is_even(a[threadIdx.x]);
}

struct Node { int key, left, right; };

static __device__ __noinline__ int tree_sum(const Node *t, int i, int limit)
{
    if (i < 0) return 0;
    Node n = t[i];
    if (n.key > limit) return tree_sum(t, n.left, limit);
    return n.key + tree_sum(t, n.left, limit) + tree_sum(t, n.right, limit);
}

extern "C" __global__ void recursion_tree(const Node *t, const int *limits, int *out)
{
    out[threadIdx.x] = tree_sum(t, 0, limits[threadIdx.x]);
}

typedef float (*unary)(float);
static __device__ __noinline__ float op_square(float x) { return x * x; }
static __device__ __noinline__ float op_half(float x) { return 0.5f * x - 1.0f; }
static __device__ __noinline__ float op_recip(float x) { return 1.0f / x; }
static __device__ __noinline__ float op_sin(float x) { return sinf(x); }
__device__ unary op_table[4] = {op_square, op_half, op_recip, op_sin};

extern "C" __global__ void indirect_call(const int *sel, const float *x, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int k = 0; k < 3; k++) v = op_table[(sel[i] + k) & 3](v);
    out[i] = v;
}

struct Shape {
    float a, b;
    __device__ Shape(float x, float y) : a(x), b(y) {}
    __device__ virtual float area() const = 0;
};
struct Box : Shape {
    __device__ Box(float x, float y) : Shape(x, y) {}
    __device__ float area() const override { return a * b; }
};
struct Ellipse : Shape {
    __device__ Ellipse(float x, float y) : Shape(x, y) {}
    __device__ float area() const override { return 3.14159265f * sqrtf(a * b) * b; }
};

extern "C" __global__ void virtual_call(const float2 *p, const int *kind, float *out)
{
    int i = threadIdx.x;
    Box s(p[i].x, p[i].y);
    Ellipse e(p[i].y, p[i].x);
    Shape *q = kind[i] ? (Shape *)&s : (Shape *)&e;
    out[i] = q->area();
}

extern "C" __global__ void local_array_dynamic(int n, const int *in, int *out)
{
    int buf[64];
    int i = threadIdx.x;
    for (int k = 0; k < 64; k++) buf[k] = in[k * 32 + i];
    int p = i & 63;
    for (int k = 0; k < n; k++) {
        int t = buf[p];
        buf[(p + k) & 63] = t + k;
        p = t & 63;
    }
    out[i] = buf[p] + buf[63 - p];
}

extern "C" __global__ void local_array_types(const int *idx, double *od, short *os, char *oc)
{
    double d[16];
    short s[32];
    char c[40];
    int i = threadIdx.x;
    for (int k = 0; k < 16; k++) d[k] = i * 0.25 + k;
    for (int k = 0; k < 32; k++) s[k] = (short)(i * k);
    for (int k = 0; k < 40; k++) c[k] = (char)(i + k);
    int j = idx[i];
    d[j & 15] += 3.0;
    s[j & 31] ^= 77;
    c[j % 40] = 9;
    od[i] = d[(j + 1) & 15] + d[(j >> 2) & 15];
    os[i] = s[(j + 3) & 31];
    oc[i] = c[(j + 5) % 40];
}

extern "C" __global__ void insertion_sort_local(const float *in, float *out)
{
    float v[24];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 24; k++) v[k] = in[i * 24 + k];
    for (int k = 1; k < 24; k++) {
        float t = v[k];
        int j = k - 1;
        while (j >= 0 && v[j] > t) { v[j + 1] = v[j]; j--; }
        v[j + 1] = t;
    }
    for (int k = 0; k < 24; k++) out[i * 24 + k] = v[k];
}

extern "C" __global__ void __launch_bounds__(1024) spill_many_live(const float *__restrict__ in, float *__restrict__ out)
{
    float v[88];
    int i = blockIdx.x * 1024 + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 88; k++) v[k] = in[i + k * 4096];
#pragma unroll
    for (int r = 1; r < 3; r++) {
#pragma unroll
        for (int k = 0; k < 88; k++) v[k] = v[k] * v[(k + r * 17) % 88] + v[(k * 5 + r) % 88];
        __syncthreads();
    }
#pragma unroll
    for (int k = 0; k < 88; k++) out[i + k * 4096] = v[k];
}

extern "C" __global__ void __launch_bounds__(1024) spill_f64(const double *__restrict__ in, double *__restrict__ out)
{
    double v[40];
    int i = blockIdx.x * 1024 + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 40; k++) v[k] = in[i * 40 + k];
#pragma unroll
    for (int r = 3; r < 6; r++) {
#pragma unroll
        for (int k = 0; k < 40; k++) v[k] = v[k] * v[(k * r + 7) % 40] - v[(k + 13 * r) % 40];
        __syncthreads();
    }
#pragma unroll
    for (int k = 0; k < 40; k++) out[i * 40 + (k * 7) % 40] = v[k];
}

extern "C" __global__ void __launch_bounds__(128, 2) launch_bounds_min_blocks(const int *in, int *out, int n)
{
    int i = blockIdx.x * 128 + threadIdx.x, h = in[i];
    for (int k = 0; k < n; k++) h = (h ^ (h >> 15)) * 0x2c1b3c6d + in[(i + k) & 4095];
    out[i] = h;
}

extern "C" __global__ void stack_alloca(const int *n, int *out)
{
    int i = threadIdx.x, m = n[i] & 31;
    unsigned long long a, g, top, bytes = (m * 4 + 19) & ~15;
    asm volatile("stacksave.u64 %0;" : "=l"(top));
    asm volatile("alloca.u64 %0, %1, 16;" : "=l"(a) : "l"(bytes));
    asm volatile("cvta.local.u64 %0, %1;" : "=l"(g) : "l"(a));
    int *p = (int *)g;
    for (int k = 0; k <= m; k++) p[k] = k * i;
    int s = 0;
    for (int k = m; k >= 0; k--) s += p[k] ^ p[m - k];
    asm volatile("stackrestore.u64 %0;" :: "l"(top) : "memory");
    out[i] = s;
}

extern "C" __global__ void generic_pointer(int *g, const int *sel, int *out)
{
    __shared__ int s[64];
    int l[8];
    int t = threadIdx.x;
    s[t & 63] = t;
    for (int k = 0; k < 8; k++) l[k] = sel[k] + t;
    __syncthreads();
    int *p = sel[t] == 0 ? g : sel[t] == 1 ? s : l;
    p[t & 7] += 5;
    atomicAdd(sel[t] < 2 ? (sel[t] ? s : g) : g + 8, 1);
    long long *w = (long long *)(sel[t] & 1 ? (void *)s : (void *)g);
    w[t & 15] ^= 0x5555;
    out[t] = p[(t + 1) & 7] + (__isShared(p) ? 100 : __isGlobal(p) ? 200 : __isLocal(p) ? 300 : 0);
}

extern "C" __global__ void heap_new_delete(int n, int *out)
{
    int i = threadIdx.x;
    int *p = new int[n];
    for (int k = 0; k < n; k++) p[k] = k ^ i;
    out[i] = p[i % n];
    delete[] p;
}
