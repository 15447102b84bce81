// Bilinear resize of a planar 8-bit RGB image to a thumbnail; threads beyond the picture leave at once.
extern "C" __global__ void resize_thumb(int sw, int sh, int dw, int dh, const unsigned char *__restrict__ src,
                                        unsigned char *__restrict__ out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= dw || y >= dh)
    return;
  float fx = ((float)x + 0.5f) * (float)sw / (float)dw - 0.5f, fy = ((float)y + 0.5f) * (float)sh / (float)dh - 0.5f;
  fx = fminf(fmaxf(fx, 0.0f), (float)(sw - 1));
  fy = fminf(fmaxf(fy, 0.0f), (float)(sh - 1));
  int x0 = (int)fx, y0 = (int)fy;
  int x1 = min(x0 + 1, sw - 1), y1 = min(y0 + 1, sh - 1);
  float ax = fx - (float)x0, ay = fy - (float)y0;
#pragma unroll
  for (int k = 0; k < 3; k++) {
    const unsigned char *p = src + (size_t)k * sw * sh;
    float top = (float)p[y0 * sw + x0] * (1.0f - ax) + (float)p[y0 * sw + x1] * ax;
    float low = (float)p[y1 * sw + x0] * (1.0f - ax) + (float)p[y1 * sw + x1] * ax;
    out[(k * dh + y) * dw + x] = (unsigned char)__float2int_rn(top * (1.0f - ay) + low * ay);
  }
}
