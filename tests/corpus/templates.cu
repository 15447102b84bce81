// Kernels with C++ linkage: templates, namespaces, overloads, functors, lambdas.
template <typename T> __global__ void axpy(int n, T a, const T *x, T *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
template __global__ void axpy<float>(int, float, const float *, float *);
template __global__ void axpy<double>(int, double, const double *, double *);
template __global__ void axpy<int>(int, int, const int *, int *);
template __global__ void axpy<unsigned char>(int, unsigned char, const unsigned char *, unsigned char *);
template __global__ void axpy<long long>(int, long long, const long long *, long long *);

template <typename T, int BLOCK, bool MAX> __global__ void block_reduce(const T *in, T *out)
{
    __shared__ T s[BLOCK];
    int t = threadIdx.x;
    s[t] = in[blockIdx.x * BLOCK + t];
    __syncthreads();
#pragma unroll
    for (int o = BLOCK / 2; o > 0; o >>= 1) {
        if (t < o) s[t] = MAX ? (s[t] > s[t + o] ? s[t] : s[t + o]) : s[t] + s[t + o];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}
template __global__ void block_reduce<float, 128, false>(const float *, float *);
template __global__ void block_reduce<unsigned long long, 256, true>(const unsigned long long *, unsigned long long *);
template __global__ void block_reduce<short, 64, true>(const short *, short *);

namespace image {
namespace detail {
struct Clamp { int lo, hi; __device__ int operator()(int v) const { return v < lo ? lo : v > hi ? hi : v; } };
struct Gamma { float g; __device__ int operator()(int v) const { return (int)(255.0f * __powf(v * (1.0f / 255.0f), g)); } };
}

template <class F> __global__ void map_pixels(int n, const uchar4 *in, uchar4 *out, F f)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uchar4 p = in[i];
        out[i] = make_uchar4(f(p.x), f(p.y), f(p.z), p.w);
    }
}
template __global__ void map_pixels<detail::Clamp>(int, const uchar4 *, uchar4 *, detail::Clamp);
template __global__ void map_pixels<detail::Gamma>(int, const uchar4 *, uchar4 *, detail::Gamma);

__global__ void flip(int w, int h, int *px)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= w / 2 || y >= h) return;
    int t = px[y * w + x];
    px[y * w + x] = px[y * w + w - 1 - x];
    px[y * w + w - 1 - x] = t;
}

__global__ void flip(int w, int h, double *px)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < w && y < h / 2) {
        double t = px[y * w + x];
        px[y * w + x] = px[(h - 1 - y) * w + x];
        px[(h - 1 - y) * w + x] = t;
    }
}
}

template <int N> struct Vec {
    float v[N];
    __device__ float dot(const Vec &o) const
    {
        float s = 0.0f;
#pragma unroll
        for (int i = 0; i < N; i++) s += v[i] * o.v[i];
        return s;
    }
};

template <int N> __global__ void pairwise_dot(const Vec<N> *a, const Vec<N> *b, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = a[i].dot(b[i]);
}
template __global__ void pairwise_dot<3>(const Vec<3> *, const Vec<3> *, float *);
template __global__ void pairwise_dot<16>(const Vec<16> *, const Vec<16> *, float *);

template <typename... Ts> __global__ void sum_pack(float *out, Ts... ts)
{
    float s = (0.0f + ... + (float)ts);
    auto scale = [s](int k) { return s * k; };
    out[threadIdx.x] = scale((int)threadIdx.x) + scale(3);
}
template __global__ void sum_pack<float, int, double, short, long long>(float *, float, int, double, short, long long);

template <typename A, typename B, typename R> __device__ __noinline__ R convert_mul(A a, B b) { return (R)(a * (A)b); }

template <typename A, typename B> __global__ void mixed_product(const A *a, const B *b, double *out)
{
    int i = threadIdx.x;
    out[i] = convert_mul<A, B, double>(a[i], b[i]);
}
template __global__ void mixed_product<float, int>(const float *, const int *, double *);
template __global__ void mixed_product<long long, double>(const long long *, const double *, double *);
