// Matrix transposes with and without padding; 1D, 2D and 3D stencils.
extern "C" __global__ void transpose_naive(int w, int h, const float *in, float *out)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    if (x < w && y < h) out[x * h + y] = in[y * w + x];
}

extern "C" __global__ void transpose_shared_conflict(int w, int h, const float *in, float *out)
{
    __shared__ float t[32][32];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < w && y + j < h) t[threadIdx.y + j][threadIdx.x] = in[(y + j) * w + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < h && y + j < w) out[(y + j) * h + x] = t[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void transpose_shared_padded(int w, int h, const float *__restrict__ in, float *__restrict__ out)
{
    __shared__ float t[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
#pragma unroll
    for (int j = 0; j < 32; j += 8) t[threadIdx.y + j][threadIdx.x] = in[(y + j) * w + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
#pragma unroll
    for (int j = 0; j < 32; j += 8) out[(y + j) * h + x] = t[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void transpose_swizzled_f64(int n, const double *__restrict__ in, double *__restrict__ out)
{
    __shared__ double t[32 * 32];
    int bx = blockIdx.x * 32, by = blockIdx.y * 32, x = threadIdx.x;
    for (int y = threadIdx.y; y < 32; y += blockDim.y) t[y * 32 + (x ^ y)] = in[(long long)(by + y) * n + bx + x];
    __syncthreads();
    for (int y = threadIdx.y; y < 32; y += blockDim.y) out[(long long)(bx + y) * n + by + x] = t[x * 32 + (x ^ y)];
}

extern "C" __global__ void stencil_1d(int n, const float *in, float *out)
{
    __shared__ float s[256 + 8];
    int i = blockIdx.x * 256 + threadIdx.x, t = threadIdx.x + 4;
    s[t] = i < n ? in[i] : 0.0f;
    if (threadIdx.x < 4) {
        s[t - 4] = i >= 4 ? in[i - 4] : 0.0f;
        s[t + 256] = i + 256 < n ? in[i + 256] : 0.0f;
    }
    __syncthreads();
    float r = 0.0f;
#pragma unroll
    for (int k = -4; k <= 4; k++) r += s[t + k] * (1.0f / (1 + k * k));
    if (i < n) out[i] = r;
}

extern "C" __global__ void stencil_2d_5pt(int w, int h, const float *__restrict__ a, float *__restrict__ b)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
    int i = y * w + x;
    b[i] = 0.5f * a[i] + 0.125f * (a[i - 1] + a[i + 1] + a[i - w] + a[i + w]);
}

extern "C" __global__ void stencil_2d_9pt_shared(int w, int h, const double *__restrict__ a, double *__restrict__ b,
                                                 double c0, double c1, double c2)
{
    __shared__ double s[18][35];
    int x0 = blockIdx.x * 32 - 1, y0 = blockIdx.y * 16 - 1;
    for (int k = threadIdx.y * 32 + threadIdx.x; k < 18 * 34; k += 512) {
        int r = k / 34, c = k % 34;
        int gx = min(max(x0 + c, 0), w - 1), gy = min(max(y0 + r, 0), h - 1);
        s[r][c] = a[gy * w + gx];
    }
    __syncthreads();
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    double e = s[ty][tx - 1] + s[ty][tx + 1] + s[ty - 1][tx] + s[ty + 1][tx];
    double d = s[ty - 1][tx - 1] + s[ty - 1][tx + 1] + s[ty + 1][tx - 1] + s[ty + 1][tx + 1];
    if (x0 + tx < w && y0 + ty < h) b[(y0 + ty) * w + x0 + tx] = c0 * s[ty][tx] + c1 * e + c2 * d;
}

extern "C" __global__ void stencil_3d_7pt(int nx, int ny, int nz, const float *__restrict__ a, float *__restrict__ b)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
    int plane = nx * ny, i = y * nx + x + plane;
    float below = a[i - plane], mid = a[i];
    for (int z = 1; z < nz - 1; z++) {
        float above = a[i + plane];
        b[i] = below + above + a[i - 1] + a[i + 1] + a[i - nx] + a[i + nx] - 6.0f * mid;
        below = mid;
        mid = above;
        i += plane;
    }
}

extern "C" __global__ void stencil_3d_25pt(int nx, int ny, int nz, const float *__restrict__ a,
                                           float *__restrict__ b, const float4 c)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x + 4, y = blockIdx.y * blockDim.y + threadIdx.y + 4;
    if (x >= nx - 4 || y >= ny - 4) return;
    long long plane = (long long)nx * ny, i = (long long)y * nx + x;
    float q[9];
#pragma unroll
    for (int k = 0; k < 8; k++) q[k] = a[i + k * plane];
    const float cc[4] = {c.x, c.y, c.z, c.w};
    for (int z = 4; z < nz - 4; z++) {
        q[8] = a[i + (z + 4) * plane];
        float r = -2.5f * q[4];
        long long p = i + z * plane;
#pragma unroll
        for (int k = 1; k <= 4; k++)
            r += cc[k - 1] * (q[4 - k] + q[4 + k] + a[p - k] + a[p + k] + a[p - (long long)k * nx] + a[p + (long long)k * nx]);
        b[p] = r;
#pragma unroll
        for (int k = 0; k < 8; k++) q[k] = q[k + 1];
    }
}

extern "C" __global__ void jacobi_residual(int n, const float *__restrict__ u, float *__restrict__ v,
                                           const float *__restrict__ f, float h2, float *res)
{
    __shared__ float s[32];
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float d = 0.0f;
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1) {
        int i = y * n + x;
        float nv = 0.25f * (u[i - 1] + u[i + 1] + u[i - n] + u[i + n] - h2 * f[i]);
        d = fabsf(nv - u[i]);
        v[i] = nv;
    }
    for (int o = 16; o; o >>= 1) d = fmaxf(d, __shfl_xor_sync(0xffffffffu, d, o));
    int t = threadIdx.y * blockDim.x + threadIdx.x;
    if ((t & 31) == 0) s[t >> 5] = d;
    __syncthreads();
    if (t == 0) {
        for (int k = 1; k < (int)(blockDim.x * blockDim.y) / 32; k++) d = fmaxf(d, s[k]);
        atomicMax((int *)res, __float_as_int(d));
    }
}

__constant__ float conv_weights[9] = {1, 2, 1, 2, 4, 2, 1, 2, 1};

extern "C" __global__ void conv_3x3_const(int w, int h, const float *__restrict__ in, float *__restrict__ out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float s = 0.0f;
#pragma unroll
    for (int j = -1; j <= 1; j++)
#pragma unroll
        for (int i = -1; i <= 1; i++) {
            int xx = x + i, yy = y + j;
            if (xx >= 0 && xx < w && yy >= 0 && yy < h) s += in[yy * w + xx] * conv_weights[(j + 1) * 3 + i + 1];
        }
    out[y * w + x] = s * 0.0625f;
}
