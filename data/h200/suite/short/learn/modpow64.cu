// base^exponent modulo an odd 64-bit number by Montgomery products, every thread with an exponent of its own.
typedef unsigned long long u64;
__device__ __forceinline__ u64 mont(u64 a, u64 b, u64 n, u64 neg_inv) {
  u64 lo = a * b, hi = __umul64hi(a, b);
  u64 m = lo * neg_inv;
  u64 r = hi + __umul64hi(m, n) + (lo != 0);
  return r >= n ? r - n : r;
}
extern "C" __global__ void modpow64(int count, u64 n, u64 neg_inv, u64 r2, const u64 *__restrict__ base,
                                    const unsigned *__restrict__ exponent, u64 *__restrict__ out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  u64 x = mont(base[i], r2, n, neg_inv), y = mont(1, r2, n, neg_inv);
  unsigned e = exponent[i];
  while (e) {
    if (e & 1)
      y = mont(y, x, n, neg_inv);
    x = mont(x, x, n, neg_inv);
    e >>= 1;
  }
  out[i] = mont(y, 1, n, neg_inv);
}
