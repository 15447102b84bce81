// Fourier transforms of 256 points (radix 4) or 512 points (radix 8), 64 threads each, in Stockham's order.
// Stresses shared memory with power-of-two strides, barriers, and the polynomials of sine and cosine.
__device__ float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ float2 operator-(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ float2 operator*(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
__device__ float2 turned(float2 a) { return make_float2(a.y, -a.x); } // by -i

__device__ void transform4(float2 &a, float2 &b, float2 &c, float2 &d) {
  float2 even = a + c, odd = a - c, sum = b + d, side = turned(b - d);
  a = even + sum;
  b = odd + side;
  c = even - sum;
  d = odd - side;
}

__device__ void transform(float2 (&v)[4]) { transform4(v[0], v[1], v[2], v[3]); }

__device__ void transform(float2 (&v)[8]) {
  const float root = 0.70710678f;
  float2 even[4] = {v[0], v[2], v[4], v[6]}, odd[4] = {v[1], v[3], v[5], v[7]};
  transform(even);
  transform(odd);
  odd[1] = make_float2(root * (odd[1].x + odd[1].y), root * (odd[1].y - odd[1].x));
  odd[2] = turned(odd[2]);
  odd[3] = make_float2(root * (odd[3].y - odd[3].x), -root * (odd[3].x + odd[3].y));
#pragma unroll
  for (int i = 0; i < 4; i++) {
    v[i] = even[i] + odd[i];
    v[i + 4] = even[i] - odd[i];
  }
}

// One pass of all: `done` points are already transformed together.
template <int RADIX> __device__ void pass(float2 (&v)[RADIX], float2 *line, int j, int done) {
  float2 turn, power = make_float2(1, 0);
  sincospif(-2.0f * (j % done) / (done * RADIX), &turn.y, &turn.x);
#pragma unroll
  for (int r = 1; r < RADIX; r++) {
    power = power * turn;
    v[r] = v[r] * power;
  }
  transform(v);
  __syncthreads();
  int to = j / done * done * RADIX + j % done;
#pragma unroll
  for (int r = 0; r < RADIX; r++)
    line[to + r * done] = v[r];
  __syncthreads();
}

template <int RADIX, int POINTS> __device__ void fft(const float2 *in, float2 *out, float2 *lines) {
  int j = threadIdx.x % 64, first = (blockIdx.x * (blockDim.x / 64) + threadIdx.x / 64) * POINTS;
  float2 *line = lines + threadIdx.x / 64 * POINTS, v[RADIX];
#pragma unroll
  for (int r = 0; r < RADIX; r++)
    v[r] = in[first + j + r * 64];
#pragma unroll
  for (int done = 1; done < POINTS; done *= RADIX) {
    pass<RADIX>(v, line, j, done);
#pragma unroll
    for (int r = 0; r < RADIX; r++)
      v[r] = line[j + r * 64];
  }
#pragma unroll
  for (int r = 0; r < RADIX; r++)
    out[first + j + r * 64] = v[r];
}

extern "C" __global__ void fft_radix4(const float2 *in, float2 *out) {
  extern __shared__ float2 lines[]; // 256 points for each 64 threads
  fft<4, 256>(in, out, lines);
}

extern "C" __global__ void fft_radix8(const float2 *in, float2 *out) {
  extern __shared__ float2 lines[]; // 512 points for each 64 threads
  fft<8, 512>(in, out, lines);
}
