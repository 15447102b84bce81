"""What products of warp groups cost arithmetic beside them: a warp of each scheduler makes products, another one adds.

    python data/h200/products.py build FOLDER   no GPU, the CUDA wheels: the kernels; products_code.json.gz
    python data/h200/products.py run FOLDER OUT on the GPU: OUT/products.json

A row is the columns of a product, where its first factor and what its sums are (`shared`, `registers`, `half`: both in
shared memory, sums of 16 bits), the arithmetic beside it, how many times 16 products are made (none: the arithmetic
alone), cycles of a turn of the arithmetic (64 instructions), and of 16 products.
"""

import ctypes
import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CODE = HERE / "products_code.json.gz"
COLUMNS, FACTORS, GROUPS, TURNS = (64, 128), ("shared", "registers", "half"), 120, 400
SUMS = '"+f"(x0),"+f"(x1),"+f"(x2),"+f"(x3)'
MORE = ',"+f"(x4),"+f"(x5),"+f"(x6),"+f"(x7):"f"(y0),"f"(y1),"f"(y2),"f"(y3)'
FADD4 = "".join(f"add.f32 %{i},%{i},%4;" for i in range(4))
FMUL8 = "".join(f"mul.f32 %{i},%{i},%{8 + i % 4};" for i in range(8))
FFMA8 = "".join(f"fma.rn.f32 %{i},%{i},%{8 + i % 4},%{8 + (i + 1) % 4};" for i in range(8))
BESIDE = {  # how often, what
    "none": (0, ""), "fadd4": (16, f'asm volatile("{FADD4}":{SUMS}:"f"(y0));'),
    "fmul8": (8, f'asm volatile("{FMUL8}":{SUMS}{MORE});'), "ffma8": (8, f'asm volatile("{FFMA8}":{SUMS}{MORE});'),
    "fadd1": (64, 'asm volatile("add.f32 %0,%0,%1;":"+f"(x0):"f"(y0));'),
}  # fmt: skip


def product(columns: int, factor: str) -> str:
    """Return a product of 64 rows and 16 in depth."""
    half = factor == "half"
    sums = columns // 4 if half else columns // 2
    first = f"{{%{sums},%{sums + 1},%{sums + 2},%{sums + 3}}}" if factor == "registers" else f"%{sums}"
    second = sums + (4 if factor == "registers" else 1)
    kinds = f"m64n{columns}k16.{'f16' if half else 'f32'}.f16.f16"
    into = ",".join(f"%{i}" for i in range(sums))
    ends = "0;" if factor == "registers" else "0, 0;"
    outs = ",".join(f'"+r"(h[{i}])' if half else f'"+f"(c[{i}])' for i in range(sums))
    given = '"r"(a0),"r"(a1),"r"(a2),"r"(a3)' if factor == "registers" else '"l"(da)'
    text = f"wgmma.mma_async.sync.aligned.{kinds} {{{into}}}, {first}, %{second}, 1, 1, 1, {ends}"
    return f'asm volatile("{text}" : {outs} : {given},"l"(db));'


def kernel(columns: int, factor: str, beside: str) -> str:
    """Return a kernel: the first four warps make products, the others go through the loop beside."""
    times, what = BESIDE[beside]
    sums, halves = columns // 2, columns // 4
    clock = 'asm volatile("mov.u32 %0,%%clock;":"=r"({})::"memory");'
    return f"""
extern "C" __global__ void __launch_bounds__(256)
    {factor}{columns}_{beside}(u32 *out, const float *in, int turns, int groups) {{
  extern __shared__ __align__(1024) char shared[];
  u32 place = (u32)__cvta_generic_to_shared(shared), t0, t1;
  u64 da = ((u64)(place >> 4) & 0x3fff) | (1ull << 16) | (64ull << 32) | (1ull << 62), db = da + 512;
  for (int i = threadIdx.x; i < 8192; i += 256) ((u32 *)shared)[i] = 0;
  __syncthreads();
  if (threadIdx.x < 128) {{
    float c[{sums}]; u32 h[{halves}], a0 = in[0], a1 = in[1], a2 = in[2], a3 = in[3], made = 0;
    for (int i = 0; i < {sums}; i++) c[i] = 0;
    for (int i = 0; i < {halves}; i++) h[i] = 0;
    asm volatile("fence.proxy.async;"); {clock.format("t0")}
    for (int t = 0; t < groups; t++) {{
      asm volatile("wgmma.fence.sync.aligned;":::"memory");
      {" ".join([product(columns, factor)] * 16)}
      asm volatile("wgmma.commit_group.sync.aligned;":::"memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;":::"memory"); made++;
    }}
    {clock.format("t1")}
    float s = 0;
    for (int i = 0; i < {sums}; i++) s += c[i];
    for (int i = 0; i < {halves}; i++) s += h[i];
    if (threadIdx.x % 32 == 0) {{ out[4 * (threadIdx.x / 32)] = t1 - t0; out[4 * (threadIdx.x / 32) + 1] = made; }}
    if (s == 1234.f) out[999] = 1;
  }} else {{
    float x0 = in[0], x1 = in[1], x2 = in[2], x3 = in[3], x4 = in[4], x5 = in[5], x6 = in[6], x7 = in[7];
    float y0 = in[8], y1 = in[9], y2 = in[10], y3 = in[11];
    {clock.format("t0")}
#pragma unroll 1
    for (int t = 0; t < turns; t++) {{
#pragma unroll
      for (int j = 0; j < {times}; j++) {{ {what} }}
    }}
    {clock.format("t1")}
    if (threadIdx.x % 32 == 0) out[4 * (threadIdx.x / 32)] = t1 - t0;
    if (x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7 == 1234.f) out[998] = 1;
  }}
}}"""


