// Straight-line code: STEPS multiply-adds on four chains, each with a constant of its own, run a few times.
// Stresses the instruction caches: 16 bytes for every instruction, all of them read again on each trip.
#ifndef STEPS
#define STEPS 2048
#endif

extern "C" __global__ void long_code(int trips, const float *in, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x[4] = {in[i], in[i] + 1, in[i] + 2, in[i] + 3}, half = 0.5f * (trips > 0);
#pragma unroll 1
  for (int trip = 0; trip < trips; trip++)
#pragma unroll
    for (int step = 0; step < STEPS; step++)
      x[step % 4] = x[step % 4] * half + (float)(step * 37 % 1009 + 1) / 1024;
  out[i] = x[0] + x[1] + x[2] + x[3];
}
