// Gather: elements from random places of a table, eight bytes each. Scatter: elements to a random order of places.
// Stresses sectors that are used in part: reads that hit L2 or not, and writes of parts of sectors.
extern "C" __global__ void gather(int n, const int *order, const float2 *table, float2 *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = table[order[i]];
}

extern "C" __global__ void scatter(int n, const int *order, const float *values, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    out[order[i]] = values[i];
}
