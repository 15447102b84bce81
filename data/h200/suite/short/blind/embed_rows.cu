// Embedding: a token's row of the table, scaled, plus its position's row; blockDim.y tokens to a block.
extern "C" __global__ void embed_rows(int tokens, int quads, int positions, float scale, const int *__restrict__ ids,
                                      const float4 *__restrict__ table, const float4 *__restrict__ place,
                                      float4 *__restrict__ out) {
  int t = blockIdx.x * blockDim.y + threadIdx.y;
  if (t >= tokens)
    return;
  int id = ids[t], p = t % positions;
  for (int c = threadIdx.x; c < quads; c += blockDim.x) {
    float4 a = table[(size_t)id * quads + c], b = place[(size_t)p * quads + c];
    out[(size_t)t * quads + c] = make_float4(a.x * scale + b.x, a.y * scale + b.y, a.z * scale + b.z, a.w * scale + b.w);
  }
}
