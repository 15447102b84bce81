// Each kernel does one thing that warplens does not model (test_unmodelled.py).
extern "C" {
__global__ void sleeps(float *x) { __nanosleep(1000000); x[threadIdx.x] = 1; }
__global__ void sleeps_so_long(float *x, int n) { __nanosleep(n); x[threadIdx.x] = 1; }
__global__ void prints(float *x) { if (threadIdx.x == 0) printf("%f\n", x[0]); x[threadIdx.x] = 1; }
__global__ void allocates(float *x) { float *p = (float *)malloc(64); p[0] = x[threadIdx.x]; x[threadIdx.x] = p[1]; free(p); }
__global__ void asserts(float *x) { if (!(x[threadIdx.x + blockIdx.x * 128] >= 0)) __assertfail("x", "f", 1, "g", 1); x[threadIdx.x] = 1; }
__global__ void __cluster_dims__(2, 1, 1) clusters(float *x) { x[threadIdx.x + blockDim.x * blockIdx.x] = 1; }
__global__ void arrives_in_cluster(float *x) {
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
  x[threadIdx.x] = 1;
}
__constant__ float table[16];
__global__ void reads_beyond(float *x, int n) { x[threadIdx.x] = table[n + threadIdx.x]; }
__global__ void reads_unwritten(float *x) {
  __shared__ int s[256];
  int n = s[threadIdx.x ^ 1];
  float a = 0;
  for (int i = 0; i < n; i++) a += x[i];
  s[threadIdx.x] = n + 1;
  x[threadIdx.x] = a;
}
__global__ void waits_for_clock(float *x, int n) {
  long long t = clock64();
  while (clock64() - t < n);
  x[threadIdx.x] = 1;
}
__global__ void waits_for_time(float *x, int n) {
  unsigned long long t, u;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(u)); while (u - t < n);
  x[threadIdx.x] = 1;
}
__global__ void waits_for_barrier(float *x) {
  __shared__ unsigned long long phase;
  unsigned b = __cvta_generic_to_shared(&phase), done = 0;
  unsigned long long t, u;
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(b), "r"(blockDim.x) : "memory");
  __syncthreads();
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(b) : "memory");
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  while (!done) {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(b) : "memory");
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(u));
    if (!done && u - t > 10000) __nanosleep(100);
  }
  x[threadIdx.x] = 1;
}
__global__ void waits_for_flag(volatile int *flag, float *x) { while (flag[0] == 0); x[threadIdx.x] = 1; }
__global__ void takes_lock(int *lock, float *x) {
  if (threadIdx.x == 0) { while (atomicCAS(lock, 0, 1) != 0); x[0] += 1; __threadfence(); atomicExch(lock, 0); }
}
__global__ void adds_by_swap(int *sum, float *x) {
  int old = sum[0], was;
  do { was = old; old = atomicCAS(sum, was, was * 2 + (int)x[threadIdx.x]); } while (was != old);
}
__global__ void loads_volatile(volatile float *x, float *y) {
  float a = 0;
  for (int i = 0; i < 64; i++) a += x[i & 7];
  y[threadIdx.x] = a;
}
__global__ void fences_system(float *x) { x[threadIdx.x] = 1; __threadfence_system(); x[threadIdx.x + 32] = 2; }
__global__ void fences_often(float *x) {
  for (int i = 0; i < 9; i++) { x[threadIdx.x + 32 * i] = 1; __threadfence(); }
}
__global__ void adds_system(int *x) { atomicAdd_system(x + threadIdx.x, 1); }
__global__ void depends(float *x) {
  asm volatile("griddepcontrol.wait;");
  x[threadIdx.x] = 1;
  asm volatile("griddepcontrol.launch_dependents;");
}
__global__ void takes_trips(int *n, float *x) {
  float a = 0;
  for (int i = 0; i < n[threadIdx.x]; i++) a += x[i];
  x[threadIdx.x] = a;
}
__global__ void stores_bulk(float *x) {
  __shared__ alignas(128) float s[256];
  unsigned a = __cvta_generic_to_shared(s);
  s[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 0)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;\ncp.async.bulk.commit_group;\n"
                 "cp.async.bulk.wait_group 0;" ::"l"(x), "r"(a) : "memory");
}
__global__ void stores_tensor(float *x) {
  __shared__ alignas(128) float s[256];
  unsigned a = __cvta_generic_to_shared(s);
  s[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 0)
    asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%2}], [%1];\n"
                 "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::"l"(x), "r"(a), "r"(0) : "memory");
}
__global__ void loads_tensor(float *x) {
  __shared__ alignas(128) float s[256];
  __shared__ unsigned long long phase;
  unsigned a = __cvta_generic_to_shared(s), b = __cvta_generic_to_shared(&phase);
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared.b64 [%2], 1;\n"
                 "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];"
                 ::"r"(a), "l"(x), "r"(b), "r"(0) : "memory");
}
__global__ void adds_in_cluster(float *x, int *y) {
  __shared__ int sums[4];
  unsigned long long there;
  if (threadIdx.x < 4) sums[threadIdx.x] = 0;
  __syncthreads();
  asm volatile("mapa.u64 %0, %1, 0;" : "=l"(there) : "l"(sums + threadIdx.x % 4));
  atomicAdd((int *)there, 1);
  __syncthreads();
  atomicAdd(y + threadIdx.x % 4, sums[threadIdx.x % 4]);
  x[threadIdx.x] = 1;
}
__global__ void prefetches(float *x) { asm volatile("prefetch.global.L2 [%0];" ::"l"(x + threadIdx.x * 32)); x[threadIdx.x] = 1; }
__global__ void samples(cudaTextureObject_t t, float *x) { x[threadIdx.x] = tex2D<float>(t, threadIdx.x, 1.0f); }
__global__ void takes_work(int *next, float *x) {
  for (;;) { int i = atomicAdd(next, 1); if (i >= 4096) break; x[i] *= 2; }
}
__constant__ int ntaps, unused;
__constant__ float taps[64];
__global__ void filters(float *x) {
  float a = 0;
  for (int k = 0; k < ntaps; k++) a += x[threadIdx.x + k] * taps[k];
  x[threadIdx.x] = a + unused;
}
__device__ int places[128];
__global__ void looks_up(float *x) { x[places[threadIdx.x]] = 1; }

