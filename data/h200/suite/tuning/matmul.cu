// out = a b for square matrices of floats; a block makes a BM x BN tile, a thread TM x TN of it, BK of the sum at a
// time. n is a multiple of BM, BN and BK.
#ifndef BM
#define BM 64
#define BN 64
#define BK 16
#define TM 4
#define TN 4
#endif
#define COLUMNS (BN / TN)
#define THREADS (BM / TM * COLUMNS)

extern "C" __global__ void __launch_bounds__(THREADS) matmul(int n, const float *a, const float *b, float *out) {
  __shared__ float a_tile[BK][BM + 4], b_tile[BK][BN];
  int thread = threadIdx.x, x = thread % COLUMNS, y = thread / COLUMNS;
  const float *a_rows = a + blockIdx.y * BM * n;
  const float *b_columns = b + blockIdx.x * BN;
  float sum[TM][TN] = {};
  for (int at = 0; at < n; at += BK) {
#pragma unroll
    for (int i = thread; i < BM * BK; i += THREADS)
      a_tile[i % BK][i / BK] = a_rows[i / BK * n + at + i % BK];
#pragma unroll
    for (int i = thread; i < BK * BN; i += THREADS)
      b_tile[i / BN][i % BN] = b_columns[(at + i / BN) * n + i % BN];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      float left[TM], right[TN];
#pragma unroll
      for (int i = 0; i < TM; ++i)
        left[i] = a_tile[k][y * TM + i];
#pragma unroll
      for (int j = 0; j < TN; ++j)
        right[j] = b_tile[k][x + j * COLUMNS];
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j)
          sum[i][j] += left[i] * right[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < TM; ++i)
#pragma unroll
    for (int j = 0; j < TN; ++j)
      out[(blockIdx.y * BM + y * TM + i) * n + blockIdx.x * BN + x + j * COLUMNS] = sum[i][j];
}
