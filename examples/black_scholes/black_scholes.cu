// Prices of European call and put options after Black and Scholes, one option per thread.

// The standard normal distribution function, by the polynomial 26.2.17 of Abramowitz and Stegun (error below 1e-7).
__device__ float normal(float x) {
  float k = 1.0f / (1.0f + 0.2316419f * fabsf(x));
  float series = 1.330274429f;
  series = series * k - 1.821255978f;
  series = series * k + 1.781477937f;
  series = series * k - 0.356563782f;
  series = series * k + 0.319381530f;
  float tail = 0.3989422804f * expf(-0.5f * x * x) * series * k;
  return x > 0 ? 1.0f - tail : tail;
}

extern "C" __global__ void black_scholes(int n, float rate, float volatility, const float *price, const float *strike,
                                         const float *years, float *out_call, float *out_put) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  float s = price[i], x = strike[i], t = years[i];
  float deviation = volatility * sqrtf(t);
  float d1 = (logf(s / x) + (rate + 0.5f * volatility * volatility) * t) / deviation;
  float p1 = normal(d1), p2 = normal(d1 - deviation);
  float discounted = x * expf(-rate * t);
  out_call[i] = s * p1 - discounted * p2;
  out_put[i] = discounted * (1.0f - p2) - s * (1.0f - p1);
}
