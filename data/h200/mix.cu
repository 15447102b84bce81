// Volkov's instruction mixes on the GPU at hand: latency and throughput against occupancy and alpha.
//   nvcc -O3 -arch=sm_90 -o mix data/h200/mix.cu && ./mix > mix.json
// Each warp runs a chain: one load (or SFU or shared-memory access), then alpha adds of zero to the loaded
// index, so that all instructions are back to back dependent (dissertation §4.1, §5.1, §5.10). Loads stream
// through an array that no run visits twice. One block per SM up to 32 warps, two beyond. Every warp runs for
// the same number of cycles and counts its iterations, so that all warps are there all the time: throughput is
// the sum of the warps' rates, latency the mean of their cycles per iteration. Every repetition is printed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
enum Kind { LOAD, SFU, SHARED, NONE };

__global__ void fill(unsigned *p, size_t count, unsigned step) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
    p[i] = (unsigned)(i + step);
}

template <Kind KIND, int ALPHA, int ILP> __host__ __device__ constexpr int unrolled() {
  int per = (ALPHA + 2) * ILP, n = 1;
  // loops of some 500 instructions, as in §5.1, but of 8 loads at most: a trip is short against the whole run
  while (n * 2 * per <= 640 && (KIND != LOAD || n < 8)) n *= 2;
  return n;
}

template <Kind KIND, int ALPHA, int ILP>
__global__ void mix(const unsigned *p, unsigned section, int most, long long budget, float zero, unsigned long long *stamps, unsigned *sink) {
  extern __shared__ unsigned shared[];
  unsigned base = (unsigned)__cvta_generic_to_shared(shared);  // every access reads its own address there: broadcast
  if (KIND == SHARED) shared[0] = base;
  __syncthreads();
  unsigned x[ILP];
  for (int k = 0; k < ILP; k++)
    x[k] = KIND == LOAD ? (unsigned)(blockIdx.x * ILP + k) * section + threadIdx.x : KIND == SFU ? __float_as_uint(1.0f) : base;
  constexpr int UNROLL = unrolled<KIND, ALPHA, ILP>();
  unsigned long long t0, t1, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t0));
  unsigned long long c0 = clock64();
  int done = 0;
#pragma unroll 1
  do {
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
#pragma unroll
      for (int k = 0; k < ILP; k++) {
        if (KIND == LOAD) asm volatile("ld.global.u32 %0, [%1];" : "=r"(x[k]) : "l"(p + x[k]));
        if (KIND == SHARED) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x[k]) : "r"(x[k]));
        if (KIND == SFU) asm volatile("rsqrt.approx.ftz.f32 %0, %1;" : "=r"(x[k]) : "r"(x[k]));
        float f = __uint_as_float(x[k]);
#pragma unroll
        for (int a = 0; a < ALPHA; a++) asm volatile("add.f32 %0, %0, %1;" : "+f"(f) : "f"(zero));
        x[k] = __float_as_uint(f);
      }
    done += UNROLL;
    now = clock64();
  } while (done + UNROLL <= most && (long long)(now - c0) < budget);
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t1));
  if (threadIdx.x % 32 == 0) {
    size_t w = (blockIdx.x * (size_t)blockDim.x + threadIdx.x) / 32;
    stamps[4 * w] = now - c0; stamps[4 * w + 1] = done; stamps[4 * w + 2] = t0; stamps[4 * w + 3] = t1;
  }
  unsigned sum = 0;
  for (int k = 0; k < ILP; k++) sum += x[k];
  if (sum == 0xffffffffu) sink[0] = sum;
}

static unsigned *array, *sink;
static unsigned long long *stamps;
static size_t entries = (size_t)1 << 30;
static int sms, first = 1;

