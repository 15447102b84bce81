// The sum of the rows of a table that a bag names: one warp per bag of unequal length, rows of 128 elements.
// Stresses random accesses of 512 bytes, and warps that end at different times.
extern "C" __global__ void embedding_bag(int bags, int most, const int *lengths, const int *indices,
                                         const float4 *table, float4 *out) {
  int bag = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (bag >= bags)
    return;
  int length = lengths[bag];
  float4 sum = make_float4(0, 0, 0, 0);
  for (int i = 0; i < length; i++) {
    float4 row = table[(long long)indices[bag * most + i] * 32 + lane];
    sum = make_float4(sum.x + row.x, sum.y + row.y, sum.z + row.z, sum.w + row.w);
  }
  out[bag * 32 + lane] = sum;
}
