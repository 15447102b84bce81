// The acceleration of every body by all bodies (x, y, z, mass); a thread has EACH bodies, and the others come THREADS at
// a time through shared memory, or straight from memory. n is a multiple of THREADS * EACH.
#ifndef THREADS
#define THREADS 256
#define EACH 1
#define UNROLL 4
#define SHARED 1
#endif

extern "C" __global__ void __launch_bounds__(THREADS) nbody(int n, const float4 *bodies, float4 *out) {
  __shared__ float4 tile[THREADS];
  int first = blockIdx.x * THREADS * EACH + threadIdx.x;
  float4 mine[EACH], sum[EACH];
#pragma unroll
  for (int e = 0; e < EACH; ++e) {
    mine[e] = bodies[first + e * THREADS];
    sum[e] = make_float4(0, 0, 0, 0);
  }
  for (int at = 0; at < n; at += THREADS) {
#if SHARED
    __syncthreads();
    tile[threadIdx.x] = bodies[at + threadIdx.x];
    __syncthreads();
#endif
#pragma unroll UNROLL
    for (int i = 0; i < THREADS; ++i) {
      float4 other = SHARED ? tile[i] : bodies[at + i];
#pragma unroll
      for (int e = 0; e < EACH; ++e) {
        float x = other.x - mine[e].x, y = other.y - mine[e].y, z = other.z - mine[e].z;
        float inverse = rsqrtf(x * x + y * y + z * z + 1e-3f);
        float pull = other.w * inverse * inverse * inverse;
        sum[e].x += pull * x;
        sum[e].y += pull * y;
        sum[e].z += pull * z;
      }
    }
  }
#pragma unroll
  for (int e = 0; e < EACH; ++e)
    out[first + e * THREADS] = sum[e];
}