template <Kind KIND, int ALPHA, int ILP> void run(const char *name, int warps) {
  int blocks_per_sm = warps > 32 ? 2 : 1, threads = warps / blocks_per_sm * 32, blocks = sms * blocks_per_sm;
  size_t shared = (blocks_per_sm == 1 ? 120 : 100) * 1024;
  CHECK(cudaFuncSetAttribute(mix<KIND, ALPHA, ILP>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
  unsigned section = (unsigned)((entries - ((size_t)1 << 26)) / ((size_t)blocks * ILP)) / 32 * 32;
  int most = KIND == LOAD ? (int)(section / threads) - 1 : 1 << 30;
  std::vector<unsigned long long> host(4 * (size_t)blocks * threads / 32);
  for (int repetition = 0; repetition < 3; repetition++) {
    // also leaves the L2 cache full of the array's end, which no run reads
    if (KIND == LOAD) { fill<<<8192, 256>>>(array, entries, threads); CHECK(cudaDeviceSynchronize()); }
    mix<KIND, ALPHA, ILP><<<blocks, threads, shared>>>(array, section, most, KIND == LOAD ? 600000 : 4000000, 0.0f, stamps, sink);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(host.data(), stamps, host.size() * 8, cudaMemcpyDeviceToHost));
    double rate = 0, latency = 0, cycles = 0, ns = 0, slowest = 1e30, fastest = 0;
    for (size_t w = 0; w < host.size() / 4; w++) {
      double r = (double)host[4 * w + 1] / (double)host[4 * w];
      rate += r; latency += 1 / r; slowest = std::min(slowest, r); fastest = std::max(fastest, r);
      cycles += (double)host[4 * w]; ns += (double)(host[4 * w + 3] - host[4 * w + 2]);
    }
    printf("%s\n  {\"mix\": \"%s\", \"alpha\": %d, \"ilp\": %d, \"warps_per_sm\": %d, \"iterations_per_cycle_per_sm\": %.8f, "
           "\"mean_warp_cycles_per_iteration\": %.4f, \"fastest_over_slowest_warp\": %.3f, \"unroll\": %d, \"ghz\": %.4f}",
           first ? "" : ",", name, ALPHA, ILP, warps, rate / sms, latency / (host.size() / 4), fastest / slowest,
           unrolled<KIND, ALPHA, ILP>(), cycles / ns);
    first = 0;
  }
  fflush(stdout);
}

template <Kind KIND, int ALPHA, int ILP = 1> void sweep(const char *name) {
  for (int warps : {1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64}) run<KIND, ALPHA, ILP>(name, warps);
}

int main() {
  cudaDeviceProp d; CHECK(cudaGetDeviceProperties(&d, 0)); sms = d.multiProcessorCount;
  int driver; cudaDriverGetVersion(&driver);
  CHECK(cudaMalloc(&array, entries * 4)); CHECK(cudaMalloc(&stamps, (size_t)sms * 64 * 32)); CHECK(cudaMalloc(&sink, 4));
  printf("{\"gpu\": \"%s\", \"sms\": %d, \"driver\": %d, \"command\": \"nvcc -O3 -arch=sm_90 -o mix data/h200/mix.cu && ./mix\", \"samples\": [", d.name, sms, driver);
  for (int warm = 0; warm < 200; warm++) mix<NONE, 256, 1><<<sms, 1024>>>(array, 0, 1 << 30, 2000000, 0.0f, stamps, sink);
  CHECK(cudaDeviceSynchronize());
  sweep<NONE, 512>("add"); sweep<SFU, 0>("sfu"); sweep<SHARED, 0>("shared");
  sweep<LOAD, 0>("load"); sweep<LOAD, 0, 2>("load"); sweep<LOAD, 0, 4>("load");
  sweep<LOAD, 1>("load"); sweep<LOAD, 4>("load"); sweep<LOAD, 16>("load"); sweep<LOAD, 32>("load"); sweep<LOAD, 48>("load");
  sweep<LOAD, 64>("load"); sweep<LOAD, 96>("load"); sweep<LOAD, 128>("load"); sweep<LOAD, 256>("load"); sweep<LOAD, 512>("load");
  sweep<SFU, 1>("sfu"); sweep<SFU, 4>("sfu"); sweep<SFU, 8>("sfu"); sweep<SFU, 16>("sfu");
  sweep<SHARED, 1>("shared"); sweep<SHARED, 4>("shared"); sweep<SHARED, 8>("shared"); sweep<SHARED, 16>("shared");
  printf("\n]}\n");
}
