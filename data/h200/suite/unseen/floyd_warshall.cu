// Blocked Floyd-Warshall, third phase: every 64 x 64 tile by the tiles of the pivot's column and row; 4 x 4 per thread.
#define B 64
#define KB 16
extern "C" __global__ void __launch_bounds__(256) floyd_warshall(int n, int pivot, float *dist) {
  __shared__ float left[KB][B + 4];
  __shared__ float top[KB][B];
  int bi = blockIdx.y, bj = blockIdx.x;
  if (bi == pivot || bj == pivot)
    return;
  int tid = threadIdx.x, tx = tid % 16, ty = tid / 16;
  float d[4][4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    float4 v = *(const float4 *)&dist[(size_t)(bi * B + ty * 4 + i) * n + bj * B + tx * 4];
    d[i][0] = v.x; d[i][1] = v.y; d[i][2] = v.z; d[i][3] = v.w;
  }
  for (int k0 = 0; k0 < B; k0 += KB) {
    {
      int r = tid / 4, k = tid % 4 * 4;
      float4 v = *(const float4 *)&dist[(size_t)(bi * B + r) * n + pivot * B + k0 + k];
      left[k][r] = v.x; left[k + 1][r] = v.y; left[k + 2][r] = v.z; left[k + 3][r] = v.w;
      *(float4 *)&top[tid / 16][tx * 4] = *(const float4 *)&dist[(size_t)(pivot * B + k0 + tid / 16) * n + bj * B + tx * 4];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < KB; k++) {
      float a[4], b[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        a[i] = left[k][ty * 4 + i];
        b[i] = top[k][tx * 4 + i];
      }
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
          d[i][j] = fminf(d[i][j], a[i] + b[j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
    *(float4 *)&dist[(size_t)(bi * B + ty * 4 + i) * n + bj * B + tx * 4] = make_float4(d[i][0], d[i][1], d[i][2], d[i][3]);
}
