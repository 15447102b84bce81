// More pairs of kernels, before and after one optimisation by hand; pairs.py says how they are launched.
#ifndef TILE
#define TILE 16
#endif
#ifndef PAD
#define PAD 0
#endif
#ifndef POWER
#define POWER(q) (1.0f / (sqrtf(q) * (q)))
#endif
#ifndef BLOCK
#define BLOCK 512
#endif

// The largest element of each stretch: a tree over the block, in steps.
__device__ float at_most(const float *x, int i, int n) { return i < n ? x[i] : -1e30f; }
__device__ float warp_largest(const float *s, int lane) {
  float v = fmaxf(s[lane], s[lane + 32]);
#pragma unroll
  for (int d = 16; d > 0; d /= 2)
    v = fmaxf(v, __shfl_down_sync(~0u, v, d));
  return v;
}
template <int STEP> __device__ void largest(int n, const float *x, float *out) {
  __shared__ float s[BLOCK];
  int t = threadIdx.x;
  if (STEP == 1)
    s[t] = at_most(x, blockIdx.x * BLOCK + t, n);
  else if (STEP < 5)
    s[t] = fmaxf(at_most(x, blockIdx.x * 2 * BLOCK + t, n), at_most(x, blockIdx.x * 2 * BLOCK + t + BLOCK, n));
  else {
    float v = -1e30f;
    for (int i = blockIdx.x * 2 * BLOCK + t; i < n; i += 2 * BLOCK * gridDim.x)
      v = fmaxf(v, fmaxf(x[i], at_most(x, i + BLOCK, n)));
    s[t] = v;
  }
  __syncthreads();
  if (STEP >= 4) {
#pragma unroll
    for (int d = BLOCK / 2; d > 32; d /= 2) {
      if (t < d)
        s[t] = fmaxf(s[t], s[t + d]);
      __syncthreads();
    }
  } else
    for (int d = blockDim.x / 2; d > (STEP == 3 ? 32 : 0); d /= 2) {
      if (t < d)
        s[t] = fmaxf(s[t], s[t + d]);
      __syncthreads();
    }
  if (STEP >= 3 && t < 32) {
    float v = warp_largest(s, t);
    if (t == 0)
      out[blockIdx.x] = v;
  }
  if (STEP < 3 && t == 0)
    out[blockIdx.x] = s[0];
}
extern "C" __global__ void largest1(int n, const float *x, float *o) { largest<1>(n, x, o); }
extern "C" __global__ void largest2(int n, const float *x, float *o) { largest<2>(n, x, o); }
extern "C" __global__ void largest3(int n, const float *x, float *o) { largest<3>(n, x, o); }
extern "C" __global__ void largest4(int n, const float *x, float *o) { largest<4>(n, x, o); }
extern "C" __global__ void largest5(int n, const float *x, float *o) { largest<5>(n, x, o); }