def _loops(code: Any) -> tuple[list[Any], list[Any]]:
    """Return the instructions of the loop of products and of the one beside."""
    places = {x.offset: i for i, x in enumerate(code)}
    ends = ((places.get(x.target, i), i + 1) for i, x in enumerate(code) if x.opcode == "BRA" and x.target is not None)
    found = [code[first:end] for first, end in ends if first < end - 1]
    products = [loop for loop in found if any(x.opcode == "HGMMA" for x in loop)]
    beside = [loop for loop in found if sum(x.opcode in ("FADD", "FMUL", "FFMA") for x in loop) >= 60]
    return max(products, key=len), beside[0] if beside else []


def build(folder: Path) -> None:
    """Compile the kernels; keep the code of their loops."""
    import msgspec

    from warplens.program import load_programs, nvrtc

    folder.mkdir(parents=True, exist_ok=True)
    source = "typedef unsigned u32; typedef unsigned long long u64;"
    source += "".join(kernel(n, factor, beside) for n in COLUMNS for factor in FACTORS for beside in BESIDE)
    file, loops = folder / "products.cubin", {}
    made_by = nvrtc.compile_source(source, "products.cu", "sm_90a", [], file)
    for name, program in load_programs(file).items():
        if name.endswith("8"):  # products beside FMUL and FFMA
            both = _loops(program.instructions)
            kept = [[msgspec.structs.replace(x, operands=(), line=None) for x in loop] for loop in both]
            loops[name] = msgspec.to_builtins(kept)
    content = {"command": "python data/h200/products.py build", "compiler": made_by, "arch": "sm_90a", "loops": loops}
    CODE.write_bytes(gzip.compress(msgspec.json.encode(content), mtime=0))


def run(folder: Path, out: Path) -> None:
    """Run each kernel with products and without."""
    import numpy as np
    from driver import Gpu

    gpu, module, rows = Gpu(), ctypes.c_void_p(), []
    gpu.call("cuModuleLoadData", ctypes.byref(module), (folder / "products.cubin").read_bytes())
    clocks, data, host = gpu.memory(65536), gpu.memory(65536), np.zeros(32, np.uint32)
    for n, factor, beside, groups in (
        (n, f, b, g) for n in COLUMNS for f in FACTORS for b in BESIDE for g in (0, GROUPS)
    ):
        turns, function = TURNS if BESIDE[beside][0] else 0, ctypes.c_void_p()
        gpu.call("cuModuleGetFunction", ctypes.byref(function), module, f"{factor}{n}_{beside}".encode())
        gpu.call("cuFuncSetAttribute", function, 8, 65536)  # as much shared memory as that
        values = [clocks, data, ctypes.c_int(turns), ctypes.c_int(groups)]
        arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        for _ in range(2):  # the first brings the code
            gpu.call("cuLaunchKernel", function, 1, 1, 1, 256, 1, 1, 65536, None, arguments, None)
            gpu.wait()
        gpu.get(clocks, host)
        rows.append([n, factor, beside, groups, int(host[16]) / max(turns, 1), int(host[0]) / max(groups, 1)])
    (out / "products.json").write_text(json.dumps({**gpu.about(), "turns": TURNS, "rows": rows}) + "\n")


if __name__ == "__main__":
    command: dict[str, Callable[..., None]] = {"build": build, "run": run}
    command[sys.argv[1]](*map(Path, sys.argv[2:]))
