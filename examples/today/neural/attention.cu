// Attention in one pass with a running softmax, single precision, heads of 64 columns: q, k, v and out are
// [head][n][64]. A thread has one query; TILE keys and values at a time are in shared memory and read by all lanes alike.
// Stresses registers, fp32, broadcasts from shared memory; with CAUSAL, blocks of very unequal length.
#ifndef QUERIES
#define QUERIES 64
#endif
constexpr int WIDTH = 64, FOURS = WIDTH / 4, TILE = 16;
constexpr float LOWEST = -3.402823466e38f;

extern "C" __global__ void __launch_bounds__(QUERIES)
    attention(int n, float scale, const float4 *q, const float4 *k, const float4 *v, float4 *out) {
  __shared__ float4 keys[TILE][FOURS], values[TILE][FOURS];
  int row = blockIdx.x * QUERIES + threadIdx.x, head = blockIdx.y * n * FOURS;
  float4 query[FOURS], sums[FOURS] = {};
#pragma unroll
  for (int i = 0; i < FOURS; i++) {
    query[i] = q[head + row * FOURS + i];
    query[i] = make_float4(query[i].x * scale, query[i].y * scale, query[i].z * scale, query[i].w * scale);
  }
  float largest = LOWEST, total = 0;
#ifdef CAUSAL
  int end = (blockIdx.x + 1) * QUERIES;
#else
  int end = n;
#endif
  for (int start = 0; start < end; start += TILE) {
    __syncthreads();
    for (int i = threadIdx.x; i < TILE * FOURS; i += QUERIES) {
      keys[i / FOURS][i % FOURS] = k[head + start * FOURS + i];
      values[i / FOURS][i % FOURS] = v[head + start * FOURS + i];
    }
    __syncthreads();
    float scores[TILE], above = largest;
#pragma unroll
    for (int j = 0; j < TILE; j++) {
      float score = 0;
#pragma unroll
      for (int i = 0; i < FOURS; i++) {
        float4 key = keys[j][i];
        score += query[i].x * key.x + query[i].y * key.y + query[i].z * key.z + query[i].w * key.w;
      }
#ifdef CAUSAL
      score = start + j <= row ? score : LOWEST;
#endif
      scores[j] = score;
      above = fmaxf(above, score);
    }
    float shrink = expf(largest - above);
    largest = above;
    total *= shrink;
#pragma unroll
    for (int i = 0; i < FOURS; i++)
      sums[i] = make_float4(sums[i].x * shrink, sums[i].y * shrink, sums[i].z * shrink, sums[i].w * shrink);
#pragma unroll
    for (int j = 0; j < TILE; j++) {
      float share = expf(scores[j] - largest);
      total += share;
#pragma unroll
      for (int i = 0; i < FOURS; i++) {
        float4 value = values[j][i];
        sums[i].x += share * value.x;
        sums[i].y += share * value.y;
        sums[i].z += share * value.z;
        sums[i].w += share * value.w;
      }
    }
  }
  float factor = 1 / total;
#pragma unroll
  for (int i = 0; i < FOURS; i++)
    out[head + row * FOURS + i] =
        make_float4(sums[i].x * factor, sums[i].y * factor, sums[i].z * factor, sums[i].w * factor);
}
