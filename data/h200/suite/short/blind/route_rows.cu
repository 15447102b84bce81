// Dispatch of tokens to slots, a warp-sized block per token; a token whose slot is past the capacity is dropped.
extern "C" __global__ void route_rows(int capacity, int quads, const int *__restrict__ slots,
                                      const float *__restrict__ weights, const float4 *__restrict__ in,
                                      float4 *__restrict__ out) {
  int token = blockIdx.x, slot = slots[token];
  if (slot >= capacity)
    return;
  float w = weights[token];
  for (int c = threadIdx.x; c < quads; c += 32) {
    float4 v = in[(size_t)token * quads + c];
    out[(size_t)slot * quads + c] = make_float4(w * v.x, w * v.y, w * v.z, w * v.w);
  }
}
