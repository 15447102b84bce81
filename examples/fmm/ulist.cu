// The U-list phase of the fast multipole method: every leaf's points feel all points of its neighbouring leaves.
// One block per leaf. Each macro that is 1 turns on an optimisation:
//   PREF     the next source is loaded before the present one is used
//   SHMEM    sources pass through shared memory, a tile at a time
//   UJAM     a thread follows two targets in one loop over the sources
//   TRANS    the tile in shared memory holds one point after the other, not one coordinate after the other
//   VECPACK  a point lies together and comes by one request of 128 bits
//   TIGHT    a point lies together and comes by four requests of 32 bits
//   RSQRT    the special-function unit's reciprocal square root in place of division and square root
#ifndef PREF
#define PREF 0
#endif
#ifndef SHMEM
#define SHMEM 0
#endif
#ifndef UJAM
#define UJAM 0
#endif
#ifndef TRANS
#define TRANS 0
#endif
#ifndef VECPACK
#define VECPACK 0
#endif
#ifndef TIGHT
#define TIGHT 0
#endif
#ifndef RSQRT
#define RSQRT 0
#endif

constexpr int LEAF = 128; // points of a leaf
constexpr int TILE = 64;  // threads of a block, and sources of a tile
constexpr int TARGETS = UJAM ? 2 : 1;

// Point i of n: its place in x, y, z and its density in w.
__device__ float4 point(const float *points, int n, int i) {
#if VECPACK
  return reinterpret_cast<const float4 *>(points)[i];
#elif TIGHT
  return make_float4(points[4 * i], points[4 * i + 1], points[4 * i + 2], points[4 * i + 3]);
#else
  return make_float4(points[i], points[n + i], points[2 * n + i], points[3 * n + i]);
#endif
}

// The potential of a source at a target; a point does not feel itself.
__device__ float potential(float4 source, float4 target) {
  float x = source.x - target.x, y = source.y - target.y, z = source.z - target.z;
  float square = x * x + y * y + z * z;
#if RSQRT
  float made = source.w * rsqrtf(square);
#else
  float made = source.w / sqrtf(square);
#endif
  return square > 0 ? made : 0;
}

#if SHMEM
struct Tile {
#if VECPACK
  float4 points[TILE];
  __device__ void put(int i, float4 p) { points[i] = p; }
  __device__ float4 get(int i) const { return points[i]; }
#elif TRANS || TIGHT
  float values[TILE][4];
  __device__ void put(int i, float4 p) {
    values[i][0] = p.x;
    values[i][1] = p.y;
    values[i][2] = p.z;
    values[i][3] = p.w;
  }
  __device__ float4 get(int i) const { return make_float4(values[i][0], values[i][1], values[i][2], values[i][3]); }
#else
  float values[4][TILE];
  __device__ void put(int i, float4 p) {
    values[0][i] = p.x;
    values[1][i] = p.y;
    values[2][i] = p.z;
    values[3][i] = p.w;
  }
  __device__ float4 get(int i) const { return make_float4(values[0][i], values[1][i], values[2][i], values[3][i]); }
#endif
};
#endif

extern "C" __global__ void ulist(int n, int neighbours, const int *lists, const float *points, float *out) {
  const int *list = lists + blockIdx.x * neighbours;
  for (int t = threadIdx.x; t < LEAF; t += TARGETS * TILE) {
    float4 target[TARGETS];
    float sum[TARGETS];
#pragma unroll
    for (int j = 0; j < TARGETS; ++j) {
      target[j] = point(points, n, blockIdx.x * LEAF + t + j * TILE);
      sum[j] = 0;
    }
#if SHMEM
    __shared__ Tile tile;
#if PREF
    float4 next = point(points, n, list[0] * LEAF + threadIdx.x);
#endif
    for (int u = 0; u < neighbours; ++u)
      for (int first = 0; first < LEAF; first += TILE) {
#if PREF
        float4 mine = next;
#else
        float4 mine = point(points, n, list[u] * LEAF + first + threadIdx.x);
#endif
        __syncthreads();
        tile.put(threadIdx.x, mine);
        __syncthreads();
#if PREF
        if (first + TILE < LEAF)
          next = point(points, n, list[u] * LEAF + first + TILE + threadIdx.x);
        else if (u + 1 < neighbours)
          next = point(points, n, list[u + 1] * LEAF + threadIdx.x);
#endif
        for (int s = 0; s < TILE; ++s) {
          float4 source = tile.get(s);
#pragma unroll
          for (int j = 0; j < TARGETS; ++j)
            sum[j] += potential(source, target[j]);
        }
      }
#else
    for (int u = 0; u < neighbours; ++u) {
      int first = list[u] * LEAF;
#if PREF
      float4 next = point(points, n, first);
#endif
      for (int s = 0; s < LEAF; ++s) {
#if PREF
        float4 source = next;
        if (s + 1 < LEAF)
          next = point(points, n, first + s + 1);
#else
        float4 source = point(points, n, first + s);
#endif
#pragma unroll
        for (int j = 0; j < TARGETS; ++j)
          sum[j] += potential(source, target[j]);
      }
    }
#endif
#pragma unroll
    for (int j = 0; j < TARGETS; ++j)
      out[blockIdx.x * LEAF + t + j * TILE] = sum[j];
  }
}
