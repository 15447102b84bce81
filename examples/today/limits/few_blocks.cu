// Sums of squares by fewer blocks than there are SMs.
// Stresses what one SM can ask of memory at a time; most of the GPU is idle.
extern "C" __global__ void few_blocks(int n, const float4 *x, float *out) {
  float sum = 0;
#pragma unroll 4
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float4 v = x[i];
    sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