// C = A B + C in double precision or single: a result per thread, tiles, squares of results.
#ifndef REAL
#define REAL float
#endif
extern "C" __global__ void ab_naive(int n, const REAL *a, const REAL *b, REAL *c) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  REAL sum = c[y * n + x];
  for (int k = 0; k < n; ++k)
    sum += a[y * n + k] * b[k * n + x];
  c[y * n + x] = sum;
}
extern "C" __global__ void ab_tiled(int n, const REAL *a, const REAL *b, REAL *c) {
  __shared__ REAL sa[TILE][TILE + PAD], sb[TILE][TILE];
  int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * TILE + tx, y = blockIdx.y * TILE + ty;
  REAL sum = c[y * n + x];
  for (int k0 = 0; k0 < n; k0 += TILE) {
    sa[ty][tx] = a[y * n + k0 + tx];
    sb[ty][tx] = b[(k0 + ty) * n + x];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; ++k)
      sum += sa[ty][k] * sb[k][tx];
    __syncthreads();
  }
  c[y * n + x] = sum;
}
// 2 x 2 results per thread
extern "C" __global__ void ab_two(int n, const REAL *a, const REAL *b, REAL *c) {
  __shared__ REAL sa[TILE][2 * TILE + 1], sb[TILE][2 * TILE];
  int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * 2 * TILE, y = blockIdx.y * 2 * TILE;
  REAL sum[2][2] = {};
  for (int k0 = 0; k0 < n; k0 += TILE) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      sa[tx][ty + h * TILE] = a[(y + ty + h * TILE) * n + k0 + tx];
      sb[ty][tx + h * TILE] = b[(k0 + ty) * n + x + tx + h * TILE];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; ++k) {
      REAL p[2] = {sa[k][2 * ty], sa[k][2 * ty + 1]}, q[2] = {sb[k][2 * tx], sb[k][2 * tx + 1]};
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j)
          sum[i][j] += p[i] * q[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j)
      c[(y + 2 * ty + i) * n + x + 2 * tx + j] += sum[i][j];
}
// 8 x 8 results per thread, 128 x 128 per block of 256, eight deep
extern "C" __global__ void __launch_bounds__(256) ab_eight(int n, const float *a, const float *b, float *c) {
  __shared__ __align__(16) float sa[8][128 + 4], sb[8][128];
  int t = threadIdx.x, across = t % 16 * 4, down = t / 16 * 4;
  float sum[8][8] = {};
  for (int k0 = 0; k0 < n; k0 += 8) {
    float4 u = *(const float4 *)&a[(blockIdx.y * 128 + t / 2) * n + k0 + t % 2 * 4];
    float4 v = *(const float4 *)&b[(k0 + t / 32) * n + blockIdx.x * 128 + t % 32 * 4];
    int r = t % 2 * 4;
    sa[r][t / 2] = u.x; sa[r + 1][t / 2] = u.y; sa[r + 2][t / 2] = u.z; sa[r + 3][t / 2] = u.w;
    *(float4 *)&sb[t / 32][t % 32 * 4] = v;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      float4 left[2] = {*(float4 *)&sa[k][down], *(float4 *)&sa[k][64 + down]};
      float4 right[2] = {*(float4 *)&sb[k][across], *(float4 *)&sb[k][64 + across]};
      const float *p = (const float *)left, *q = (const float *)right;
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
          sum[i][j] += p[i] * q[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float4 *to = (float4 *)&c[(blockIdx.y * 128 + i / 4 * 64 + down + i % 4) * n + blockIdx.x * 128 + h * 64 + across];
      float4 o = *to;
      *to = make_float4(o.x + sum[i][4 * h], o.y + sum[i][4 * h + 1], o.z + sum[i][4 * h + 2], o.w + sum[i][4 * h + 3]);
    }
}
// a tile that lies on its side, and upright
extern "C" __global__ void ab_side(int n, const float *a, const float *b, float *c) {
  __shared__ float sa[TILE][TILE], sb[TILE][TILE];
  int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * TILE + tx, y = blockIdx.y * TILE + ty;
  float sum = c[y * n + x];
  for (int k0 = 0; k0 < n; k0 += TILE) {
    sa[ty][tx] = a[y * n + k0 + tx];
    sb[tx][ty] = b[(k0 + ty) * n + x];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; ++k)
      sum += sa[ty][k] * sb[tx][k];
    __syncthreads();
  }
  c[y * n + x] = sum;
}

