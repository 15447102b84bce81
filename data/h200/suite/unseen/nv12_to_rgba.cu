// A video frame (luma, then interleaved chroma at half size) to RGBA: a thread makes four pixels of a row.
__device__ __forceinline__ unsigned clamp8(float v) { return (unsigned)fminf(fmaxf(v + 0.5f, 0.0f), 255.0f); }
extern "C" __global__ void nv12_to_rgba(int width, int height, const unsigned char *__restrict__ frame,
                                        uint4 *__restrict__ out) {
  int x = (blockIdx.x * blockDim.x + threadIdx.x) * 4, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height)
    return;
  uchar4 luma = *(const uchar4 *)(frame + (size_t)y * width + x);
  uchar4 chroma = *(const uchar4 *)(frame + (size_t)width * height + (size_t)(y / 2) * width + x);
  float l[4] = {1.164f * (luma.x - 16), 1.164f * (luma.y - 16), 1.164f * (luma.z - 16), 1.164f * (luma.w - 16)};
  float u[2] = {chroma.x - 128.0f, chroma.z - 128.0f}, v[2] = {chroma.y - 128.0f, chroma.w - 128.0f};
  unsigned p[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    float cu = u[i / 2], cv = v[i / 2];
    p[i] = clamp8(l[i] + 1.793f * cv) | clamp8(l[i] - 0.213f * cu - 0.533f * cv) << 8 | clamp8(l[i] + 2.112f * cu) << 16 |
           0xff000000u;
  }
  out[((size_t)y * width + x) / 4] = make_uint4(p[0], p[1], p[2], p[3]);
}
