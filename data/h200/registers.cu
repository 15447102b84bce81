// One kernel with many live values, for the occupancy table: registers/N.cubin is this by NVRTC 13.4 for sm_90 with
// --maxrregcount=N and -DRANGE=N-12 (N up to 64) or N-14 (above).
extern "C" __global__ void pressure(float *p, int n) {
  extern __shared__ float s[];
  float x[RANGE];
#pragma unroll
  for (int i = 0; i < RANGE; i++) x[i] = p[i * 1024 + threadIdx.x];
  for (int k = 0; k < n; k++)
#pragma unroll
    for (int i = 0; i < RANGE; i++) x[i] = x[i] * x[(i + 7) % RANGE] + s[threadIdx.x];
#pragma unroll
  for (int i = 0; i < RANGE; i++) p[i * 1024 + threadIdx.x] = x[i];
}