// A matrix turned round, of pairs: uncoalesced loads, coalesced stores; then by a tile, four elements per thread.
extern "C" __global__ void turn2_naive(int w, int h, const float2 *in, float2 *out) {
  int y = blockIdx.x * blockDim.x + threadIdx.x, x = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < w && y < h)
    out[x * h + y] = in[y * w + x];
}
extern "C" __global__ void turn2_tiled(int w, int h, const float2 *in, float2 *out) {
  __shared__ float2 tile[32][32 + PAD];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32;
  for (int r = threadIdx.y; r < 32; r += 8)
    if (x < w && y + r < h)
      tile[r][threadIdx.x] = in[(y + r) * w + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32;
  for (int r = threadIdx.y; r < 32; r += 8)
    if (x < h && y + r < w)
      out[(y + r) * h + x] = tile[threadIdx.x][r];
}

// Blocks of 96 threads with twice as many points in a plane: all points of 24 groups pull at them.
#define GROUP 96
#define LANES 96
__device__ float3 spot(const float *p, int n, int i) { return make_float3(p[i], p[n + i], p[2 * n + i]); }
__device__ float drawn(float3 s, float3 me) {
  float x = s.x - me.x, y = s.y - me.y, q = x * x + y * y;
  float made = s.z * POWER(q);
  return q > 0 ? made : 0;
}
template <int AT_ONCE, bool AHEAD> __device__ void group(int n, int around, const int *list, const float *p, float *out) {
  for (int t = threadIdx.x; t < 2 * GROUP; t += AT_ONCE * LANES) {
    float3 me[AT_ONCE];
    float sum[AT_ONCE];
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j) {
      me[j] = spot(p, n, blockIdx.x * 2 * GROUP + t + j * LANES);
      sum[j] = 0;
    }
    for (int u = 0; u < around; ++u) {
      int first = list[blockIdx.x * around + u] * GROUP;
      float3 next = spot(p, n, first);
      for (int k = 0; k < GROUP; ++k) {
        float3 now = AHEAD ? next : spot(p, n, first + k);
        if (AHEAD && k + 1 < GROUP)
          next = spot(p, n, first + k + 1);
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j)
          sum[j] += drawn(now, me[j]);
      }
    }
#pragma unroll
    for (int j = 0; j < AT_ONCE; ++j)
      out[blockIdx.x * 2 * GROUP + t + j * LANES] = sum[j];
  }
}
extern "C" __global__ void group_plain(int n, int m, const int *l, const float *p, float *o) { group<1, false>(n, m, l, p, o); }
extern "C" __global__ void group_two(int n, int m, const int *l, const float *p, float *o) { group<2, false>(n, m, l, p, o); }
extern "C" __global__ void group_ahead(int n, int m, const int *l, const float *p, float *o) { group<1, true>(n, m, l, p, o); }
extern "C" __global__ void group_shared(int n, int around, const int *list, const float *p, float *out) {
  __shared__ float s[3][LANES];
  for (int t = threadIdx.x; t < 2 * GROUP; t += LANES) {
    float3 me = spot(p, n, blockIdx.x * 2 * GROUP + t);
    float sum = 0;
    for (int u = 0; u < around; ++u)
      for (int first = 0; first < GROUP; first += LANES) {
        float3 mine = spot(p, n, list[blockIdx.x * around + u] * GROUP + first + threadIdx.x);
        __syncthreads();
        s[0][threadIdx.x] = mine.x; s[1][threadIdx.x] = mine.y; s[2][threadIdx.x] = mine.z;
        __syncthreads();
        for (int k = 0; k < LANES; ++k)
          sum += drawn(make_float3(s[0][k], s[1][k], s[2][k]), me);
      }
    out[blockIdx.x * 2 * GROUP + t] = sum;
  }
}
extern "C" __global__ void group_packed(int n, int around, const int *list, const float *p, float *out) {
  const float4 *points = (const float4 *)p;
  for (int t = threadIdx.x; t < 2 * GROUP; t += LANES) {
    float4 own = points[blockIdx.x * 2 * GROUP + t];
    float3 me = make_float3(own.x, own.y, own.z);
    float sum = 0;
    for (int u = 0; u < around; ++u) {
      int first = list[blockIdx.x * around + u] * GROUP;
      for (int k = 0; k < GROUP; ++k) {
        float4 o = points[first + k];
        sum += drawn(make_float3(o.x, o.y, o.z), me);
      }
    }
    out[blockIdx.x * 2 * GROUP + t] = sum;
  }
}

// Values by class: one atomic each on global memory; on shared memory first.
#ifndef CLASSES
#define CLASSES 200
#endif
extern "C" __global__ void sums_global(int n, const unsigned char *kind, const float *x, float *sum) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    atomicAdd(&sum[kind[i] % CLASSES], x[i]);
}
extern "C" __global__ void sums_private(int n, const unsigned char *kind, const float *x, float *sum) {
  __shared__ float s[CLASSES];
  for (int k = threadIdx.x; k < CLASSES; k += blockDim.x) s[k] = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    atomicAdd(&s[kind[i] % CLASSES], x[i]);
  __syncthreads();
  for (int k = threadIdx.x; k < CLASSES; k += blockDim.x) atomicAdd(&sum[k], s[k]);
}
extern "C" __global__ void words_global(int n, const unsigned *x, unsigned *count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&count[x[i] >> 16 & 1023], 1u);
}
extern "C" __global__ void words_private(int n, const unsigned *x, unsigned *count) {
  __shared__ unsigned s[1024];
  for (int k = threadIdx.x; k < 1024; k += blockDim.x) s[k] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&s[x[i] >> 16 & 1023], 1u);
  __syncthreads();
  for (int k = threadIdx.x; k < 1024; k += blockDim.x) if (s[k]) atomicAdd(&count[k], s[k]);
}

