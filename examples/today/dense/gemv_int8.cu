// A matrix of signed bytes times a vector of signed bytes, one warp per row, sixteen products per 128-bit load.
// Stresses DRAM or L2 bandwidth and the byte products (dp4a). Columns are a multiple of 512.
extern "C" __global__ void gemv_int8(int rows, int columns, const signed char *matrix, const signed char *vector,
                                     int *out) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows)
    return;
  const int4 *from = (const int4 *)(matrix + (long long)row * columns), *with = (const int4 *)vector;
  int sum = 0;
#pragma unroll 4
  for (int i = lane; i < columns / 16; i += 32) {
    int4 a = from[i], b = with[i];
    sum = __dp4a(a.x, b.x, __dp4a(a.y, b.y, __dp4a(a.z, b.z, __dp4a(a.w, b.w, sum))));
  }
  for (int step = 16; step > 0; step /= 2)
    sum += __shfl_xor_sync(0xFFFFFFFF, sum, step);
  if (lane == 0)
    out[row] = sum;
}
