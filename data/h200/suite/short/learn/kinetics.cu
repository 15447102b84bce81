// Net production rates of SPECIES species by REACTIONS reversible reactions, as a mechanism compiler writes them: one long
// body without loops or branches, each reaction with constants of its own.
#ifndef REACTIONS
#define REACTIONS 144
#endif
#define SPECIES 16
__device__ constexpr unsigned mix(unsigned x) { return ((x * 2654435761u) ^ ((x * 2654435761u) >> 15)) * 2246822519u; }
extern "C" __global__ void kinetics(int cells, float dt, const float *__restrict__ temperature,
                                    const float *__restrict__ conc, float *__restrict__ out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= cells)
    return;
  float c[SPECIES], w[SPECIES];
#pragma unroll
  for (int s = 0; s < SPECIES; s++) {
    c[s] = conc[s * cells + i];
    w[s] = 0.0f;
  }
  float t = temperature[i], inv = 1.0f / t, lt = __log2f(t);
#pragma unroll
  for (int r = 0; r < REACTIONS; r++) {
    float lnA = 0.001f * (float)(mix(r) >> 12 & 4095), beta = 0.0005f * (float)(mix(r + 1000) >> 12 & 1023);
    float act = 0.4f * (float)(mix(r + 2000) >> 12 & 4095), back = 0.2f * (float)(mix(r + 3000) >> 12 & 4095);
    int a = mix(r + 4000) >> 9 & 15, b = mix(r + 5000) >> 9 & 15, p = mix(r + 6000) >> 9 & 15, q = mix(r + 7000) >> 9 & 15;
    float kf = exp2f(lnA + beta * lt - act * inv), kb = exp2f(lnA - back * inv);
    float rate = kf * c[a] * c[b] - kb * c[p] * c[q];
    w[a] -= rate;
    w[b] -= rate;
    w[p] += rate;
    w[q] += rate;
  }
#pragma unroll
  for (int s = 0; s < SPECIES; s++)
    out[s * cells + i] = c[s] + dt * w[s];
}