// Nothing is to be said of these.
__constant__ int seven = 7;
__device__ float weights[128];
__global__ void weighs(float *x) {
  for (int k = 0; k < seven; k++) x[threadIdx.x + k] += weights[threadIdx.x] + taps[k] + taps[threadIdx.x & 63] + unused;
}
__global__ void stores_time(long long *x) {
  long long t = clock64();
  __syncthreads();
  x[threadIdx.x] = clock64() - t;
}
__global__ void writes_bytes_first(const unsigned char *x, float *y) {
  __shared__ unsigned char s[128];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (s[threadIdx.x ^ 1] > 100) y[threadIdx.x] = 1;
}
__global__ void writes_first(const int *x, float *y) {
  __shared__ int s[128];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (s[threadIdx.x ^ 1] > 100) y[threadIdx.x] = 1;
}
__global__ void counts(const int *x, int *bins) { atomicAdd(&bins[x[threadIdx.x + blockDim.x * blockIdx.x] & 63], 1); }
__global__ void sums(const float *x, float *y) {
  float a = x[threadIdx.x + blockDim.x * blockIdx.x];
  for (int i = 16; i; i >>= 1) a += __shfl_xor_sync(~0u, a, i);
  if (threadIdx.x % 32 == 0) y[(threadIdx.x + blockDim.x * blockIdx.x) / 32] = a;
}
}
__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void calls_itself(int *x) { x[threadIdx.x] = fibonacci(x[threadIdx.x] & 7); }
