// One level of a breadth-first search from a queue of vertices; a bitmap says who was visited before, another who is next.
extern "C" __global__ void bfs_step(int queued, const int *__restrict__ queue, const int *__restrict__ row_start,
                                    const int *__restrict__ degree, const int *__restrict__ edges,
                                    const unsigned *__restrict__ visited, unsigned *out_next, int *out_parent) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= queued)
    return;
  int v = queue[i];
  int begin = row_start[v], end = begin + degree[v];
  for (int e = begin; e < end; e++) {
    int u = edges[e];
    unsigned bit = 1u << (u & 31);
    if (visited[u >> 5] & bit)
      continue;
    atomicOr(&out_next[u >> 5], bit);
    out_parent[u] = v;
  }
}
