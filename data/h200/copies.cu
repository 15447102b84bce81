// Asynchronous copies of a warp to shared memory, by how lanes are laid out in rows on both sides.
// LDGSTS by BYPASS (cp.async.cg) and through L1 (cp.async.ca): what ncu counts is in copies.json.
//   nvcc -arch=sm_90 -O3 -o copies copies.cu && ./copies          (prints a line per launch, in order)
#include <cstdio>
#include <cuda_runtime.h>

template <int BYTES, bool BYPASS> __global__ void copy(const char *in, char *out, int lanes_per_row, int from_pitch, int to_pitch, unsigned active)
{
    __shared__ __align__(128) char to[16384];
    const int lane = threadIdx.x, row = lane / lanes_per_row, column = lane % lanes_per_row;
    const unsigned at = (unsigned)__cvta_generic_to_shared(to + row * to_pitch + column * BYTES);
    const char *from = in + row * from_pitch + column * BYTES;
    if (active >> lane & 1) {
        if constexpr (BYPASS) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from));
        else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(BYTES));
    }
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;");
    __syncthreads();
    out[lane] = to[row * to_pitch + column * BYTES];
}

int main()
{
    char *in, *out;
    cudaMalloc(&in, 1 << 20); cudaMalloc(&out, 1 << 20);
    cudaMemset(in, 0, 1 << 20); cudaMemset(out, 0, 1 << 20);
    const int rows[] = {32, 16, 8, 4, 2, 1};
    const unsigned masks[] = {0xFFFFFFFF, 0x0000FFFF, 0x000000FF, 0x0000000F, 1, 0x55555555, 0x11111111};
    auto run = [&](const char *name, int bytes, auto kernel) {
        auto one = [&](int per_row, int from, int to, unsigned mask) {
            kernel<<<1, 32>>>(in, out, per_row, from, to, mask);
            printf("%s %d %d %d %d %u\n", name, bytes, per_row, from, to, mask);
        };
        for (int per_row : rows)
            for (int pad : {0, 16, 32, 64}) {
                const int width = per_row * bytes;
                const int to = (width + pad + 15) / 16 * 16;
                if (32 / per_row * to > 16384 || (pad && per_row == 32)) continue;
                one(per_row, (width + 127) / 128 * 128 * 2, to, 0xFFFFFFFF);  // every row in a line of its own
                if (!pad) one(per_row, width, to, 0xFFFFFFFF);                // contiguous
            }
        for (unsigned mask : masks) one(32, 0, 0, mask), one(4, 1024, (4 * bytes + 31) / 16 * 16, mask);
    };
    run("bypass", 16, copy<16, true>);
    run("access", 16, copy<16, false>);
    run("access", 8, copy<8, false>);
    run("access", 4, copy<4, false>);
    const cudaError_t error = cudaDeviceSynchronize();
    fprintf(stderr, "%s\n", cudaGetErrorString(error));
    return error != cudaSuccess;
}
