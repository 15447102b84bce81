// Copies of a warp to shared memory, lanes in rows on both sides: data/experiments/l1_data_path/asynchronous_copies.json.
template <int BYTES, bool BYPASS>
__device__ void copy(const char *in, int lanes_per_row, int from_pitch, int to_pitch, unsigned lanes)
{
    __shared__ __align__(128) char to[16384];
    const int lane = threadIdx.x, row = lane / lanes_per_row, column = lane % lanes_per_row;
    const unsigned at = (unsigned)__cvta_generic_to_shared(to + row * to_pitch + column * BYTES);
    const char *from = in + row * from_pitch + column * BYTES;
    if (lanes >> lane & 1) {
        if (BYPASS) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from));
        else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(BYTES));
    }
}

#define COPY(NAME, BYTES, BYPASS) \
    extern "C" __global__ void NAME(const char *in, int per_row, int from_pitch, int to_pitch, unsigned lanes) \
    { copy<BYTES, BYPASS>(in, per_row, from_pitch, to_pitch, lanes); }
COPY(bypass16, 16, true)
COPY(access16, 16, false)
COPY(access8, 8, false)
COPY(access4, 4, false)