// Rows of 768 scaled to length one: a block per row that reads twice; a warp per row, kept in registers.
extern "C" __global__ void unit_block(int columns, const float *in, float *out) {
  __shared__ float parts[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  in += (size_t)blockIdx.x * columns;
  out += (size_t)blockIdx.x * columns;
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += in[i] * in[i];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
  if (lane == 0) parts[warp] = sum;
  __syncthreads();
  sum = lane < warps ? parts[lane] : 0;
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
  float factor = rsqrtf(sum);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[i] = in[i] * factor;
}
extern "C" __global__ void unit_warp(int rows, const float4 *in, float4 *out) {
  int r = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (r >= rows) return;
  float4 v[6];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 6; ++i) {
    v[i] = in[r * 192 + i * 32 + lane];
    sum += v[i].x * v[i].x + v[i].y * v[i].y + v[i].z * v[i].z + v[i].w * v[i].w;
  }
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
  float factor = rsqrtf(sum);
#pragma unroll
  for (int i = 0; i < 6; ++i)
    out[r * 192 + i * 32 + lane] = make_float4(v[i].x * factor, v[i].y * factor, v[i].z * factor, v[i].w * factor);
}

// Waves in space: the point, its six neighbours and the step before; then a tile that marches through eight planes.
extern "C" __global__ void wave_naive(int w, int h, int d, const float *in, const float *old, float *out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
  if (x >= w || y >= h) return;
  int p = w * h, i = z * p + y * w + x;
  float c = in[i], made = c;
  if (x > 0 && x < w - 1 && y > 0 && y < h - 1 && z > 0 && z < d - 1)
    made = 2 * c - old[i] + 0.1f * (in[i - 1] + in[i + 1] + in[i - w] + in[i + w] + in[i - p] + in[i + p] - 6 * c);
  out[i] = made;
}
extern "C" __global__ void wave_tiled(int w, int h, int d, const float *in, const float *old, float *out) {
  __shared__ float s[10][34];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, p = w * h, u = threadIdx.x + 1, v = threadIdx.y + 1;
  bool there = x < w && y < h, inner = x > 0 && x < w - 1 && y > 0 && y < h - 1;
  int z = blockIdx.z * 8, end = min(z + 8, d), i = z * p + y * w + x;
  float low = there && z > 0 ? in[i - p] : 0, c = there ? in[i] : 0;
  for (; z < end; ++z, i += p) {
    float high = there && z < d - 1 ? in[i + p] : 0;
    __syncthreads();
    s[v][u] = c;
    if (threadIdx.x == 0 && there && x > 0) s[v][0] = in[i - 1];
    if (threadIdx.x == 31 && x < w - 1 && y < h) s[v][33] = in[i + 1];
    if (threadIdx.y == 0 && there && y > 0) s[0][u] = in[i - w];
    if (threadIdx.y == 7 && x < w && y < h - 1) s[9][u] = in[i + w];
    __syncthreads();
    float made = c;
    if (inner && z > 0 && z < d - 1)
      made = 2 * c - old[i] + 0.1f * (s[v][u - 1] + s[v][u + 1] + s[v - 1][u] + s[v + 1][u] + low + high - 6 * c);
    if (there) out[i] = made;
    low = c;
    c = high;
  }
}

// Seven-point rows over channels (one dimension): a filter per thread and result; a tile and eight filters at once.
extern "C" __global__ void row_one(int planes, int n, const float *in, const float *w, float *out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, f = blockIdx.y, m = n - 6;
  if (x >= m) return;
  const float *c = w + f * planes * 7;
  float sum = 0;
  for (int k = 0; k < planes; ++k, c += 7) {
    const float *from = in + k * n + x;
#pragma unroll
    for (int i = 0; i < 7; ++i)
      sum += from[i] * c[i];
  }
  out[f * m + x] = sum;
}
extern "C" __global__ void row_eight(int planes, int n, const float *in, const float *w, float *out) {
  __shared__ float s[128 + 6], c[8][7];
  int t = threadIdx.x, x0 = blockIdx.x * 128, f = blockIdx.y * 8, m = n - 6;
  float sum[8] = {};
  for (int k = 0; k < planes; ++k) {
    __syncthreads();
    for (int i = t; i < 134; i += 128) s[i] = in[k * n + min(x0 + i, n - 1)];
    if (t < 56) c[t / 7][t % 7] = w[((f + t / 7) * planes + k) * 7 + t % 7];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 7; ++i) {
      float v = s[t + i];
#pragma unroll
      for (int j = 0; j < 8; ++j) sum[j] += v * c[j][i];
    }
  }
  if (x0 + t < m)
    for (int j = 0; j < 8; ++j) out[(f + j) * m + x0 + t] = sum[j];
}

