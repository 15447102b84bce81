// Distances to codes of a product quantiser: a table of 256 floats per byte of the code in shared memory; persistent blocks.
#ifndef M
#define M 32
#endif
extern "C" __global__ void pq_scan(int codes, const float *__restrict__ tables, const uint4 *__restrict__ code,
                                   float *__restrict__ out) {
  extern __shared__ float lut[];
  for (int i = threadIdx.x; i < M * 256; i += blockDim.x)
    lut[i] = tables[i];
  __syncthreads();
  for (int id = blockIdx.x * blockDim.x + threadIdx.x; id < codes; id += gridDim.x * blockDim.x) {
    float sum = 0.0f;
#pragma unroll
    for (int g = 0; g < M / 16; g++) {
      uint4 v = code[(size_t)id * (M / 16) + g];
      unsigned w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < 16; i++)
        sum += lut[(g * 16 + i) * 256 + ((w[i / 4] >> (i % 4 * 8)) & 255)];
    }
    out[id] = sum;
  }
}
