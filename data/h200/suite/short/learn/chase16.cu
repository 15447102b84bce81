// Dependent walk through a table that lies in L2: every thread follows a list for some steps.
extern "C" __global__ void chase16(int steps, unsigned mask, const unsigned *__restrict__ next, unsigned *__restrict__ out) {
  unsigned id = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned p = (id * 2654435761u) & mask, sum = 0;
  for (int s = 0; s < steps; s++) {
    p = next[p];
    sum += p;
  }
  out[id] = sum;
}
