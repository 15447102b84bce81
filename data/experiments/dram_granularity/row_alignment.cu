// Strips of a table, copied from top to bottom: each block has WIDTH words of every row, and takes TURNS turns of ONCE
// rows (for each of its rows of threads) that wait for their loads. Neighbours begin together and drift apart.
//   nvcc -O3 -arch=sm_90 -o drift data/experiments/dram_granularity/row_alignment.cu && ./drift > row_alignment.json
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
static const int WORDS = 4096, ROWS = 32768;  // of the table; a row begins `shift` words behind a line, `pitch` words apart

// KIND 0: load, 1: store, 2: copy.
template <int KIND, int WIDTH, int ONCE> __global__ void strips(const float *in, float *out, int turns, int pitch, int shift) {
  constexpr int THREADS = WIDTH < 128 ? 128 : WIDTH, HIGH = THREADS / WIDTH;
  int x = threadIdx.x % WIDTH, y = threadIdx.x / WIDTH;
  size_t at = (size_t)(blockIdx.y * turns * ONCE * HIGH + y) * pitch + blockIdx.x * WIDTH + x + shift;
  float sum = 0;
  for (int t = 0; t < turns; t++) {
    float v[ONCE];
#pragma unroll
    for (int k = 0; k < ONCE; k++) v[k] = KIND == 1 ? 1.0f : __ldcg(in + at + (size_t)k * HIGH * pitch);
#pragma unroll
    for (int k = 0; k < ONCE; k++) sum += v[k];
    if (KIND == 0 && sum == 12345.0f) { out[0] = sum; at++; }  // waits
#pragma unroll
    for (int k = 0; k < ONCE; k++) if (KIND) out[at + (size_t)k * HIGH * pitch] = v[k] + sum;
    if (KIND && sum == 12345.0f) at++;
    at += (size_t)ONCE * HIGH * pitch;
  }
}
static int printed = 0, counted = 0;
template <int KIND, int WIDTH, int ONCE> void run(const float *in, float *out, int turns, int shift) {
  constexpr int THREADS = WIDTH < 128 ? 128 : WIDTH, HIGH = THREADS / WIDTH;
  cudaEvent_t a, b; CHECK(cudaEventCreate(&a)); CHECK(cudaEventCreate(&b));
  dim3 grid(WORDS / WIDTH, ROWS / (turns * ONCE * HIGH)); float ms[2][5]; int pitch = WORDS + 2 * shift;
  for (int h = 0; h < 2; h++) for (int r = 0; r < (counted ? 1 : 6); r++) {  // half of the rows, and all
    dim3 part(grid.x, h ? grid.y : grid.y / 2);
    CHECK(cudaEventRecord(a)); strips<KIND, WIDTH, ONCE><<<part, THREADS>>>(in, out, turns, pitch, shift); CHECK(cudaEventRecord(b));
    CHECK(cudaEventSynchronize(b)); float t; CHECK(cudaEventElapsedTime(&t, a, b)); if (r) ms[h][r - 1] = t;
  }
  CHECK(cudaGetLastError());
  for (int h = 0; h < 2; h++) std::sort(ms[h], ms[h] + 5);
  double bytes = 4.0 * WORDS * ROWS / 2 * (KIND == 2 ? 2 : 1);
  static const char *kinds[] = {"load", "store", "copy"};
  printf("%s{\"kind\": \"%s\", \"words\": %d, \"rows_at_once\": %d, \"turns\": %d, \"shift\": %d, \"us\": [%.2f, %.2f], \"tb_per_s\": %.3f}", printed++ ? ",\n" : "\n",
         kinds[KIND], WIDTH, ONCE, turns, shift, ms[0][2] * 1e3, ms[1][2] * 1e3, bytes / (ms[1][2] - ms[0][2]) * 1e-9);
  fflush(stdout);
}
template <int WIDTH> void widths(const float *in, float *out) {
  for (int shift : {0, 1, 8}) for (int turns : {2, 4, 8, 16, 32}) {
    run<0, WIDTH, 1>(in, out, turns, shift); run<1, WIDTH, 1>(in, out, turns, shift); run<2, WIDTH, 1>(in, out, turns, shift);
    run<0, WIDTH, 4>(in, out, turns, shift); run<1, WIDTH, 4>(in, out, turns, shift); run<2, WIDTH, 4>(in, out, turns, shift);
  }
}
int main(int argc, char **) {
  counted = argc > 1;  // under ncu: a few, once
  float *in, *out; size_t bytes = (size_t)(WORDS + 16) * (ROWS + 1) * 4;
  CHECK(cudaMalloc(&in, bytes)); CHECK(cudaMalloc(&out, bytes)); CHECK(cudaMemset(in, 0, bytes)); CHECK(cudaMemset(out, 0, bytes));
  printf("{\"gpu\": \"NVIDIA H200\", \"points\": [");
  if (counted) {
    for (int shift : {0, 1, 8}) {
      run<2, 32, 1>(in, out, 4, shift); run<2, 32, 1>(in, out, 16, shift); run<2, 32, 4>(in, out, 16, shift);
      run<2, 256, 1>(in, out, 4, shift); run<2, 256, 1>(in, out, 16, shift); run<1, 32, 1>(in, out, 16, shift);
    }
  } else { widths<16>(in, out); widths<32>(in, out); widths<64>(in, out); widths<256>(in, out); widths<1024>(in, out); }
  printf("\n]}\n");
}