// y = a x + y in double and single precision; with shared memory that nobody needs.
extern "C" __global__ void axpy64(double a, const double2 *x, double2 *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  double2 u = x[i], v = y[i];
  y[i] = make_double2(a * u.x + v.x, a * u.y + v.y);
}
extern "C" __global__ void axpy32(float a, const float4 *x, float4 *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 u = x[i], v = y[i];
  y[i] = make_float4(a * u.x + v.x, a * u.y + v.y, a * u.z + v.z, a * u.w + v.w);
}
extern "C" __global__ void axpy_one(float a, const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = a * x[i] + y[i];
}
extern __shared__ float hog[];
extern "C" __global__ void axpy_hog(float a, const float4 *x, float4 *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 u = x[i], v = y[i];
  if (a == 12345.0f) hog[threadIdx.x] = u.x;
  y[i] = make_float4(a * u.x + v.x, a * u.y + v.y, a * u.z + v.z, a * u.w + v.w);
}

// The logistic map from every start: steps of a loop not unrolled, and unrolled.
#ifndef STEPS
#define STEPS 1
#endif
extern "C" __global__ void logistic(int n, float r, const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
#pragma unroll STEPS
  for (int k = 0; k < n; ++k)
    v = r * v * (1 - v);
  y[i] = v;
}
// a polynomial whose loop looks up each coefficient: constant memory
__constant__ float kept[64];
extern "C" __global__ void horner(int n, const float *c, const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i], sum = 0;
#pragma unroll 4
  for (int k = 0; k < n; ++k)
#ifdef CONSTANT
    sum = sum * v + kept[k];
#else
    sum = sum * v + c[k];
#endif
  y[i] = sum;
}
// a flame of exponentials, powers and quotients: exact, and by the special-function unit
extern "C" __global__ void decay(float rate, const float *t, const float *a, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = t[i], w = a[i];
#ifdef FAST
  y[i] = __fdividef(w * __expf(-rate * v), 1 + __logf(1 + w));
#else
  y[i] = w * expf(-rate * v) / (1 + logf(1 + w));
#endif
}
// rows and columns of a number, by a variable width: by division, or a grid in two dimensions
extern "C" __global__ void shear(int width, const float *in, float *out) {
#ifdef PLANE
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
#else
  int i = blockIdx.x * blockDim.x + threadIdx.x, x = i % width, y = i / width;
#endif
  out[y * width + x] = in[y * width + x] + x * 0.5f + y;
}
// a sum in shared memory, with a barrier behind every step or none
extern "C" __global__ void relay(int n, float *out) {
  __shared__ float s[256];
  float v = threadIdx.x;
  for (int i = 0; i < n; ++i) {
    s[threadIdx.x] = v;
    v = v * 0.5f + s[threadIdx.x ^ 1];
#ifdef BARRIER
    __syncthreads();
#else
    __syncwarp();
#endif
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
// every second thread works, or the first half of them
extern "C" __global__ void halves(int n, const float *x, float *y) {
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
#ifdef TOGETHER
  if (t < blockDim.x / 2) {
    i = blockIdx.x * blockDim.x + 2 * t;
#else
  if (t % 2 == 0) {
#endif
    float v = x[i];
    for (int k = 0; k < n; ++k) v = sinf(v) * 1.5f;
    y[i] = v;
  }
}
// a chain of multiply-adds: one, two side by side
#ifndef CHAINS
#define CHAINS 1
#endif
extern "C" __global__ void chains(int n, double a, double b, double *out) {
  double v[CHAINS];
#pragma unroll
  for (int c = 0; c < CHAINS; ++c) v[c] = threadIdx.x + c;
  for (int k = 0; k < n; k += CHAINS)
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) v[c] = v[c] * a + b;
  double sum = 0;
#pragma unroll
  for (int c = 0; c < CHAINS; ++c) sum += v[c];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// a matrix times a vector: a thread per row, with the matrix as it is, or turned
extern "C" __global__ void gemv_rows(int n, const float *a, const float *x, float *y) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[(size_t)r * n + k] * x[k];
  y[r] = sum;
}
extern "C" __global__ void gemv_columns(int rows, int n, const float *a, const float *x, float *y) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[(size_t)k * rows + r] * x[k];
  y[r] = sum;
}
// records of four floats of which one is needed: apart, together
extern "C" __global__ void field(int n, const float *records, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef APART
  out[i] = sqrtf(records[i]);
#else
  out[i] = sqrtf(records[4 * i]);
#endif
}
