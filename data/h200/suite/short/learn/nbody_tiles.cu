// Accelerations of n bodies, by tiles of blockDim bodies in shared memory; blockIdx.y takes its share of the sources.
extern "C" __global__ void nbody_tiles(int n, int share, float soft, const float4 *__restrict__ body,
                                       float *__restrict__ out_acc) {
  extern __shared__ float4 tile[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 me = body[i];
  float ax = 0.0f, ay = 0.0f, az = 0.0f;
  int first = blockIdx.y * share;
  for (int t = first; t < first + share; t += blockDim.x) {
    tile[threadIdx.x] = body[t + threadIdx.x];
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < (int)blockDim.x; j++) {
      float4 b = tile[j];
      float dx = b.x - me.x, dy = b.y - me.y, dz = b.z - me.z;
      float r2 = dx * dx + dy * dy + dz * dz + soft;
      float r = rsqrtf(r2);
      float f = b.w * r * r * r;
      ax += f * dx;
      ay += f * dy;
      az += f * dz;
    }
    __syncthreads();
  }
  if (i < n) {
    atomicAdd(out_acc + i, ax);
    atomicAdd(out_acc + n + i, ay);
    atomicAdd(out_acc + 2 * n + i, az);
  }
}
