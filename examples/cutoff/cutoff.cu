// The electrostatic potential of atoms on a lattice; atoms beyond the cutoff do not count.
// Lengths are in Angstrom; a lattice point (x, y, z) lies at SPACING times (x, y, z).
constexpr float SPACING = 0.5f, CUTOFF = 8.0f, SQUARE = CUTOFF * CUTOFF;

// What an atom adds at the square of a distance: it falls to zero smoothly at the cutoff.
__device__ float potential(float charge, float square) {
  float s = 1.0f - square * (1.0f / SQUARE);
  return charge * rsqrtf(square) * s * s;
}

// Baseline: one lattice point per thread, and every thread looks at every atom of the box.
extern "C" __global__ void cutoff_baseline(int nx, int ny, int atoms, float box_x, float box_y, float box_z,
                                           const float4 *atom, float *out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  int z = blockIdx.z;
  float sum = 0;
  for (int i = 0; i < atoms; ++i) {
    float4 a = atom[i]; // its place as a fraction of the box, and its charge
    float dx = a.x * box_x - SPACING * x, dy = a.y * box_y - SPACING * y, dz = a.z * box_z - SPACING * z;
    float square = dx * dx + dy * dy + dz * dz;
    if (square < SQUARE)
      sum += potential(a.w, square);
  }
  out[(z * ny + y) * nx + x] = sum;
}

// Optimised: atoms are sorted into bins as long as the cutoff, all of which hold the same number (binning,
// regularisation); a block looks at the bins around its own only and shares them (tiling), and a thread has
// several lattice points (coarsening).
constexpr int BIN_ATOMS = 32;
constexpr int BIN_POINTS = CUTOFF / SPACING; // lattice points along a bin, and threads along a block
constexpr int COARSE = 4;                    // lattice points of a thread, above one another

extern "C" __global__ void cutoff_binned(int bins_x, int bins_y, int bins_z, const float4 *atom, float *out) {
  __shared__ float4 near[3 * BIN_ATOMS];
  int x = blockIdx.x * BIN_POINTS + threadIdx.x;
  int y = blockIdx.y * BIN_POINTS + threadIdx.y;
  int z = blockIdx.z * COARSE;
  int t = threadIdx.y * BIN_POINTS + threadIdx.x;
  int bin_y = blockIdx.y, bin_z = z / BIN_POINTS;
  int first = max((int)blockIdx.x - 1, 0), last = min((int)blockIdx.x + 1, bins_x - 1);
  int atoms = (last - first + 1) * BIN_ATOMS;
  float sum[COARSE] = {};
  for (int bz = max(bin_z - 1, 0); bz <= min(bin_z + 1, bins_z - 1); ++bz)
    for (int by = max(bin_y - 1, 0); by <= min(bin_y + 1, bins_y - 1); ++by) {
      __syncthreads();
      if (t < atoms) { // a row of up to three bins; places are fractions of a bin
        float4 a = atom[((bz * bins_y + by) * bins_x + first) * BIN_ATOMS + t];
        int bx = first + t / BIN_ATOMS;
        near[t] = make_float4((bx + a.x) * CUTOFF, (by + a.y) * CUTOFF, (bz + a.z) * CUTOFF, a.w);
      }
      __syncthreads();
      for (int i = 0; i < atoms; ++i) {
        float4 a = near[i];
        float dx = a.x - SPACING * x, dy = a.y - SPACING * y, dz = a.z - SPACING * z;
        float flat = dx * dx + dy * dy;
        if (flat >= SQUARE)
          continue;
#pragma unroll
        for (int k = 0; k < COARSE; ++k) {
          float above = dz - SPACING * k, square = flat + above * above;
          if (square < SQUARE)
            sum[k] += potential(a.w, square);
        }
      }
    }
#pragma unroll
  for (int k = 0; k < COARSE; ++k)
    out[((z + k) * bins_y * BIN_POINTS + y) * bins_x * BIN_POINTS + x] = sum[k];
}
