// Starts of runs, compacted into a ring: a ballot and one atomic per warp. The ring's mask keeps every place in range.
extern "C" __global__ void rle_compact(int n, unsigned mask, const int *__restrict__ x, unsigned *__restrict__ out_count,
                                       int *__restrict__ out_start, int *__restrict__ out_value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  bool starts = false;
  int v = 0;
  if (i < n) {
    v = x[i];
    starts = i == 0 || x[i - 1] != v;
  }
  unsigned votes = __ballot_sync(~0u, starts);
  if (votes == 0)
    return;
  unsigned base = 0;
  if (lane == 0)
    base = atomicAdd(out_count, (unsigned)__popc(votes));
  base = __shfl_sync(~0u, base, 0);
  if (starts) {
    unsigned at = (base + __popc(votes & ((1u << lane) - 1))) & mask;
    out_start[at] = i;
    out_value[at] = v;
  }
}
