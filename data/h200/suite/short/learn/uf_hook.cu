// Hook step of connected components: both ends of an edge climb to their roots, and the larger root is hooked to the smaller.
// `up` is how far before a vertex its parent is; a root has 0.
__device__ __forceinline__ int root(const unsigned char *__restrict__ up, int v) {
  while (v > 0) {
    int d = up[v];
    if (d == 0)
      break;
    v = max(v - d, 0);
  }
  return v;
}
extern "C" __global__ void uf_hook(int edges, const int *__restrict__ from, const int *__restrict__ to,
                                   const unsigned char *__restrict__ up, int *__restrict__ out_hook,
                                   int *__restrict__ out_changed) {
  int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= edges)
    return;
  int a = root(up, from[e]), b = root(up, to[e]);
  if (a != b) {
    atomicMin(out_hook + max(a, b), min(a, b));
    *out_changed = 1;
  }
}
