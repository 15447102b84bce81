// Lennard-Jones forces by neighbour lists: a thread per atom; its neighbours lie somewhere in the window that follows it.
extern "C" __global__ void lennard_jones(int atoms, int neighbours, float box, float cutoff2,
                                         const float4 *__restrict__ position, const int *__restrict__ ahead,
                                         float4 *__restrict__ out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= atoms)
    return;
  float4 p = position[i];
  float fx = 0.0f, fy = 0.0f, fz = 0.0f, energy = 0.0f;
  for (int k = 0; k < neighbours; k++) {
    int j = i + ahead[(size_t)k * atoms + i];
    if (j >= atoms)
      j -= atoms;
    float4 q = position[j];
    float dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z;
    dx -= box * rintf(dx / box);
    dy -= box * rintf(dy / box);
    dz -= box * rintf(dz / box);
    float r2 = dx * dx + dy * dy + dz * dz;
    if (r2 < cutoff2) {
      float inv2 = 1.0f / (r2 + 0.01f), inv6 = inv2 * inv2 * inv2;
      float f = 24.0f * inv6 * (2.0f * inv6 - 1.0f) * inv2;
      fx += f * dx;
      fy += f * dy;
      fz += f * dz;
      energy += 4.0f * inv6 * (inv6 - 1.0f);
    }
  }
  out[i] = make_float4(fx, fy, fz, energy);
}
