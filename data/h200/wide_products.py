"""Write the CUDA source that times wide products (IMAD.WIDE, IMAD.HI) among adds and logic operations.

    python data/h200/wide_products.py > wide_products.cu
    nvcc -O3 -arch=sm_90 -o wide_products wide_products.cu && ./wide_products > data/h200/wide_products.json

A link is a product, `count` independent adds (FADD) or logic operations (LOP3), and one LOP3 that needs the product. A
block runs n and 2n turns of eight links; a sample has the cycles of one link of all warps, by difference.
"""

from collections.abc import Iterator

PRODUCTS = {
    "wide": "mul.wide.u32 w, %0, 12345; {} mov.b64 {{t, u}}, w; xor.b32 %0, t, u;",
    "high": "mul.hi.u32 t, %0, 12345; {} xor.b32 %0, t, %0;",
    "low": "mad.lo.u32 t, %0, %0, %0; {} xor.b32 %0, t, %0;",
}
FILLERS = {"fadd": ("f", "add.f32 %{0}, %{0}, 0f3F800000;"), "lop3": ("r", "lop3.b32 %{0}, %{0}, %0, %0, 0x2d;")}
COUNTS = (0, 1, 2, 3, 4, 6, 8, 12)

HEAD = """\
typedef unsigned u32;
typedef unsigned long long u64;
"""
KERNEL = """\
__global__ void __launch_bounds__(1024) {name}(u32 *out, u32 a, int turns) {{
  u32 x = a + threadIdx.x, t0, t1;
  {kind} f[12];
  for (int i = 0; i < 12; i++) f[i] = a + i;
  __syncthreads();
  t0 = clock();
#pragma unroll 1
  for (int j = 0; j < turns; j++) {{
#pragma unroll
    for (int i = 0; i < 8; i++) asm volatile("{{.reg .b64 w; .reg .b32 t, u; {body}}}" : {outputs});
  }}
  t1 = clock();
  {kind} s = 0;
  for (int i = 0; i < 12; i++) s += f[i];
  if (threadIdx.x % 32 == 0) out[2 * (threadIdx.x / 32)] = t0, out[2 * (threadIdx.x / 32) + 1] = t1;
  out[100 + threadIdx.x] = x + (u32)s;
}}
"""
MAIN = """\
typedef void (*Kernel)(u32 *, u32, int);
static u32 *out, h[64];
static bool first = true;
static u32 span(Kernel kernel, int warps, int turns) {
  u32 least = ~0u;
  for (int r = 0; r < 4; r++) {
    kernel<<<1, warps * 32>>>(out, 77777, turns);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    u32 lo = h[0], hi = h[1];
    for (int w = 1; w < warps; w++) lo = h[2 * w] < lo ? h[2 * w] : lo, hi = h[2 * w + 1] > hi ? h[2 * w + 1] : hi;
    if (r && hi - lo < least) least = hi - lo;
  }
  return least;
}
static void run(Kernel kernel, const char *product, const char *filler, int count) {
  for (int warps : {4, 8, 16, 32}) {
    double cycles = (span(kernel, warps, 128) - span(kernel, warps, 64)) / 512.0;
    printf("%s\\n  {\\"product\\": \\"%s\\", \\"filler\\": \\"%s\\", ", first ? "" : ",", product, filler);
    printf("\\"count\\": %d, \\"warps\\": %d, \\"cycles\\": %.3f}", count, warps, cycles);
    first = false;
  }
}
int main() {
  cudaDeviceProp p;
  cudaGetDeviceProperties(&p, 0);
  cudaMalloc(&out, 8192);
  printf("{\\"gpu\\": \\"%s\\", \\"samples\\": [", p.name);
"""


def loops() -> Iterator[tuple[str, dict[str, str | int], str]]:
    """Each kernel: its name, what is in it, its source."""
    for product, text in PRODUCTS.items():
        for filler, (letter, link) in FILLERS.items():
            for count in COUNTS:
                name, kind = f"{product}_{filler}_{count}", "float" if letter == "f" else "u32"
                body = text.format(" ".join(link.format(i + 1) for i in range(count)))
                outputs = ", ".join(['"+r"(x)', *(f'"+{letter}"(f[{i}])' for i in range(count))])
                source = KERNEL.format(name=name, kind=kind, body=body, outputs=outputs)
                yield name, {"product": product, "filler": filler, "count": count}, source


def main() -> None:
    """Print the source."""
    print("#include <cstdio>\n#include <cuda_runtime.h>\n" + HEAD)
    for _, _, source in loops():
        print(source)
    calls = (f'  run({name}, "{keys["product"]}", "{keys["filler"]}", {keys["count"]});' for name, keys, _ in loops())
    print(MAIN + "\n".join(calls) + '\n  printf("\\n]}\\n");\n}')


if __name__ == "__main__":
    main()
