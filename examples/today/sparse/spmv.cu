// A sparse matrix in CSR times a vector: one thread per row (scalar) or one warp per row (vector).
// Row r begins at mean * r + jitter[r], so that rows are unequal and lie close. With SKEW, 64 rows share 64 * mean
// elements by the cube: the last of them has three times the mean, the first nearly nothing.
// Stresses uncoalesced reads (scalar), idle lanes (vector), random reads of the vector, uneven warps.
__device__ int row_start(int row, int mean, const int *jitter) {
#ifdef SKEW
  long long j = row % 64;
  return row / 64 * 64 * mean + (int)(64 * mean * j * j * j >> 18) + jitter[row];
#else
  return mean * row + jitter[row];
#endif
}

extern "C" __global__ void spmv_scalar(int rows, int mean, const int *jitter, const int *columns, const float *values,
                                       const float *x, float *out) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows)
    return;
  float sum = 0;
  int end = row_start(row + 1, mean, jitter);
  for (int i = row_start(row, mean, jitter); i < end; i++)
    sum += values[i] * x[columns[i]];
  out[row] = sum;
}

extern "C" __global__ void spmv_vector(int rows, int mean, const int *jitter, const int *columns, const float *values,
                                       const float *x, float *out) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows)
    return;
  float sum = 0;
  int end = row_start(row + 1, mean, jitter);
  for (int i = row_start(row, mean, jitter) + lane; i < end; i += 32)
    sum += values[i] * x[columns[i]];
  for (int step = 16; step > 0; step /= 2)
    sum += __shfl_xor_sync(0xFFFFFFFF, sum, step);
  if (lane == 0)
    out[row] = sum;
}
