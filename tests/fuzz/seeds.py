"""Healthy files of every kind, to be injured."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from warplens.core.errors import WarplensError
from warplens.machine.loader import FOLDER as MACHINES
from warplens.program import nvrtc, toolchain
from warplens.workload.loader import FOLDER, load_workload

LOOP = """
extern "C" __global__ void __launch_bounds__(128) loop(float *p, int n) {
  __shared__ float s[128];
  s[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < n; i++) p[i] = __expf(p[i]) * 2.5f + s[(i * 7) & 127];
}
"""
TWO = """
#include <stdint.h>
template <typename T> __device__ __noinline__ T half(T x) { return x / 3; }
template <int N> __global__ void scale(uint64_t *p, int n) { if (n % N) p[n] = half(p[n % 5]); else p[0] = N; }
template __global__ void scale<3>(uint64_t *, int);
__global__ void choose(int *p) {
  switch (*p) { case 0: p[1] = 7; break; case 1: p[2] += 5; break; case 2: p[3] ^= 3; break; case 3: p[5] = p[6]; }
}
"""
KEPLER = """
	code for sm_35
		Function : axpy
                                                               /* 0x08b0a0a0a0a08cc0 */
        /*0008*/           MOV R1, c[0x0][0x44];               /* 0x64c03c00089c0006 */
        /*0010*/           S2R R0, SR_CTAID.X;                 /* 0x86400000129c0002 */
        /*0018*/  {        IADD R2, R0, 0x1;                   /* 0xc0c00000009c0009 */
        /*0020*/           LD.E R3, [R4+0x10]  }
                                                               /* 0xc4800000001c100c */
        /*0028*/           ISETP.GE.AND P0, PT, R0, R2, PT;    /* 0x5b681c00281c001e */
        /*0030*/       @P0 BRA 0x18;                           /* 0x12007ffff000000c */
        /*0038*/           TEX.T R4, R4, 0x1, 2D, 0xf;         /* 0x600100078004040c */
                                                               /* 0x08b0a0a0a0a08cc0 */
        /*0048*/           ST.E [R4], R3;                      /* 0xe4800000001c100c */
        /*0050*/           EXIT;                               /* 0x18000000001c003c */
"""
PAPER = """
# bare lines
      MOV R2, 0x10;
loop: LD R1, [R1]          ; latency=512
      FADD R1, R1, R2; FMUL R3, R1, R1   // two on a row
      FROB.X R9, R3, R2
      ISETP.LT P0, R1, R2
  @P0 BRA loop
      ST [R4], R3
      HGMMA.64x16x16.F32 R24, gdesc[UR4], R24
      EXIT
"""
PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry loop(.param .u64 p, .param .u32 n) {
  .reg .pred %q; .reg .b32 %r<4>; .reg .f32 %f<3>; .reg .b64 %d<3>;
  ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n]; cvta.to.global.u64 %d2, %d1; mov.u32 %r2, 0;
again:
  ld.global.f32 %f1, [%d2]; fma.rn.f32 %f2, %f1, %f1, 0f3F800000; st.global.f32 [%d2], %f2;
  add.s32 %r2, %r2, 1; setp.lt.s32 %q, %r2, %r1;
  @%q bra again;
  ret;
}
"""
HOST = LOOP + "int main() { loop<<<1, 1>>>(nullptr, 1); return 0; }\n"
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")


def make(folder: Path) -> dict[str, list[Path]]:
    """Write the seeds into a folder; return them by kind. What needs a tool that is missing is left out."""
    made: dict[str, list[Path]] = {"kepler": [], "machine": [], "workload": [], "json": []}
    for name, text in (("offsets.sass", KEPLER), ("bare.txt", PAPER)):
        made["kepler"].append(_written(folder / name, text))
    for name in ("h200", "gtx980"):
        made["machine"].append(_written(folder / f"{name}.toml", (MACHINES / f"{name}.toml").read_text()))
    for name in ("volkov-listing-3.3", "hong-kim-figure12", "volkov-add-load", "kothapalli-program"):
        made["workload"].append(_written(folder / f"{name}.toml", (FOLDER / f"{name}.toml").read_text()))
        load_workload(name).save(folder / f"{name}.json")
        made["json"].append(folder / f"{name}.json")
    with contextlib.suppress(WarplensError):
        made.update(_compiled(folder))
    return made


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _compiled(folder: Path) -> dict[str, list[Path]]:
    made: dict[str, list[Path]] = {"cu": [], "cubin": [], "nvdisasm": [], "cuobjdump": [], "ptx": [], "fat": []}
    for name, text in (("loop", LOOP), ("two", TWO)):
        made["cu"].append(_written(folder / f"{name}.cu", text))
        for arch in ARCHITECTURES:
            cubin = folder / f"{name}-{arch}.cubin"
            nvrtc.compile_source(text, f"{name}.cu", arch, ["-lineinfo"], cubin)
            made["cubin"].append(cubin)
        cubin = folder / f"{name}-sm_90.cubin"
        for tool, arguments in (("nvdisasm", ["-c", "-g", "-hex"]), ("cuobjdump", ["-sass"])):
            path = folder / f"{name}-{tool}.sass"
            made[tool].append(_written(path, toolchain.run(tool, *arguments, cubin)))
    if shutil.which("gcc"):
        made["cu"].append(_written(folder / "host.cu", HOST))
    made["ptx"].append(_written(folder / "loop.ptx", PTX))
    made["fat"] = [_fat(folder, mode) for mode in ("none", "size")]
    made["program"] = _programs(folder, made["fat"])
    return made


def _fat(folder: Path, mode: str) -> Path:
    path = folder / f"{mode}.fatbin"
    images = [f"--image3=kind=elf,sm={arch[3:]},file={folder / f'loop-{arch}.cubin'}" for arch in ("sm_80", "sm_90")]
    compress = ["--compress-all", f"--compress-mode={mode}"] if mode != "none" else ["--compress-mode=none"]
    toolchain.run("fatbinary", "-64", f"--create={path}", *compress, *images, folder=folder)
    return path


def _programs(folder: Path, fat: list[Path]) -> list[Path]:
    """Build an object, a library and a program; without a host compiler, something that begins like one."""
    made = []
    arch = [f"-gencode=arch=compute_{n},code=sm_{n}" for n in (80, 90)]
    with contextlib.suppress(WarplensError):
        for name, how in (("host.o", "-c"), ("host.so", "-shared"), ("host", "-compress-mode=size")):
            toolchain.run("nvcc", how, *arch, "-Xcompiler", "-fPIC", "-o", name, "host.cu", folder=folder)
            made.append(folder / name)
    if not made:
        made.append(folder / "program")
        made[0].write_bytes(b"\x7fELF\x02\x01\x01" + bytes(505) + fat[0].read_bytes())
    return made
