// Matrix multiplication (naive, tiled, register-blocked) and matrix-vector products.
extern "C" __global__ void gemm_naive(int m, int n, int k, const float *a, const float *b, float *c)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || col >= n) return;
    float s = 0.0f;
    for (int i = 0; i < k; i++) s += a[row * k + i] * b[i * n + col];
    c[row * n + col] = s;
}

extern "C" __global__ void gemm_tiled16(int m, int n, int k, const float *a, const float *b, float *c)
{
    __shared__ float as[16][16], bs[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float s = 0.0f;
    for (int t = 0; t < (k + 15) / 16; t++) {
        as[ty][tx] = row < m && t * 16 + tx < k ? a[row * k + t * 16 + tx] : 0.0f;
        bs[ty][tx] = col < n && t * 16 + ty < k ? b[(t * 16 + ty) * n + col] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; i++) s += as[ty][i] * bs[i][tx];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = s;
}

extern "C" __global__ void dgemm_tiled(int n, const double *__restrict__ a, const double *__restrict__ b,
                                       double *__restrict__ c, double alpha, double beta)
{
    __shared__ double as[16][17], bs[16][17];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
    double r00 = 0, r01 = 0, r10 = 0, r11 = 0;
    __shared__ double as2[16][17], bs2[16][17];
    for (int t = 0; t < n; t += 16) {
        as[ty][tx] = a[row * n + t + tx];
        as2[ty][tx] = a[(row + 16) * n + t + tx];
        bs[ty][tx] = b[(t + ty) * n + col];
        bs2[ty][tx] = b[(t + ty) * n + col + 16];
        __syncthreads();
#pragma unroll 8
        for (int i = 0; i < 16; i++) {
            r00 += as[ty][i] * bs[i][tx];
            r01 += as[ty][i] * bs2[i][tx];
            r10 += as2[ty][i] * bs[i][tx];
            r11 += as2[ty][i] * bs2[i][tx];
        }
        __syncthreads();
    }
    c[row * n + col] = alpha * r00 + beta * c[row * n + col];
    c[row * n + col + 16] = alpha * r01 + beta * c[row * n + col + 16];
    c[(row + 16) * n + col] = alpha * r10 + beta * c[(row + 16) * n + col];
    c[(row + 16) * n + col + 16] = alpha * r11 + beta * c[(row + 16) * n + col + 16];
}

extern "C" __global__ void __launch_bounds__(256) gemm_register_8x8(int m, int n, int k, const float *__restrict__ a,
                                                                    const float *__restrict__ b, float *__restrict__ c)
{
    __shared__ float as[8][128];
    __shared__ float bs[8][128];
    int t = threadIdx.x, tx = t & 15, ty = t >> 4;
    const float *ap = a + (blockIdx.y * 128 + (t >> 1)) * k + (t & 1) * 4;
    const float *bp = b + (t >> 5) * n + blockIdx.x * 128 + (t & 31) * 4;
    float acc[8][8] = {};
    for (int kk = 0; kk < k; kk += 8) {
        float4 va = *(const float4 *)ap, vb = *(const float4 *)bp;
        int r = (t & 1) * 4;
        as[r + 0][t >> 1] = va.x;
        as[r + 1][t >> 1] = va.y;
        as[r + 2][t >> 1] = va.z;
        as[r + 3][t >> 1] = va.w;
        *(float4 *)&bs[t >> 5][(t & 31) * 4] = vb;
        __syncthreads();
#pragma unroll
        for (int q = 0; q < 8; q++) {
            float x[8], y[8];
            *(float4 *)&x[0] = *(float4 *)&as[q][ty * 4];
            *(float4 *)&x[4] = *(float4 *)&as[q][64 + ty * 4];
            *(float4 *)&y[0] = *(float4 *)&bs[q][tx * 4];
            *(float4 *)&y[4] = *(float4 *)&bs[q][64 + tx * 4];
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++) acc[i][j] = fmaf(x[i], y[j], acc[i][j]);
        }
        __syncthreads();
        ap += 8;
        bp += 8 * n;
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int row = blockIdx.y * 128 + (i < 4 ? ty * 4 + i : 60 + ty * 4 + i);
        float4 *cp = (float4 *)(c + row * n + blockIdx.x * 128 + tx * 4);
        cp[0] = make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
        cp[16] = make_float4(acc[i][4], acc[i][5], acc[i][6], acc[i][7]);
    }
}

