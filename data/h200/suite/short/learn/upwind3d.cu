// First-order upwind advection of a scalar on a 3D grid; the border keeps its values.
extern "C" __global__ void upwind3d(int nx, int ny, int nz, float dt_h, const float *__restrict__ u,
                                    const float *__restrict__ v, const float *__restrict__ w, const float *__restrict__ q,
                                    float *__restrict__ out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  int z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x >= nx || y >= ny || z >= nz)
    return;
  int sy = nx, sz = nx * ny, at = z * sz + y * sy + x;
  float c = q[at];
  if (x > 0 && x < nx - 1 && y > 0 && y < ny - 1 && z > 0 && z < nz - 1) {
    float a = u[at], b = v[at], d = w[at];
    float fx = a > 0.0f ? a * (c - q[at - 1]) : a * (q[at + 1] - c);
    float fy = b > 0.0f ? b * (c - q[at - sy]) : b * (q[at + sy] - c);
    float fz = d > 0.0f ? d * (c - q[at - sz]) : d * (q[at + sz] - c);
    c -= dt_h * (fx + fy + fz);
  }
  out[at] = c;
}
