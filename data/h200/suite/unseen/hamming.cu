// Nearest 256-bit code for each of some queries: a code per thread in registers, queries in shared memory, maxima by atomics.
extern "C" __global__ void hamming(int codes, int queries, const uint4 *__restrict__ database,
                                   const uint4 *__restrict__ wanted, unsigned *out_best) {
  extern __shared__ uint4 q[];
  for (int i = threadIdx.x; i < 2 * queries; i += blockDim.x)
    q[i] = wanted[i];
  __syncthreads();
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  uint4 a = database[2 * (size_t)min(id, codes - 1)], b = database[2 * (size_t)min(id, codes - 1) + 1];
  for (int k = 0; k < queries; k++) {
    uint4 u = q[2 * k], v = q[2 * k + 1];
    unsigned same = 256 - (__popc(a.x ^ u.x) + __popc(a.y ^ u.y) + __popc(a.z ^ u.z) + __popc(a.w ^ u.w) +
                           __popc(b.x ^ v.x) + __popc(b.y ^ v.y) + __popc(b.z ^ v.z) + __popc(b.w ^ v.w));
    same = __reduce_max_sync(0xffffffffu, same);
    if ((threadIdx.x & 31) == 0)
      atomicMax(&out_best[k], same);
  }
}
