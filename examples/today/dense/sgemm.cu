// C = A B in single precision, all row by row; sizes are multiples of the tiles.
// tiled: 32 x 32 tiles in shared memory, four elements of C per thread. Stresses shared memory.
// blocked: BM x BN tiles, 8 x 8 elements of C per thread in registers, 128-bit accesses. Stresses fp32 at low occupancy.
#ifndef BM
#define BM 128
#define BN 64
#endif
constexpr int TILE = 32, BK = 8;
constexpr int THREADS = BM / 8 * BN / 8;

extern "C" __global__ void sgemm_tiled(int m, int n, int k, const float *a, const float *b, float *out) {
  __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
  int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
  float sums[4] = {};
  for (int start = 0; start < k; start += TILE) {
    for (int i = 0; i < 4; i++) {
      tile_a[threadIdx.y + 8 * i][threadIdx.x] = a[(row + 8 * i) * k + start + threadIdx.x];
      tile_b[threadIdx.y + 8 * i][threadIdx.x] = b[(start + threadIdx.y + 8 * i) * n + column];
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < TILE; j++)
      for (int i = 0; i < 4; i++)
        sums[i] += tile_a[threadIdx.y + 8 * i][j] * tile_b[j][threadIdx.x];
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    out[(row + 8 * i) * n + column] = sums[i];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sgemm_blocked(int m, int n, int k, const float *a, const float *b, float *out) {
  __shared__ __align__(16) float tile_a[BK][BM + 4]; // turned, so that a thread's rows are neighbours
  __shared__ __align__(16) float tile_b[BK][BN];
  int t = threadIdx.x, across = t % (BN / 8) * 4, down = t / (BN / 8) * 4;
  a += blockIdx.y * BM * k;
  b += blockIdx.x * BN;
  float sums[8][8] = {};
  for (int start = 0; start < k; start += BK) {
    for (int i = t; i < BM * BK / 4; i += THREADS) {
      float4 v = *(const float4 *)(a + i / 2 * k + start + i % 2 * 4);
      tile_a[i % 2 * 4][i / 2] = v.x;
      tile_a[i % 2 * 4 + 1][i / 2] = v.y;
      tile_a[i % 2 * 4 + 2][i / 2] = v.z;
      tile_a[i % 2 * 4 + 3][i / 2] = v.w;
    }
    for (int i = t; i < BN * BK / 4; i += THREADS)
      *(float4 *)&tile_b[i / (BN / 4)][i % (BN / 4) * 4] =
          *(const float4 *)(b + (start + i / (BN / 4)) * n + i % (BN / 4) * 4);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < BK; j++) {
      float4 left[2] = {*(float4 *)&tile_a[j][down], *(float4 *)&tile_a[j][BM / 2 + down]};
      float4 right[2] = {*(float4 *)&tile_b[j][across], *(float4 *)&tile_b[j][BN / 2 + across]};
      const float *rows = (const float *)left, *columns = (const float *)right;
#pragma unroll
      for (int r = 0; r < 8; r++)
#pragma unroll
        for (int c = 0; c < 8; c++)
          sums[r][c] += rows[r] * columns[c];
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < 8; r++) {
    float *to = out + (blockIdx.y * BM + r / 4 * (BM / 2) + down + r % 4) * n + blockIdx.x * BN + across;
    *(float4 *)to = make_float4(sums[r][0], sums[r][1], sums[r][2], sums[r][3]);
    *(float4 *)(to + BN / 2) = make_float4(sums[r][4], sums[r][5], sums[r][6], sums[r][7]);
  }
}
