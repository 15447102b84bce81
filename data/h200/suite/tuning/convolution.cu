// A 7 x 7 filter over an image with a border of 3; a thread makes TX x TY pixels of the block's tile. SHARED: the block
// reads its tile and the border around it into shared memory first. width is a multiple of BX * TX, height of BY * TY.
#ifndef BX
#define BX 32
#define BY 8
#define TX 1
#define TY 1
#define SHARED 1
#endif
#define SIZE 7
#define WIDTH (BX * TX)
#define HEIGHT (BY * TY)
__constant__ float filter[SIZE][SIZE] = {{.01f, .02f, .03f, .04f, .03f, .02f, .01f}, {.02f, .03f, .04f, .05f, .04f, .03f, .02f},
                                         {.03f, .04f, .05f, .06f, .05f, .04f, .03f}, {.04f, .05f, .06f, .07f, .06f, .05f, .04f},
                                         {.03f, .04f, .05f, .06f, .05f, .04f, .03f}, {.02f, .03f, .04f, .05f, .04f, .03f, .02f},
                                         {.01f, .02f, .03f, .04f, .03f, .02f, .01f}};

extern "C" __global__ void __launch_bounds__(BX *BY) convolution(int width, const float *in, float *out) {
  int pitch = width + SIZE - 1;
  const float *corner = in + blockIdx.y * HEIGHT * pitch + blockIdx.x * WIDTH;
#if SHARED
  __shared__ float tile[HEIGHT + SIZE - 1][WIDTH + SIZE - 1];
  for (int y = threadIdx.y; y < HEIGHT + SIZE - 1; y += BY)
    for (int x = threadIdx.x; x < WIDTH + SIZE - 1; x += BX)
      tile[y][x] = corner[y * pitch + x];
  __syncthreads();
#define AT(y, x) tile[y][x]
#else
#define AT(y, x) corner[(y) * pitch + (x)]
#endif
  float sum[TY][TX] = {};
#pragma unroll
  for (int row = 0; row < TY + SIZE - 1; ++row)
#pragma unroll
    for (int t = 0; t < TX; ++t)
#pragma unroll
      for (int j = 0; j < SIZE; ++j) {
        float pixel = AT(threadIdx.y * TY + row, threadIdx.x + t * BX + j);
#pragma unroll
        for (int y = 0; y < TY; ++y)
          if (row - y >= 0 && row - y < SIZE)
            sum[y][t] += filter[row - y][j] * pixel;
      }
#pragma unroll
  for (int y = 0; y < TY; ++y)
#pragma unroll
    for (int t = 0; t < TX; ++t)
      out[(blockIdx.y * HEIGHT + threadIdx.y * TY + y) * width + blockIdx.x * WIDTH + threadIdx.x + t * BX] = sum[y][t];
}
