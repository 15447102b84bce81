// Pairs of kernels, before and after one optimisation by hand; pairs.py says how they are launched.
#include <cuda_fp16.h>
#ifndef PAD
#define PAD 0
#endif
#ifndef BARRIER
#define BARRIER 1
#endif

// C = A^T B, n x n: each thread one result.
extern "C" __global__ void atb_naive(int n, const float *a, const float *b, float *c) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
  for (int k = 0; k < n; ++k)
    sum += a[k * n + y] * b[k * n + x];
  c[y * n + x] = sum;
}

#ifndef TILE
#define TILE 32
#endif
extern "C" __global__ void atb_tiled(int n, const float *a, const float *b, float *c) {
  __shared__ float sa[TILE][TILE], sb[TILE][TILE];
  int tx = threadIdx.x, ty = threadIdx.y;
  int x = blockIdx.x * TILE + tx, y = blockIdx.y * TILE + ty;
  float sum = 0;
  for (int k0 = 0; k0 < n; k0 += TILE) {
    sa[ty][tx] = a[(k0 + ty) * n + blockIdx.y * TILE + tx];
    sb[ty][tx] = b[(k0 + ty) * n + x];
    __syncthreads();
    for (int k = 0; k < TILE; ++k)
      sum += sa[k][ty] * sb[k][tx];
    __syncthreads();
  }
  c[y * n + x] = sum;
}

// 4 x 4 results per thread, block of 16 x 16 threads, tile of 64 x 64 results, 16 deep.
extern "C" __global__ void atb_blocked(int n, const float *a, const float *b, float *c) {
  __shared__ float sa[16][64], sb[16][64];
  int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
  float sum[4][4] = {};
  for (int k0 = 0; k0 < n; k0 += 16) {
    int r = t / 16, q = t % 16 * 4;
    *(float4 *)&sa[r][q] = *(const float4 *)&a[(k0 + r) * n + blockIdx.y * 64 + q];
    *(float4 *)&sb[r][q] = *(const float4 *)&b[(k0 + r) * n + blockIdx.x * 64 + q];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      float4 u = *(float4 *)&sa[k][ty * 4], v = *(float4 *)&sb[k][tx * 4];
      float p[4] = {u.x, u.y, u.z, u.w}, s[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          sum[i][j] += p[i] * s[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    *(float4 *)&c[(blockIdx.y * 64 + ty * 4 + i) * n + blockIdx.x * 64 + tx * 4] =
        make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
}

// the same by asynchronous copies, two tiles ahead
__device__ void copy16(void *to, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from));
}
extern "C" __global__ void atb_async(int n, const float *a, const float *b, float *c) {
  __shared__ float sa[3][16][64], sb[3][16][64];
  int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx, r = t / 16, q = t % 16 * 4;
  float sum[4][4] = {};
  const float *pa = a + r * n + blockIdx.y * 64 + q, *pb = b + r * n + blockIdx.x * 64 + q;
  for (int s = 0; s < 2; ++s) {
    copy16(&sa[s][r][q], pa + s * 16 * n);
    copy16(&sb[s][r][q], pb + s * 16 * n);
    asm volatile("cp.async.commit_group;");
  }
  int now = 0, next = 2;
  for (int k0 = 0; k0 < n; k0 += 16) {
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();
    if (k0 + 32 < n) {
      copy16(&sa[next][r][q], pa + (k0 + 32) * n);
      copy16(&sb[next][r][q], pb + (k0 + 32) * n);
    }
    asm volatile("cp.async.commit_group;");
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      float4 u = *(float4 *)&sa[now][k][ty * 4], v = *(float4 *)&sb[now][k][tx * 4];
      float p[4] = {u.x, u.y, u.z, u.w}, s[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          sum[i][j] += p[i] * s[j];
    }
    now = now == 2 ? 0 : now + 1;
    next = next == 2 ? 0 : next + 1;
  }
  for (int i = 0; i < 4; ++i)
    *(float4 *)&c[(blockIdx.y * 64 + ty * 4 + i) * n + blockIdx.x * 64 + tx * 4] =
        make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
}

// Rows to columns with a sum: out[x][y] = in[y][x] + 1, one element per thread; then by a tile.
extern "C" __global__ void turn_naive(int n, const float *in, float *out) {
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  out[x * n + y] = in[y * n + x] + 1;
}
extern "C" __global__ void turn_tiled(int n, const float *in, float *out) {
  __shared__ float tile[32][32 + PAD];
  int bx = blockIdx.x * 32, by = blockIdx.y * 32;
#pragma unroll
  for (int k = 0; k < 32; k += 8)
    tile[threadIdx.y + k][threadIdx.x] = in[(by + threadIdx.y + k) * n + bx + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 32; k += 8)
    out[(bx + threadIdx.y + k) * n + by + threadIdx.x] = tile[threadIdx.x][threadIdx.y + k] + 1;
}
// four elements along a row per thread: 16-byte loads and stores
extern "C" __global__ void turn_vector(int n, const float *in, float *out) {
  __shared__ float tile[32][33];
  int bx = blockIdx.x * 32, by = blockIdx.y * 32, t = threadIdx.y * 32 + threadIdx.x, r = t / 8, q = t % 8 * 4;
  float4 v = *(const float4 *)&in[(by + r) * n + bx + q];
  tile[r][q] = v.x; tile[r][q + 1] = v.y; tile[r][q + 2] = v.z; tile[r][q + 3] = v.w;
  __syncthreads();
  *(float4 *)&out[(bx + r) * n + by + q] = make_float4(tile[q][r] + 1, tile[q + 1][r] + 1, tile[q + 2][r] + 1, tile[q + 3][r] + 1);
}

// Norm of each row: a thread per row; a warp per row.
extern "C" __global__ void rows_thread(int rows, int columns, const float *in, float *out) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < columns; ++k) {
    float v = in[(size_t)r * columns + k];
    sum += v * v;
  }
  out[r] = sqrtf(sum);
}
extern "C" __global__ void rows_warp(int rows, int columns, const float *in, float *out) {
  int r = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  float sum = 0;
  for (int k = lane; k < columns; k += 32) {
    float v = in[(size_t)r * columns + k];
    sum += v * v;
  }
  for (int o = 16; o > 0; o /= 2)
    sum += __shfl_xor_sync(~0u, sum, o);
  if (lane == 0)
    out[r] = sqrtf(sum);
}

