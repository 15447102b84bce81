// Matrix fragments and cooperative groups through the vendor headers.
#include <mma.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
namespace wm = nvcuda::wmma;

extern "C" __global__ void wmma_f16_gemm(int n, int k, const __half *a, const __half *b, float *c)
{
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, row = warp / (n / 16) * 16, col = warp % (n / 16) * 16;
    wm::fragment<wm::matrix_a, 16, 16, 16, __half, wm::row_major> fa;
    wm::fragment<wm::matrix_b, 16, 16, 16, __half, wm::col_major> fb;
    wm::fragment<wm::accumulator, 16, 16, 16, float> acc;
    wm::fill_fragment(acc, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wm::load_matrix_sync(fa, a + row * k + i, k);
        wm::load_matrix_sync(fb, b + col * k + i, k);
        wm::mma_sync(acc, fa, fb, acc);
    }
    for (int i = 0; i < acc.num_elements; i++) acc.x[i] *= 0.5f;
    wm::store_matrix_sync(c + row * n + col, acc, n, wm::mem_row_major);
}

extern "C" __global__ void wmma_s8_shared(const signed char *a, const signed char *b, int *c)
{
    __shared__ __align__(32) signed char sa[16 * 16], sb[16 * 16];
    for (int i = threadIdx.x; i < 256; i += 32) { sa[i] = a[i]; sb[i] = b[i]; }
    __syncwarp();
    wm::fragment<wm::matrix_a, 16, 16, 16, signed char, wm::row_major> fa;
    wm::fragment<wm::matrix_b, 16, 16, 16, signed char, wm::row_major> fb;
    wm::fragment<wm::accumulator, 16, 16, 16, int> acc;
    wm::load_matrix_sync(acc, c, 16, wm::mem_col_major);
    wm::load_matrix_sync(fa, sa, 16);
    wm::load_matrix_sync(fb, sb, 16);
    wm::mma_sync(acc, fa, fb, acc);
    wm::store_matrix_sync(c, acc, 16, wm::mem_row_major);
}

extern "C" __global__ void wmma_m32n8k16(const __half *a, const __half *b, __half *c)
{
    wm::fragment<wm::matrix_a, 32, 8, 16, __half, wm::col_major> fa;
    wm::fragment<wm::matrix_b, 32, 8, 16, __half, wm::row_major> fb;
    wm::fragment<wm::accumulator, 32, 8, 16, __half> acc;
    wm::fill_fragment(acc, __float2half(1.0f));
    wm::load_matrix_sync(fa, a, 32);
    wm::load_matrix_sync(fb, b, 8);
    wm::mma_sync(acc, fa, fb, acc);
    wm::store_matrix_sync(c, acc, 8, wm::mem_row_major);
}

extern "C" __global__ void groups_tile_reduce(int n, const int *in, int *out)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    int s = 0;
    for (int i = block.thread_rank(); i < n; i += block.size()) s += in[i];
    for (int o = tile.size() / 2; o; o >>= 1) s += tile.shfl_down(s, o);
    if (tile.thread_rank() == 0) atomicAdd(out, s);
    block.sync();
    if (tile.any(s > 100)) out[1 + block.thread_rank()] = tile.ballot(s & 1);
}

extern "C" __global__ void groups_coalesced(int n, const int *in, int *out, int *count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && (in[i] & 3) == 1) {
        cg::coalesced_group g = cg::coalesced_threads();
        int base = 0;
        if (g.thread_rank() == 0) base = atomicAdd(count, (int)g.size());
        out[g.shfl(base, 0) + g.thread_rank()] = i;
    }
}

extern "C" __global__ void groups_grid_sync(float *a, float *b, int n, int steps)
{
    cg::grid_group grid = cg::this_grid();
    for (int s = 0; s < steps; s++) {
        for (int i = (int)grid.thread_rank() + 1; i < n - 1; i += (int)grid.size()) b[i] = 0.5f * (a[i - 1] + a[i + 1]);
        grid.sync();
        float *t = a;
        a = b;
        b = t;
    }
}
