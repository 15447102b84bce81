// Batch of small products C = A B by tiles of 16 x 16 in shared memory; blockIdx.z is the batch, edges are ragged.
extern "C" __global__ void bmm16(int m, int n, int k, const float *__restrict__ a, const float *__restrict__ b,
                                 float *__restrict__ out) {
  __shared__ float ta[16][16], tb[16][17];
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  a += (size_t)blockIdx.z * m * k;
  b += (size_t)blockIdx.z * k * n;
  float sum = 0.0f;
  for (int k0 = 0; k0 < k; k0 += 16) {
    ta[threadIdx.y][threadIdx.x] = y < m && k0 + threadIdx.x < k ? a[y * k + k0 + threadIdx.x] : 0.0f;
    tb[threadIdx.y][threadIdx.x] = x < n && k0 + threadIdx.y < k ? b[(k0 + threadIdx.y) * n + x] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; i++)
      sum += ta[threadIdx.y][i] * tb[i][threadIdx.x];
    __syncthreads();
  }
  if (x < n && y < m)
    out[(size_t)blockIdx.z * m * n + y * n + x] = sum;
}