// a = b + s * c: floats, float4, halves by eight.
extern "C" __global__ void triad(float s, const float *b, const float *c, float *a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  a[i] = b[i] + s * c[i];
}
extern "C" __global__ void triad4(float s, const float4 *b, const float4 *c, float4 *a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 u = b[i], v = c[i];
  a[i] = make_float4(u.x + s * v.x, u.y + s * v.y, u.z + s * v.z, u.w + s * v.w);
}
// a byte per element, and sixteen
extern "C" __global__ void bytes1(const unsigned char *b, unsigned char *a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  a[i] = b[i] ^ 0x5a;
}
extern "C" __global__ void bytes16(const uint4 *b, uint4 *a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  uint4 v = b[i];
  unsigned m = 0x5a5a5a5a;
  a[i] = make_uint4(v.x ^ m, v.y ^ m, v.z ^ m, v.w ^ m);
}
// the same in words of two bytes
extern "C" __global__ void shorts8(const uint4 *b, uint4 *a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  uint4 v = b[i];
  unsigned m = 0x005a005a;
  a[i] = make_uint4(v.x ^ m, v.y ^ m, v.z ^ m, v.w ^ m);
}

// Largest product of two vectors: a tree in shared memory, in steps.
template <int ELEMENTS, bool LAST, bool UNROLLED, int BLOCK>
__device__ void dot(int n, const float *a, const float *b, float *out) {
  __shared__ float s[BLOCK];
  int t = threadIdx.x;
  float v;
  if (ELEMENTS > 2) {
    v = 0;
    for (int i = blockIdx.x * BLOCK + t; i < n; i += BLOCK * gridDim.x)
      v += a[i] * b[i];
  } else {
    int i = blockIdx.x * BLOCK * ELEMENTS + t;
    v = a[i] * b[i];
    if (ELEMENTS == 2)
      v += a[i + BLOCK] * b[i + BLOCK];
  }
  s[t] = v;
  __syncthreads();
  if (UNROLLED) {
    if (BLOCK >= 512) { if (t < 256) s[t] += s[t + 256]; __syncthreads(); }
    if (BLOCK >= 256) { if (t < 128) s[t] += s[t + 128]; __syncthreads(); }
    if (BLOCK >= 128) { if (t < 64) s[t] += s[t + 64]; __syncthreads(); }
  } else {
    for (int d = blockDim.x / 2; d > (LAST ? 32 : 0); d /= 2) {
      if (t < d)
        s[t] += s[t + d];
      __syncthreads();
    }
  }
  if (LAST && t < 32) {
    volatile float *w = s;
    w[t] += w[t + 32]; w[t] += w[t + 16]; w[t] += w[t + 8]; w[t] += w[t + 4]; w[t] += w[t + 2]; w[t] += w[t + 1];
  }
  if (t == 0)
    out[blockIdx.x] = s[0];
}
extern "C" __global__ void dot1(int n, const float *a, const float *b, float *o) { dot<1, false, false, 256>(n, a, b, o); }
extern "C" __global__ void dot2(int n, const float *a, const float *b, float *o) { dot<2, false, false, 256>(n, a, b, o); }
extern "C" __global__ void dot2_last(int n, const float *a, const float *b, float *o) { dot<2, true, false, 256>(n, a, b, o); }
extern "C" __global__ void dot2_unrolled(int n, const float *a, const float *b, float *o) { dot<2, true, true, 256>(n, a, b, o); }
extern "C" __global__ void dot_many(int n, const float *a, const float *b, float *o) { dot<3, true, true, 256>(n, a, b, o); }

