// Two nested branches make three paths: B1 B2 B4 B6 B7, B1 B2 B5 B6 B7 and B1 B3 B7.
// The first `to_b2` lanes of a warp go to B2, and of these the first `to_b4` to B4.
__device__ float work(float x, float a, float b, int trips) {
#pragma unroll 8
  for (int i = 0; i < trips; ++i)
    x = x * a + b;
  return x;
}

extern "C" __global__ void divergence(int trips, int to_b2, int to_b4, float a, float b, float *out) {
  int thread = blockIdx.x * blockDim.x + threadIdx.x;
  int lane = threadIdx.x % 32;
  float x = work(thread, a, b, trips); // B1
  if (lane < to_b2) {
    x = work(x, a, 1.0f, trips); // B2
    if (lane < to_b4)
      x = work(x, a, 2.0f, 3 * trips); // B4
    else
      x = work(x, a, 3.0f, 2 * trips); // B5
    x = work(x, a, 4.0f, trips); // B6
  } else {
    x = work(x, a, 5.0f, 4 * trips); // B3
  }
  out[thread] = work(x, a, 6.0f, trips); // B7
}
