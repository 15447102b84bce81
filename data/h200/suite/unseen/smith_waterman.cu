// Smith-Waterman with affine gaps: one warp aligns a pair. A lane holds a letter of the query and hands its scores to the
// next lane; the column between two groups of 32 letters waits in shared memory.
#define WARPS 4
extern "C" __global__ void smith_waterman(int pairs, int query_length, int target_length,
                                          const unsigned char *__restrict__ queries,
                                          const unsigned char *__restrict__ targets, int *__restrict__ out) {
  extern __shared__ int border[];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int pair = blockIdx.x * WARPS + warp;
  if (pair >= pairs)
    return;
  int *border_h = border + warp * 2 * target_length, *border_e = border_h + target_length;
  const unsigned char *query = queries + (size_t)pair * query_length;
  const unsigned char *target = targets + (size_t)pair * target_length;
  for (int i = lane; i < target_length; i += 32) {
    border_h[i] = 0;
    border_e[i] = -100000;
  }
  __syncwarp();
  int best = 0;
  for (int q = 0; q < query_length; q += 32) {
    int letter = query[q + lane];
    int h = 0, e = -100000, f = -100000, diagonal = 0;
    for (int step = 0; step < target_length + 31; step++) {
      int i = step - lane;
      int left_h = __shfl_up_sync(0xffffffffu, h, 1);
      int left_e = __shfl_up_sync(0xffffffffu, e, 1);
      if (i >= 0 && i < target_length) {
        if (lane == 0) {
          left_h = border_h[i];
          left_e = border_e[i];
        }
        int score = target[i] == letter ? 5 : -3;
        e = max(left_h - 8, left_e - 1);
        f = max(h - 8, f - 1);
        h = max(max(0, diagonal + score), max(e, f));
        diagonal = left_h;
        best = max(best, h);
        if (lane == 31) {
          border_h[i] = h;
          border_e[i] = e;
        }
      }
      __syncwarp();
    }
  }
  best = __reduce_max_sync(0xffffffffu, best);
  if (lane == 0)
    out[pair] = best;
}