// Sums over pairs: a thread per point, all others in a loop.
#ifndef ROOT
#define ROOT(x) (1.0f / sqrtf(x))
#endif
__device__ float term(float dx, float dy, float w) {
  float q = dx * dx + dy * dy + 0.01f;
  return w * ROOT(q);
}
extern "C" __global__ void pairs_plain(int n, const float *x, const float *y, const float *w, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float px = x[i], py = y[i], sum = 0;
  for (int j = 0; j < n; ++j)
    sum += term(x[j] - px, y[j] - py, w[j]);
  out[i] = sum;
}
extern "C" __global__ void pairs_packed(int n, const float *p, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 *q = (const float4 *)p;
  float4 me = q[i];
  float sum = 0;
  for (int j = 0; j < n; ++j) {
    float4 o = q[j];
    sum += term(o.x - me.x, o.y - me.y, o.z);
  }
  out[i] = sum;
}
extern "C" __global__ void pairs_shared(int n, const float *x, const float *y, const float *w, float *out) {
  __shared__ float sx[128], sy[128], sw[128];
  int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
  float px = x[i], py = y[i], sum = 0;
  for (int j0 = 0; j0 < n; j0 += 128) {
    __syncthreads();
    sx[t] = x[j0 + t]; sy[t] = y[j0 + t]; sw[t] = w[j0 + t];
    __syncthreads();
    for (int j = 0; j < 128; ++j)
      sum += term(sx[j] - px, sy[j] - py, sw[j]);
  }
  out[i] = sum;
}
extern "C" __global__ void pairs_two(int n, const float *x, const float *y, const float *w, float *out) {
  int i = blockIdx.x * blockDim.x * 2 + threadIdx.x, k = i + blockDim.x;
  float px = x[i], py = y[i], sum = 0, rx = x[k], ry = y[k], more = 0;
  for (int j = 0; j < n; ++j) {
    float ox = x[j], oy = y[j], ow = w[j];
    sum += term(ox - px, oy - py, ow);
    more += term(ox - rx, oy - ry, ow);
  }
  out[i] = sum;
  out[k] = more;
}
extern "C" __global__ void pairs_prefetch(int n, const float *x, const float *y, const float *w, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float px = x[i], py = y[i], sum = 0, ox = x[0], oy = y[0], ow = w[0];
  for (int j = 0; j < n - 1; ++j) {
    float ax = x[j + 1], ay = y[j + 1], aw = w[j + 1];
    sum += term(ox - px, oy - py, ow);
    ox = ax; oy = ay; ow = aw;
  }
  out[i] = sum + term(ox - px, oy - py, ow);
}

