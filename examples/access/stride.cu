// Doubles an array in place. Groups of STRIDE neighbouring threads share a stretch of it, and a thread's elements are
// STRIDE apart: the larger the stride, the more of a warp's accesses coalesce. A block's stretch is a multiple of all.
#ifndef STRIDE
#define STRIDE 32
#endif

extern "C" __global__ void stride(int per_thread, float *out) {
  int group = threadIdx.x / STRIDE, member = threadIdx.x % STRIDE;
  int first = (blockIdx.x * blockDim.x + group * STRIDE) * per_thread + member;
#pragma unroll 4
  for (int i = 0; i < per_thread; ++i) {
    int at = first + i * STRIDE;
    out[at] = out[at] + out[at];
  }
}
