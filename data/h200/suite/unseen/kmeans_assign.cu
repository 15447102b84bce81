// k-means: the nearest of k centroids for each point. A point's features in registers, the centroids in shared memory.
#ifndef F
#define F 16
#endif
extern "C" __global__ void kmeans_assign(int points, int k, const float *__restrict__ features,
                                         const float *__restrict__ centroids, int *__restrict__ out_label,
                                         float *__restrict__ out_distance) {
  extern __shared__ float table[];
  for (int i = threadIdx.x; i < k * F; i += blockDim.x)
    table[i] = centroids[i];
  __syncthreads();
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= points)
    return;
  float x[F];
#pragma unroll
  for (int f = 0; f < F; f++)
    x[f] = features[(size_t)f * points + p];
  float best = 3.4e38f;
  int label = 0;
  for (int c = 0; c < k; c++) {
    float sum = 0.0f;
#pragma unroll
    for (int f = 0; f < F; f++) {
      float d = x[f] - table[c * F + f];
      sum += d * d;
    }
    if (sum < best) {
      best = sum;
      label = c;
    }
  }
  out_label[p] = label;
  out_distance[p] = best;
}