// A wide average along x: nine neighbours; from global, from shared memory.
extern "C" __global__ void wide_naive(int n, const float *in, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x + 4;
  if (i >= n - 4) return;
  float sum = 0;
#pragma unroll
  for (int k = -4; k <= 4; ++k)
    sum += in[i + k];
  out[i] = sum * (1.0f / 9);
}
extern "C" __global__ void wide_tiled(int n, const float *in, float *out) {
  __shared__ float s[256 + 8];
  int t = threadIdx.x, i = blockIdx.x * 256 + t + 4;
  if (i < n) s[t + 4] = in[i];
  if (t < 4) { s[t] = in[i - 4]; if (i + 256 < n) s[t + 260] = in[i + 256]; }
  __syncthreads();
  if (i >= n - 4) return;
  float sum = 0;
#pragma unroll
  for (int k = -4; k <= 4; ++k)
    sum += s[t + 4 + k];
  out[i] = sum * (1.0f / 9);
}
// 3 x 3 box in the plane
extern "C" __global__ void box_naive(int n, const float *in, float *out) {
  int x = blockIdx.x * 32 + threadIdx.x + 1, y = blockIdx.y * 8 + threadIdx.y + 1;
  if (x >= n - 1 || y >= n - 1) return;
  float sum = 0;
#pragma unroll
  for (int j = -1; j <= 1; ++j)
#pragma unroll
    for (int i = -1; i <= 1; ++i)
      sum += in[(y + j) * n + x + i];
  out[y * n + x] = sum * (1.0f / 9);
}
extern "C" __global__ void box_tiled(int n, const float *in, float *out) {
  __shared__ float s[10][34];
  int x0 = blockIdx.x * 32, y0 = blockIdx.y * 8, x = x0 + threadIdx.x + 1, y = y0 + threadIdx.y + 1;
  for (int k = threadIdx.y * 32 + threadIdx.x; k < 340; k += 256) {
    int u = x0 + k % 34, v = y0 + k / 34;
    if (u < n && v < n) s[k / 34][k % 34] = in[v * n + u];
  }
  __syncthreads();
  if (x >= n - 1 || y >= n - 1) return;
  float sum = 0;
#pragma unroll
  for (int j = 0; j <= 2; ++j)
#pragma unroll
    for (int i = 0; i <= 2; ++i)
      sum += s[threadIdx.y + j][threadIdx.x + i];
  out[y * n + x] = sum * (1.0f / 9);
}

// Centre and scale rows of 1024: a block per row with trees in shared memory; a warp per row, kept in registers.
extern "C" __global__ void norm_block(const float *in, float *out) {
  __shared__ float s[128];
  int t = threadIdx.x;
  const float *row = in + (size_t)blockIdx.x * 1024;
  float sum = 0;
  for (int i = t; i < 1024; i += 128) sum += row[i];
  s[t] = sum;
  __syncthreads();
  for (int d = 64; d > 0; d /= 2) { if (t < d) s[t] += s[t + d]; __syncthreads(); }
  float mean = s[0] * (1.0f / 1024);
  __syncthreads();
  sum = 0;
  for (int i = t; i < 1024; i += 128) sum += (row[i] - mean) * (row[i] - mean);
  s[t] = sum;
  __syncthreads();
  for (int d = 64; d > 0; d /= 2) { if (t < d) s[t] += s[t + d]; __syncthreads(); }
  float scale = rsqrtf(s[0] * (1.0f / 1024));
  for (int i = t; i < 1024; i += 128) out[(size_t)blockIdx.x * 1024 + i] = (row[i] - mean) * scale;
}
__device__ float all(float v) { for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o); return v; }
extern "C" __global__ void norm_warp(const float *in, float *out) {
  int r = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  const float4 *row = (const float4 *)(in + (size_t)r * 1024);
  float4 v[8];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) { v[i] = row[i * 32 + lane]; sum += v[i].x + v[i].y + v[i].z + v[i].w; }
  float mean = all(sum) * (1.0f / 1024);
  sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    v[i].x -= mean; v[i].y -= mean; v[i].z -= mean; v[i].w -= mean;
    sum += v[i].x * v[i].x + v[i].y * v[i].y + v[i].z * v[i].z + v[i].w * v[i].w;
  }
  float scale = rsqrtf(all(sum) * (1.0f / 1024));
