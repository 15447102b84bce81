// Gravity between all pairs of bodies: a tile of bodies in shared memory serves all threads of a block.
// Stresses fp32 and the reciprocal square root of the special-function unit. n is a multiple of the block.
#ifndef TILE
#define TILE 256
#endif

extern "C" __global__ void __launch_bounds__(TILE) nbody(int n, float softening, const float4 *bodies, float4 *out) {
  __shared__ float4 tile[TILE];
  int i = blockIdx.x * TILE + threadIdx.x;
  float4 me = bodies[i];
  float x = 0, y = 0, z = 0;
  for (int start = 0; start < n; start += TILE) {
    __syncthreads();
    tile[threadIdx.x] = bodies[start + threadIdx.x];
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < TILE; j++) {
      float4 other = tile[j];
      float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
      float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
      float pull = other.w * inverse * inverse * inverse;
      x += pull * dx;
      y += pull * dy;
      z += pull * dz;
    }
  }
  out[i] = make_float4(x, y, z, 0);
}
