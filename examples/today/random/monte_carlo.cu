// Monte Carlo. pi: points in a quarter circle, by a xorshift generator, one sum per warp added to a counter.
// option: the mean payoff of a European call over paths of several steps, normal numbers by Box and Muller.
// Stresses integer chains and few memory accesses (pi); logarithm, sine, cosine, exponential, square root (option).
__device__ unsigned xorshift(unsigned &state) {
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

__device__ float uniform(unsigned &state) { return ((xorshift(state) >> 8) + 0.5f) * 0x1p-24f; }

__device__ unsigned seed(unsigned i) {
  i = (i ^ 61) ^ i >> 16;
  i *= 9;
  i = (i ^ i >> 4) * 0x27D4EB2Du;
  return (i ^ i >> 15) | 1;
}

extern "C" __global__ void monte_carlo_pi(int samples, unsigned *out) {
  unsigned state = seed(blockIdx.x * blockDim.x + threadIdx.x), inside = 0;
  for (int i = 0; i < samples; i++) {
    float x = uniform(state), y = uniform(state);
    inside += x * x + y * y < 1;
  }
  for (int step = 16; step > 0; step /= 2)
    inside += __shfl_xor_sync(0xFFFFFFFF, inside, step);
  if (threadIdx.x % 32 == 0)
    atomicAdd(out, inside);
}

extern "C" __global__ void monte_carlo_option(int paths, int steps, float spot, float strike, float drift,
                                              float volatility, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned state = seed(i);
  float sum = 0;
  for (int path = 0; path < paths; path++) {
    float walk = 0;
    for (int step = 0; step < steps; step += 2) {
      float radius = sqrtf(-2 * logf(uniform(state))), sine, cosine;
      sincospif(2 * uniform(state), &sine, &cosine);
      walk += radius * (sine + cosine) * volatility + 2 * drift;
    }
    sum += fmaxf(spot * expf(walk) - strike, 0);
  }
  out[i] = sum / paths;
}