#pragma unroll
  for (int i = 0; i < 8; ++i)
    ((float4 *)(out + (size_t)r * 1024))[i * 32 + lane] = make_float4(v[i].x * scale, v[i].y * scale, v[i].z * scale, v[i].w * scale);
}

// Points counted by cell: on global memory; in shared memory first.
extern "C" __global__ void cells_global(int n, const float *x, unsigned *count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&count[(int)(x[i] * 511.0f) & 511], 1u);
}
extern "C" __global__ void cells_private(int n, const float *x, unsigned *count) {
  __shared__ unsigned s[512];
  for (int k = threadIdx.x; k < 512; k += blockDim.x) s[k] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&s[(int)(x[i] * 511.0f) & 511], 1u);
  __syncthreads();
  for (int k = threadIdx.x; k < 512; k += blockDim.x) if (s[k]) atomicAdd(&count[k], s[k]);
}

// heat in space: seven points; then a block walks along z with a plane in shared memory
extern "C" __global__ void heat_naive(int n, const float *in, float *out) {
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, z = blockIdx.z;
  int i = (z * n + y) * n + x, p = n * n;
  if (x == 0 || y == 0 || z == 0 || x == n - 1 || y == n - 1 || z == n - 1) return;
  out[i] = in[i] * 0.4f + 0.1f * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] + in[i - p] + in[i + p]);
}
extern "C" __global__ void heat_tiled(int n, const float *in, float *out) {
  __shared__ float s[10][34];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, z = blockIdx.z;
  int i = (z * n + y) * n + x, p = n * n, u = threadIdx.x + 1, v = threadIdx.y + 1;
  s[v][u] = in[i];
  if (threadIdx.x == 0 && x > 0) s[v][0] = in[i - 1];
  if (threadIdx.x == 31 && x < n - 1) s[v][33] = in[i + 1];
  if (threadIdx.y == 0 && y > 0) s[0][u] = in[i - n];
  if (threadIdx.y == 7 && y < n - 1) s[9][u] = in[i + n];
  __syncthreads();
  if (x == 0 || y == 0 || z == 0 || x == n - 1 || y == n - 1 || z == n - 1) return;
  out[i] = s[v][u] * 0.4f + 0.1f * (s[v][u - 1] + s[v][u + 1] + s[v - 1][u] + s[v + 1][u] + in[i - p] + in[i + p]);
}

// five by five filters over planes: a thread per result; a thread with four filters
extern "C" __global__ void filter_one(int planes, int n, const float *in, const float *w, float *out) {
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, f = blockIdx.z, m = n - 4;
  float sum = 0;
  for (int c = 0; c < planes; ++c)
#pragma unroll
    for (int j = 0; j < 5; ++j)
#pragma unroll
      for (int i = 0; i < 5; ++i)
        sum += in[(c * n + y + j) * n + x + i] * w[((f * planes + c) * 5 + j) * 5 + i];
  out[(f * m + y) * m + x] = sum;
}
extern "C" __global__ void filter_four(int planes, int n, const float *in, const float *w, float *out) {
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, f = blockIdx.z * 4, m = n - 4;
  float sum[4] = {};
  for (int c = 0; c < planes; ++c)
#pragma unroll
    for (int j = 0; j < 5; ++j)
#pragma unroll
      for (int i = 0; i < 5; ++i) {
        float v = in[(c * n + y + j) * n + x + i];
#pragma unroll
        for (int k = 0; k < 4; ++k)
          sum[k] += v * w[(((f + k) * planes + c) * 5 + j) * 5 + i];
      }
#pragma unroll
  for (int k = 0; k < 4; ++k)
    out[((f + k) * m + y) * m + x] = sum[k];
}

