// Stream compaction: each block moves those of its ROUNDS x blockDim elements that lie below a threshold together, in order.
// Stresses ballots, population counts and barriers between dependent rounds; how much is written depends on the data.
constexpr int ROUNDS = 4;

extern "C" __global__ void compact(int threshold, const int *in, int *out, int *out_count) {
  __shared__ int counts[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  int first = blockIdx.x * blockDim.x * ROUNDS, kept = 0;
  for (int round = 0; round < ROUNDS; round++) {
    int value = in[first + round * blockDim.x + threadIdx.x];
    unsigned keep = __ballot_sync(0xFFFFFFFF, value < threshold);
    if (lane == 0)
      counts[warp] = __popc(keep);
    __syncthreads();
    int before = 0, all = 0;
    for (int i = 0; i < warps; i++) {
      before += i < warp ? counts[i] : 0;
      all += counts[i];
    }
    if (value < threshold)
      out[first + kept + before + __popc(keep & ((1u << lane) - 1))] = value;
    kept += all;
    __syncthreads();
  }
  if (threadIdx.x == 0)
    out_count[blockIdx.x] = kept;
}
