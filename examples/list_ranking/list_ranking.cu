// List ranking, the local phase of the algorithm of Hellman and JaJa: every `spacing`-th element is a splitter, and one
// thread walks from each splitter to the next one in the list, leaving rank and splitter at the elements between.
extern "C" __global__ void list_ranking(unsigned spacing, unsigned splitters, const unsigned *successor,
                                        unsigned *out_rank, unsigned *out_splitter) {
  unsigned splitter = blockIdx.x * blockDim.x + threadIdx.x;
  if (splitter >= splitters)
    return;
  unsigned at = splitter * spacing, rank = 0;
  do {
    out_rank[at] = rank++;
    out_splitter[at] = splitter;
    at = successor[at];
  } while (at % spacing != 0 || at / spacing >= splitters);
}