extern "C" __global__ void __launch_bounds__(64) gemm_register_k32(int n, int k, const float *__restrict__ a,
                                                                   const float *__restrict__ b, float *__restrict__ c)
{
    __shared__ __align__(16) float as[2][32][64];
    __shared__ __align__(16) float bs[2][32][64];
    int t = threadIdx.x, tx = t & 7, ty = t >> 3;
    float acc[8][8] = {};
    int buf = 0;
    for (int kk = 0; kk < k; kk += 32) {
        for (int q = t; q < 512; q += 64) {
            *(float4 *)&as[buf][q >> 4][(q & 15) * 4] = *(const float4 *)&a[(kk + (q >> 4)) * n + blockIdx.y * 64 + (q & 15) * 4];
            *(float4 *)&bs[buf][q >> 4][(q & 15) * 4] = *(const float4 *)&b[(kk + (q >> 4)) * n + blockIdx.x * 64 + (q & 15) * 4];
        }
        __syncthreads();
#pragma unroll
        for (int q = 0; q < 32; q++) {
            float4 x0 = *(float4 *)&as[buf][q][ty * 8], x1 = *(float4 *)&as[buf][q][ty * 8 + 4];
            float4 y0 = *(float4 *)&bs[buf][q][tx * 8], y1 = *(float4 *)&bs[buf][q][tx * 8 + 4];
            float x[8] = {x0.x, x0.y, x0.z, x0.w, x1.x, x1.y, x1.z, x1.w};
            float y[8] = {y0.x, y0.y, y0.z, y0.w, y1.x, y1.y, y1.z, y1.w};
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++) acc[i][j] += x[i] * y[j];
        }
        buf ^= 1;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) c[(blockIdx.y * 64 + ty * 8 + i) * n + blockIdx.x * 64 + tx * 8 + j] = acc[i][j];
}

extern "C" __global__ void gemv_row_warp(int m, int n, const float *__restrict__ a, const float *__restrict__ x,
                                         float *__restrict__ y)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
    if (row >= m) return;
    const float4 *ar = (const float4 *)(a + (long long)row * n), *xv = (const float4 *)x;
    float s = 0.0f;
    for (int i = lane; i < n / 4; i += 32) {
        float4 p = ar[i], q = xv[i];
        s += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
    }
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    if (lane == 0) y[row] = s;
}

extern "C" __global__ void gemv_column(int m, int n, const double *a, const double *x, double *y)
{
    extern __shared__ double xs[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) xs[i] = x[i];
    __syncthreads();
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m) return;
    double s = 0.0;
    for (int j = 0; j < n; j++) s = fma(a[(long long)j * m + row], xs[j], s);
    y[row] = s;
}

extern "C" __global__ void batched_4x4_inverse(int n, const float *a, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float m[4][8];
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int q = 0; q < 4; q++) {
            m[r][q] = a[i * 16 + r * 4 + q];
            m[r][q + 4] = r == q ? 1.0f : 0.0f;
        }
#pragma unroll
    for (int p = 0; p < 4; p++) {
        float inv = 1.0f / m[p][p];
#pragma unroll
        for (int q = 0; q < 8; q++) m[p][q] *= inv;
#pragma unroll
        for (int r = 0; r < 4; r++) {
            if (r == p) continue;
            float f = m[r][p];
#pragma unroll
            for (int q = 0; q < 8; q++) m[r][q] -= f * m[p][q];
        }
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int q = 0; q < 4; q++) out[i * 16 + r * 4 + q] = m[r][q + 4];
}
