// Rays through a grid of voxels, one byte each: step from cell to cell until one is solid or the ray leaves.
extern "C" __global__ void voxel_dda(int width, int height, int side, int solid, const unsigned char *__restrict__ cells,
                                     float *__restrict__ out) {
  int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= width || py >= height)
    return;
  float dx = (px + 0.5f) / width - 0.5f, dy = (py + 0.5f) / height - 0.5f, dz = 0.7f;
  float inv = rsqrtf(dx * dx + dy * dy + dz * dz);
  dx *= inv;
  dy *= inv;
  dz *= inv;
  float ox = side * 0.5f + 0.31f, oy = side * 0.5f + 0.17f, oz = 0.43f;
  int x = (int)ox, y = (int)oy, z = (int)oz;
  int sx = dx < 0 ? -1 : 1, sy = dy < 0 ? -1 : 1, sz = 1;
  float ix = fabsf(1.0f / dx), iy = fabsf(1.0f / dy), iz = 1.0f / dz;
  float tx = (dx < 0 ? ox - x : x + 1 - ox) * ix, ty = (dy < 0 ? oy - y : y + 1 - oy) * iy, tz = (z + 1 - oz) * iz;
  float t = 0.0f, hit = -1.0f;
  for (int step = 0; step < 3 * side; step++) {
    unsigned cell = ((unsigned)z * side + y) * side + x;
    if (cells[cell] < solid) {
      hit = t;
      break;
    }
    if (tx < ty && tx < tz) {
      t = tx;
      tx += ix;
      x += sx;
    } else if (ty < tz) {
      t = ty;
      ty += iy;
      y += sy;
    } else {
      t = tz;
      tz += iz;
      z += sz;
    }
    if ((unsigned)x >= (unsigned)side || (unsigned)y >= (unsigned)side || z >= side)
      break;
  }
  out[(size_t)py * width + px] = hit;
}
