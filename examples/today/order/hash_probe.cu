// Look-ups in a hash table by linear probing. A slot is empty if its two lowest bits are zero (a quarter of them), and
// its next four bits are a tag; a probe ends at an empty slot or at the tag of the query, whose payload is read then.
// Stresses random accesses whose number differs between lanes.
extern "C" __global__ void hash_probe(int n, unsigned mask, const unsigned *queries, const unsigned *slots,
                                      const unsigned *payloads, unsigned *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  unsigned query = queries[i], tag = query >> 28, at = query * 2654435761u >> 4 & mask, probes = 0, found = 0;
  while (true) {
    unsigned slot = slots[at];
    probes++;
    if ((slot & 3) == 0)
      break;
    if ((slot >> 2 & 15) == tag) {
      found = payloads[at];
      break;
    }
    at = at + 1 & mask;
  }
  out[i] = found + probes;
}
