// Whether what DRAM brings into L2 takes from L2's own rate: a stream from DRAM beside loads that hit in L2.
//   nvcc -O3 -arch=sm_90 -o fills data/h200/fills.cu && ./fills > fills.json
// A turn of a warp has `far` loads of new lines and `near` loads of an array of 16 MiB, which L2 keeps; nothing is kept in L1.
// wide: 16 bytes per lane. apart: 4 bytes per lane, each in a sector of its own (32 sectors of 8 lines).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
constexpr size_t NEAR = size_t(16) << 20, FAR = size_t(4) << 30;
constexpr int BLOCKS = 132 * 2, THREADS = 1024;

__device__ __forceinline__ float got(const char *p, bool wide) {
  if (wide) { float4 v = __ldcg((const float4 *)p); return v.x + v.w; }
  return __ldcg((const float *)p);
}

template <int FARS, int NEARS, bool WIDE> __global__ void __launch_bounds__(THREADS) both(const char *far, const char *near, int turns, float *out) {
  constexpr size_t EACH = WIDE ? 512 : 1024;  // bytes that a load of a warp lies over
  size_t warp = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, warps = size_t(BLOCKS) * THREADS / 32, lane = threadIdx.x % 32 * (WIDE ? 16 : 32);
  float sum = 0;
  size_t f = warp * EACH + lane, n = (warp * EACH * 7 + lane) % NEAR;
#pragma unroll 1
  for (int t = 0; t < turns; t++) {
    float a[FARS + NEARS];
#pragma unroll
    for (int k = 0; k < FARS; k++) { a[k] = got(far + f, WIDE); f = (f + warps * EACH) % FAR; }
#pragma unroll
    for (int k = 0; k < NEARS; k++) { a[FARS + k] = got(near + n, WIDE); n = (n + warps * EACH) % NEAR; }
#pragma unroll
    for (int k = 0; k < FARS + NEARS; k++) sum += a[k];
  }
  if (sum == 123.456f) *out = sum;
}

static bool comma = false;
template <int FARS, int NEARS, bool WIDE> void point(const char *far, const char *near, float *out) {
  int turns = 4096 / (FARS * 4 + NEARS) / (WIDE ? 1 : 2) + 8;
  float us[2];
  for (int twice = 0; twice < 2; twice++) {
    us[twice] = 1e30f;
    cudaEvent_t a, b; CHECK(cudaEventCreate(&a)); CHECK(cudaEventCreate(&b));
    for (int k = 0; k < 4; k++) {
      CHECK(cudaEventRecord(a)); both<FARS, NEARS, WIDE><<<BLOCKS, THREADS>>>(far, near, turns << twice, out); CHECK(cudaEventRecord(b));
      CHECK(cudaEventSynchronize(b)); float ms; CHECK(cudaEventElapsedTime(&ms, a, b)); us[twice] = std::min(us[twice], 1e3f * ms);
    }
  }
  CHECK(cudaGetLastError());
  double sectors = double(turns) * BLOCKS * THREADS / 32 * (WIDE ? 16 : 32), t = us[1] - us[0];
  printf("%s{\"lanes\": \"%s\", \"far\": %d, \"near\": %d, \"us\": %.2f, \"far_bytes_per_second\": %.4g, \"near_bytes_per_second\": %.4g}",
         comma ? ",\n" : "", WIDE ? "wide" : "apart", FARS, NEARS, t, 32e6 * sectors * FARS / t, 32e6 * sectors * NEARS / t);
  comma = true;
}
template <bool WIDE> void all(const char *far, const char *near, float *out) {
  point<1, 0, WIDE>(far, near, out); point<4, 0, WIDE>(far, near, out); point<4, 1, WIDE>(far, near, out); point<2, 1, WIDE>(far, near, out);
  point<2, 2, WIDE>(far, near, out); point<1, 2, WIDE>(far, near, out); point<1, 3, WIDE>(far, near, out); point<1, 5, WIDE>(far, near, out);
  point<0, 4, WIDE>(far, near, out); point<0, 8, WIDE>(far, near, out);
}
int main() {
  char *far, *near; float *out;
  CHECK(cudaMalloc(&far, FAR)); CHECK(cudaMalloc(&near, NEAR)); CHECK(cudaMalloc(&out, 4)); CHECK(cudaMemset(far, 0, FAR)); CHECK(cudaMemset(near, 0, NEAR));
  printf("{\"gpu\": \"NVIDIA H200\", \"command\": \"./fills\", \"points\": [\n");
  all<true>(far, near, out); all<false>(far, near, out);
  puts("]}");
}
