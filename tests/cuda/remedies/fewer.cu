// Blocks that come back to what they have read: L1 holds it for a few of them. A launch may have fewer blocks than there
// are parts of the work; each then takes several.

// Several times through a window of the array.
extern "C" __global__ void __launch_bounds__(256) circle(const float *in, float *out, int parts, int windows, int words, int turns) {
  for (int part = blockIdx.x; part < parts; part += gridDim.x) {
    const float *window = in + (size_t)(((unsigned)part * 2654435761u >> 8) % windows) * words;
    float sum = 0;
    for (int t = 0; t < turns; t++)
      for (int i = threadIdx.x; i < words; i += 256) sum += window[i];
    out[part * 256 + threadIdx.x] = sum;
  }
}

// The same by chance: a place of the window that the last value decides.
extern "C" __global__ void __launch_bounds__(256) lookups(const unsigned *in, unsigned *out, int parts, int windows, int words, int turns) {
  for (int part = blockIdx.x; part < parts; part += gridDim.x) {
    const unsigned *window = in + (size_t)(((unsigned)part * 2654435761u >> 8) % windows) * words;
    unsigned at = part * 256 + threadIdx.x, sum = 0;
    for (int t = 0; t < turns; t++) {
      at = at * 1664525u + 1013904223u;
      sum += window[(at >> 12) % words];
    }
    out[part * 256 + threadIdx.x] = sum;
  }
}

// A row of each of two arrays per thread: a sector of its own, for eight turns.
extern "C" __global__ void __launch_bounds__(256) rows(const float *a, const float *b, float *out, int parts, int length) {
  for (int part = blockIdx.x; part < parts; part += gridDim.x) {
    size_t row = (size_t)part * 256 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < length; k++) sum += a[row * length + k] * b[row * length + k];
    out[row] = sum;
  }
}

// Each word once.
extern "C" __global__ void __launch_bounds__(256) once(const float *in, float *out, int parts) {
  for (int part = blockIdx.x; part < parts; part += gridDim.x) {
    size_t at = (size_t)part * 256 + threadIdx.x;
    out[at] = 2 * in[at];
  }
}
