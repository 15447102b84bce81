// Speckle-reducing diffusion of an image, first half: differences to four neighbours and the diffusion coefficient.
extern "C" __global__ void srad(int rows, int cols, float q0, const float *__restrict__ image, float *__restrict__ out_n,
                                float *__restrict__ out_s, float *__restrict__ out_w, float *__restrict__ out_e,
                                float *__restrict__ out_c) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= cols || y >= rows)
    return;
  int i = y * cols + x;
  float j = image[i] + 0.05f;
  float n = (y > 0 ? image[i - cols] + 0.05f : j) - j;
  float s = (y < rows - 1 ? image[i + cols] + 0.05f : j) - j;
  float w = (x > 0 ? image[i - 1] + 0.05f : j) - j;
  float e = (x < cols - 1 ? image[i + 1] + 0.05f : j) - j;
  float g2 = (n * n + s * s + w * w + e * e) / (j * j);
  float l = (n + s + w + e) / j;
  float num = 0.5f * g2 - 0.0625f * l * l;
  float den = 1.0f + 0.25f * l;
  float q = num / (den * den);
  float c = 1.0f / (1.0f + (q - q0) / (q0 * (1.0f + q0)));
  out_n[i] = n;
  out_s[i] = s;
  out_w[i] = w;
  out_e[i] = e;
  out_c[i] = fminf(fmaxf(c, 0.0f), 1.0f);
}
