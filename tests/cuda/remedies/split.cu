// Two phases: one keeps many sums in registers, one follows a chain and needs few. Both in one kernel, or each by itself.
constexpr int SUMS = 96;

__device__ float sums(const float *in, int i, int turns) {
  float sum[SUMS];
#pragma unroll
  for (int k = 0; k < SUMS; k++) sum[k] = k + i;
#pragma unroll 1
  for (int t = 0; t < turns; t++) {
    float x = in[t];
#pragma unroll
    for (int k = 0; k < SUMS; k++) sum[k] = sum[k] * x + sum[(k + 1) % SUMS];
  }
  float all = 0;
#pragma unroll
  for (int k = 0; k < SUMS; k++) all += sum[k];
  return all;
}

__device__ int chain(const int *next, int at, int steps) {
#pragma unroll 1
  for (int s = 0; s < steps; s++) at = next[at];
  return at;
}

extern "C" __global__ void __launch_bounds__(128) phases(const float *in, const int *next, float *out, int turns, int steps) {
  int i = blockIdx.x * 128 + threadIdx.x;
  float all = sums(in, i, turns);
  out[i] = all + chain(next, i, steps);
}

extern "C" __global__ void __launch_bounds__(128) first_phase(const float *in, float *kept, int turns) {
  int i = blockIdx.x * 128 + threadIdx.x;
  kept[i] = sums(in, i, turns);
}

extern "C" __global__ void __launch_bounds__(128) second_phase(const int *next, const float *kept, float *out, int steps) {
  int i = blockIdx.x * 128 + threadIdx.x;
  out[i] = kept[i] + chain(next, i, steps);
}
