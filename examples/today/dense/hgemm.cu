// C = A B^T in half precision on the tensor cores, summed in single precision: out[m][n], a[m][k], b[n][k].
// Each warp has 64 x 32 elements of C, made by mma.m16n8k16 from fragments that ldmatrix brings from shared memory.
// hgemm_mma loads a tile, then uses it; hgemm_async has STAGES tiles under way by cp.async. Stresses the tensor cores,
// shared memory, and how well global loads are hidden.
#ifndef BM
#define BM 128
#define BN 64
#endif
#ifndef STAGES
#define STAGES 3
#endif
constexpr int BK = 32, PITCH = BK + 8; // halves; eight rows of 80 bytes touch all banks once
constexpr int WARPS_N = BN / 32, THREADS = BM / 64 * WARPS_N * 32;
typedef unsigned short half_bits;

__device__ unsigned address(const void *pointer) { return (unsigned)__cvta_generic_to_shared(pointer); }

__device__ void load_matrices(unsigned (&r)[4], const half_bits *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address(row)));
}

__device__ void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// What one tile in shared memory adds to a warp's elements: rows of a from `row`, rows of b from `column`.
__device__ void use_tile(float (&sums)[4][4][4], const half_bits *a, const half_bits *b, int row, int column) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < BK; k += 16) {
    unsigned left[4][4], right[2][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
      load_matrices(left[i], a + (row + 16 * i + lane % 16) * PITCH + k + lane / 16 * 8);
#pragma unroll
    for (int j = 0; j < 2; j++)
      load_matrices(right[j], b + (column + 16 * j + lane / 16 * 8 + lane % 8) * PITCH + k + lane / 8 % 2 * 8);
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j++)
        multiply_add(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
  }
}

__device__ void store(const float (&sums)[4][4][4], float *out, int n, int row, int column) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      float *to = out + (row + 16 * i + lane / 4) * n + column + 8 * j + lane % 4 * 2;
      *(float2 *)to = make_float2(sums[i][j][0], sums[i][j][1]);
      *(float2 *)(to + 8 * n) = make_float2(sums[i][j][2], sums[i][j][3]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    hgemm_mma(int m, int n, int k, const half_bits *a, const half_bits *b, float *out) {
  __shared__ __align__(16) half_bits tile_a[BM * PITCH], tile_b[BN * PITCH];
  int warp = threadIdx.x / 32, row = warp / WARPS_N * 64, column = warp % WARPS_N * 32;
  a += blockIdx.y * BM * k;
  b += blockIdx.x * BN * k;
  float sums[4][4][4] = {};
  for (int start = 0; start < k; start += BK) {
    for (int i = threadIdx.x; i < BM * 4; i += THREADS)
      *(uint4 *)(tile_a + i / 4 * PITCH + i % 4 * 8) = *(const uint4 *)(a + i / 4 * k + start + i % 4 * 8);
    for (int i = threadIdx.x; i < BN * 4; i += THREADS)
      *(uint4 *)(tile_b + i / 4 * PITCH + i % 4 * 8) = *(const uint4 *)(b + i / 4 * k + start + i % 4 * 8);
    __syncthreads();
    use_tile(sums, tile_a, tile_b, row, column);
    __syncthreads();
  }
  store(sums, out, n, blockIdx.y * BM + row, blockIdx.x * BN + column);
}

__device__ void copy_async(half_bits *to, const half_bits *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(to)), "l"(from));
}

// Ask for the tile that begins at column `start`; behind the last one there is nothing, but a group all the same.
__device__ void fetch(half_bits *tile, const half_bits *a, const half_bits *b, int start, int k) {
  if (start < k) {
    for (int i = threadIdx.x; i < BM * 4; i += THREADS)
      copy_async(tile + i / 4 * PITCH + i % 4 * 8, a + i / 4 * k + start + i % 4 * 8);
    for (int i = threadIdx.x; i < BN * 4; i += THREADS)
      copy_async(tile + (BM + i / 4) * PITCH + i % 4 * 8, b + i / 4 * k + start + i % 4 * 8);
  }
  asm volatile("cp.async.commit_group;");
}

extern "C" __global__ void __launch_bounds__(THREADS)
    hgemm_async(int m, int n, int k, const half_bits *a, const half_bits *b, float *out) {
  extern __shared__ __align__(16) half_bits tiles[]; // STAGES of BM + BN rows
  constexpr int SIZE = (BM + BN) * PITCH;
  int warp = threadIdx.x / 32, row = warp / WARPS_N * 64, column = warp % WARPS_N * 32;
  a += blockIdx.y * BM * k;
  b += blockIdx.x * BN * k;
  for (int stage = 0; stage < STAGES - 1; stage++)
    fetch(tiles + stage * SIZE, a, b, stage * BK, k);
  float sums[4][4][4] = {};
  for (int start = 0, stage = 0; start < k; start += BK, stage = stage == STAGES - 1 ? 0 : stage + 1) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    int free = stage == 0 ? STAGES - 1 : stage - 1; // the one that was used last
    fetch(tiles + free * SIZE, a, b, start + (STAGES - 1) * BK, k);
    use_tile(sums, tiles + stage * SIZE, tiles + stage * SIZE + BM * PITCH, row, column);
  }
  store(sums, out, n, blockIdx.y * BM + row, blockIdx.x * BN + column);
}
