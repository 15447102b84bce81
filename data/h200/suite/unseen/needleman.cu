// Needleman-Wunsch: all tiles of one anti-diagonal of the score matrix, one warp per 32 x 32 tile.
#define T 32
extern "C" __global__ void needleman(int n, int diagonal, int first, int penalty, const int *__restrict__ similarity,
                                     int *out_score) {
  __shared__ int s[T + 1][T + 2];
  __shared__ int ref[T][T + 1];
  int bx = first + blockIdx.x, by = diagonal - bx, lane = threadIdx.x;
  size_t stride = n + 1;
  int *corner = out_score + (size_t)by * T * stride + (size_t)bx * T;
  const int *sim = similarity + (size_t)by * T * n + (size_t)bx * T;
  for (int i = 0; i < T; i++)
    ref[i][lane] = sim[(size_t)i * n + lane];
  s[0][lane + 1] = corner[lane + 1];
  s[lane + 1][0] = corner[(lane + 1) * stride];
  if (lane == 0)
    s[0][0] = corner[0];
  __syncwarp();
  for (int m = 0; m < 2 * T - 1; m++) {
    int y = m - lane;
    if (y >= 0 && y < T) {
      int diag = s[y][lane] + ref[y][lane];
      int left = s[y + 1][lane] - penalty, up = s[y][lane + 1] - penalty;
      s[y + 1][lane + 1] = max(diag, max(left, up));
    }
    __syncwarp();
  }
  for (int i = 0; i < T; i++)
    corner[(size_t)(i + 1) * stride + lane + 1] = s[i + 1][lane + 1];
}
