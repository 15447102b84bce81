// What the special-function unit gives for given bit patterns; launched by measure.py.
#define KERNEL(NAME, PTX)                                                                        \
  extern "C" __global__ void NAME(const unsigned* in, unsigned* out, unsigned n) {               \
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                          \
    if (i >= n) return;                                                                          \
    float y, x = __uint_as_float(in[i]);                                                         \
    asm volatile(PTX " %0, %1;" : "=f"(y) : "f"(x));                                             \
    out[i] = __float_as_uint(y);                                                                 \
  }
KERNEL(mufu_rcp, "rcp.approx.ftz.f32")
KERNEL(mufu_rsq, "rsqrt.approx.ftz.f32")
KERNEL(mufu_sqrt, "sqrt.approx.ftz.f32")
KERNEL(mufu_ex2, "ex2.approx.ftz.f32")
KERNEL(mufu_lg2, "lg2.approx.ftz.f32")
KERNEL(mufu_sin, "sin.approx.ftz.f32")   // measure.py makes the factor 1 / (2 pi) before it 1
KERNEL(mufu_cos, "cos.approx.ftz.f32")
KERNEL(mufu_tanh, "tanh.approx.f32")

#define PAIR(NAME, PTX)                                                                          \
  extern "C" __global__ void NAME(const unsigned* in, unsigned* out, unsigned n) {               \
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                          \
    if (i >= n) return;                                                                          \
    unsigned y;                                                                                  \
    asm volatile(PTX " %0, %1;" : "=r"(y) : "r"(in[i]));                                         \
    out[i] = y;                                                                                  \
  }
PAIR(mufu_ex2_f16x2, "ex2.approx.f16x2")
PAIR(mufu_tanh_f16x2, "tanh.approx.f16x2")
PAIR(mufu_ex2_bf16x2, "ex2.approx.ftz.bf16x2")
PAIR(mufu_tanh_bf16x2, "tanh.approx.bf16x2")

#define WORD(NAME, PTX)                                                                          \
  extern "C" __global__ void NAME(const unsigned* in, unsigned* out, unsigned n) {               \
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                          \
    if (i >= n) return;                                                                          \
    double y, x = __hiloint2double(in[i], 0);                                                    \
    asm volatile(PTX " %0, %1;" : "=d"(y) : "d"(x));                                             \
    out[i] = __double2hiint(y);                                                                  \
  }
WORD(mufu_rcp64h, "rcp.approx.ftz.f64")
WORD(mufu_rsq64h, "rsqrt.approx.ftz.f64")
