// What a short kernel's time is made of beside its work: launch, blocks coming, first instructions, last store.
extern "C" __global__ void empty() {}
extern "C" __global__ void store(float* out) { out[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f; }
extern "C" __global__ void store_n(float4* out, int n) {  // n lines of a warp, one behind the other
  for (int i = 0; i < n; i++)
    out[(blockIdx.x * n + i) * blockDim.x + threadIdx.x] = make_float4(1.0f, 2.0f, 3.0f, 4.0f);
}
extern "C" __global__ void copy(const float* x, float* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = x[i];
}
extern "C" __global__ void chase(const int* x, int* out, int n) {  // dependent loads
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = 0; i < n; i++) at = x[at];
  if (at == -1) *out = at;
}
extern "C" __global__ void spin(int* out, int cycles) {  // cycles of the SM's clock, no memory
  unsigned start, now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(start));
  do asm volatile("mov.u32 %0, %%clock;" : "=r"(now));
  while (now - start < (unsigned)cycles);
  if (cycles < 0) *out = 1;
}
extern "C" __global__ void straight(float* out, float a, float b) {  // N multiply-adds without a branch
  float x = a;
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(b));
  if (x == 1.5f) *out = x;
}
extern "C" __global__ void shared_bytes(int* out, int n) {
  extern __shared__ int s[];
  if (n > 0) {
    s[threadIdx.x] = n;
    __syncthreads();
    out[threadIdx.x] = s[n];
  }
}
extern "C" __global__ void registers(const float* x, float* out, int n) {  // some 120 registers, none used as n is 0
  if (n > 0) {
    float r[100];
#pragma unroll
    for (int i = 0; i < 100; i++) r[i] = x[i * n + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 100; i++) out[i * n + threadIdx.x] = r[i] * r[(i + 7) % 100];
  }
}
extern "C" __global__ void add_one(int* out) {
  if (threadIdx.x == 0) atomicAdd(out, 1);
}
extern "C" __global__ void barriers(int* out, int n) {
  for (int i = 0; i < n; i++) __syncthreads();
  if (n < 0) *out = 1;
}
extern "C" __global__ void store_some(int* out, int n) {  // the first n blocks store
  if (blockIdx.x < n) out[blockIdx.x * blockDim.x + threadIdx.x] = n;
}
extern "C" __global__ void load_some(const int* x, int* out, int n) {  // the first n blocks load and wait
  if (blockIdx.x < n && x[blockIdx.x * blockDim.x + threadIdx.x] == -1) *out = n;
}
extern "C" __global__ void load_unused(const int* x, int* out, int n) {  // a load that nobody waits for
  int got;
  asm volatile("ld.global.s32 %0, [%1];" : "=r"(got) : "l"(x + blockIdx.x * blockDim.x + threadIdx.x));
  if (n < 0) *out = got;
}
extern "C" __global__ void local_bytes(int* out, int n) {  // a stack that is touched
  int a[64];
  for (int i = 0; i < 64; i++) a[i] = i * n;
  for (int i = 0; i < n; i++) a[a[i] & 63] += i;
  if (a[n & 63] == -7) *out = a[n];
}
extern "C" __global__ void far_pages(const int* x, int* out, int stride) {  // each block reads another page
  if (x[(size_t)blockIdx.x * stride + threadIdx.x] == -1) *out = 1;
}
