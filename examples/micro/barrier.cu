// Multiplies an array by ten in place, with a barrier between load and store or without. All threads go round as often.
extern "C" __global__ void barrier(int n, float *out) {
#pragma unroll 1
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float x = out[i] * 10.0f;
#ifdef BARRIER
    __syncthreads();
#endif
    out[i] = x;
  }
}
