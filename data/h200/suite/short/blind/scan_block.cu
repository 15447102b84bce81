// Inclusive prefix sum of a block's segment by doubling steps between two buffers, a barrier after each.
extern "C" __global__ void scan_block(int n, const int *__restrict__ in, int *__restrict__ out, int *__restrict__ out_sums) {
  __shared__ int buffer[2][1024];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t, from = 0;
  buffer[0][t] = i < n ? in[i] : 0;
  __syncthreads();
  for (int d = 1; d < blockDim.x; d <<= 1) {
    int v = buffer[from][t];
    if (t >= d)
      v += buffer[from][t - d];
    buffer[from ^ 1][t] = v;
    from ^= 1;
    __syncthreads();
  }
  if (i < n)
    out[i] = buffer[from][t];
  if (t == blockDim.x - 1)
    out_sums[blockIdx.x] = buffer[from][t];
}