// C = A B^T in half precision by matrix instructions: blocks of 64 x 64, four warps of 32 x 32, 32 deep
__device__ void mma(float *c, const unsigned *a, const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
extern "C" __global__ void abt_matrix(int n, const float *a0, const float *b0, float *c) {
  const __half *a = (const __half *)a0, *b = (const __half *)b0;
  __shared__ __align__(16) __half sa[64][40], sb[64][40];
  int t = threadIdx.x, lane = t % 32, warp = t / 32, wy = warp / 2 * 32, wx = warp % 2 * 32, g = lane / 4, q = lane % 4 * 2;
  float sum[2][4][4] = {};
  for (int k0 = 0; k0 < n; k0 += 32) {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      int r = t / 4 + s * 32, o = t % 4 * 8;
      *(uint4 *)&sa[r][o] = *(const uint4 *)&a[(blockIdx.y * 64 + r) * n + k0 + o];
      *(uint4 *)&sb[r][o] = *(const uint4 *)&b[(blockIdx.x * 64 + r) * n + k0 + o];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; k += 16) {
      unsigned fa[2][4], fb[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        int r = wy + i * 16 + g;
        fa[i][0] = *(unsigned *)&sa[r][k + q]; fa[i][1] = *(unsigned *)&sa[r + 8][k + q];
        fa[i][2] = *(unsigned *)&sa[r][k + q + 8]; fa[i][3] = *(unsigned *)&sa[r + 8][k + q + 8];
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        int r = wx + j * 8 + g;
        fb[j][0] = *(unsigned *)&sb[r][k + q]; fb[j][1] = *(unsigned *)&sb[r][k + q + 8];
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          mma(sum[i][j], fa[i], fb[j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int r = blockIdx.y * 64 + wy + i * 16 + g, x = blockIdx.x * 64 + wx + j * 8 + q;
      *(float2 *)&c[r * n + x] = make_float2(sum[i][j][0], sum[i][j][1]);
      *(float2 *)&c[(r + 8) * n + x] = make_float2(sum[i][j][2], sum[i][j][3]);
    }
}
// the same with copies two tiles ahead
extern "C" __global__ void abt_matrix_async(int n, const float *a0, const float *b0, float *c) {
  const __half *a = (const __half *)a0, *b = (const __half *)b0;
  __shared__ __align__(16) __half sa[3][64][40], sb[3][64][40];
  int t = threadIdx.x, lane = t % 32, warp = t / 32, wy = warp / 2 * 32, wx = warp % 2 * 32, g = lane / 4, q = lane % 4 * 2;
  float sum[2][4][4] = {};
  auto fetch = [&](int s, int k0) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      int r = t / 4 + h * 32, o = t % 4 * 8;
      copy16(&sa[s][r][o], &a[(blockIdx.y * 64 + r) * n + k0 + o]);
      copy16(&sb[s][r][o], &b[(blockIdx.x * 64 + r) * n + k0 + o]);
    }
  };
  for (int s = 0; s < 2; ++s) { fetch(s, s * 32); asm volatile("cp.async.commit_group;"); }
  int now = 0, next = 2;
  for (int k0 = 0; k0 < n; k0 += 32) {
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();
    if (k0 + 64 < n) fetch(next, k0 + 64);
    asm volatile("cp.async.commit_group;");
#pragma unroll
    for (int k = 0; k < 32; k += 16) {
      unsigned fa[2][4], fb[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        int r = wy + i * 16 + g;
        fa[i][0] = *(unsigned *)&sa[now][r][k + q]; fa[i][1] = *(unsigned *)&sa[now][r + 8][k + q];
        fa[i][2] = *(unsigned *)&sa[now][r][k + q + 8]; fa[i][3] = *(unsigned *)&sa[now][r + 8][k + q + 8];
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        int r = wx + j * 8 + g;
        fb[j][0] = *(unsigned *)&sb[now][r][k + q]; fb[j][1] = *(unsigned *)&sb[now][r][k + q + 8];
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          mma(sum[i][j], fa[i], fb[j]);
    }
    now = now == 2 ? 0 : now + 1;
    next = next == 2 ? 0 : next + 1;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int r = blockIdx.y * 64 + wy + i * 16 + g, x = blockIdx.x * 64 + wx + j * 8 + q;
      *(float2 *)&c[r * n + x] = make_float2(sum[i][j][0], sum[i][j][1]);
      *(float2 *)&c[(r + 8) * n + x] = make_float2(sum[i][j][2], sum[i][j][3]);
    }
}

// rounds of a little work with a barrier after each
extern "C" __global__ void rounds(int n, float *out) {
  float v = threadIdx.x;
  for (int i = 0; i < n; ++i) {
#pragma unroll
    for (int k = 0; k < 12; ++k) v = v * 0.99f + 1.0f;
#if BARRIER
    __syncthreads();
#endif
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = v;
}

// Cells of 96 points: a block of 96 threads per cell, a point per thread, all points of 18 cells around.
__device__ float pull(float dx, float dy, float dz, float w) {
  float q = dx * dx + dy * dy + dz * dz;
  return q == 0 ? 0 : w * ROOT(q);
}
#define CELL 128
extern "C" __global__ void cell_plain(int points, const int *around, const float *p, float *out) {
  int n = points, i = blockIdx.x * CELL + threadIdx.x;
  float x = p[i], y = p[n + i], z = p[2 * n + i], sum = 0;
  for (int k = 0; k < 18; ++k) {
    int first = around[blockIdx.x * 18 + k] * CELL;
    for (int j = first; j < first + CELL; ++j)
      sum += pull(p[j] - x, p[n + j] - y, p[2 * n + j] - z, p[3 * n + j]);
  }
  out[i] = sum;
}
extern "C" __global__ void cell_packed(int points, const int *around, const float *p, float *out) {
  const float4 *q = (const float4 *)p;
  int i = blockIdx.x * CELL + threadIdx.x;
  float4 me = q[i];
  float sum = 0;
  for (int k = 0; k < 18; ++k) {
    int first = around[blockIdx.x * 18 + k] * CELL;
    for (int j = first; j < first + CELL; ++j) {
      float4 o = q[j];
      sum += pull(o.x - me.x, o.y - me.y, o.z - me.z, o.w);
    }
  }
  out[i] = sum;
}
extern "C" __global__ void cell_shared(int points, const int *around, const float *p, float *out) {
  __shared__ float s[4][CELL];
  int n = points, t = threadIdx.x, i = blockIdx.x * CELL + t;
  float x = p[i], y = p[n + i], z = p[2 * n + i], sum = 0;
  for (int k = 0; k < 18; ++k) {
    int first = around[blockIdx.x * 18 + k] * CELL;
    __syncthreads();
    for (int c = 0; c < 4; ++c)
      s[c][t] = p[c * n + first + t];
    __syncthreads();
    for (int j = 0; j < CELL; ++j)
      sum += pull(s[0][j] - x, s[1][j] - y, s[2][j] - z, s[3][j]);
  }
  out[i] = sum;
}
extern "C" __global__ void cell_two(int points, const int *around, const float *p, float *out) {
  int n = points, i = blockIdx.x * CELL + threadIdx.x, m = i + CELL / 2;
  float x = p[i], y = p[n + i], z = p[2 * n + i], sum = 0, u = p[m], v = p[n + m], w = p[2 * n + m], more = 0;
  for (int k = 0; k < 18; ++k) {
    int first = around[blockIdx.x * 18 + k] * CELL;
    for (int j = first; j < first + CELL; ++j) {
      float ox = p[j], oy = p[n + j], oz = p[2 * n + j], ow = p[3 * n + j];
      sum += pull(ox - x, oy - y, oz - z, ow);
      more += pull(ox - u, oy - v, oz - w, ow);
    }
  }
  out[i] = sum;
  out[m] = more;
}
// planes in shared memory, eight filters of five by five
extern "C" __global__ void filter_tiled(int planes, int n, const float *in, const float *w, float *out) {
  __shared__ float s[12][36], f8[8][25];
  int tx = threadIdx.x, ty = threadIdx.y, t = ty * 32 + tx, f = blockIdx.z * 8, m = n - 4;
  int x0 = blockIdx.x * 32, y0 = blockIdx.y * 8;
  float sum[8] = {};
  for (int c = 0; c < planes; ++c) {
    __syncthreads();
    for (int k = t; k < 12 * 36; k += 256)
      s[k / 36][k % 36] = in[(c * n + y0 + k / 36) * n + x0 + k % 36];
    if (t < 200)
      f8[t / 25][t % 25] = w[((f + t / 25) * planes + c) * 25 + t % 25];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 5; ++j)
#pragma unroll
      for (int i = 0; i < 5; ++i) {
        float v = s[ty + j][tx + i];
#pragma unroll
        for (int k = 0; k < 8; ++k)
          sum[k] += v * f8[k][j * 5 + i];
      }
  }
#pragma unroll
  for (int k = 0; k < 8; ++k)
    out[((f + k) * m + y0 + ty) * m + x0 + tx] = sum[k];
}
