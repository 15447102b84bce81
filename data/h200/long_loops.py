"""Cycles of a turn of a loop by the instructions that it has, up to 36 KiB: one warp, and two of a scheduler.

    python data/h200/long_loops.py build FOLDER    no GPU, the CUDA wheels: the kernel, and where its slots are
    python data/h200/long_loops.py run FOLDER OUT  on the GPU: OUT/long_loops.json.gz

So many NOPs, a branch to what ends the turn, 42 instructions, and the branch back. A row of `cycles` has for a case and
each warp those of three, four and twelve turns.
"""

import ctypes
import gzip
import json
import sys
from pathlib import Path

from issue_order import CONTROL, NOP, word

SLOTS, BEHIND, AGAIN, TURNS = 2400, 40, 2, (3, 4, 12)
FREE = 1 << 4 | 7 << 5 | 7 << 8  # a control code that neither yields nor waits


def source() -> str:
    """Return the kernel: a loop of as many additions as there are slots, and some more."""
    adds = 'asm volatile("add.f32 %0, %0, %1;" : "+f"(x) : "f"(y));\n' * (SLOTS + BEHIND)
    return f"""
typedef unsigned u32;
extern "C" __global__ void __launch_bounds__(512) long_loops(u32 *out, int turns, int warps) {{
  int warp = threadIdx.x / 32, group = warp / 4;
  if (warp % 4 || group >= warps) return;
  u32 begin, end; float x = warps, y = turns;
  asm volatile("barrier.sync 0, %0;" ::"r"(warps * 32) : "memory");
  asm volatile("mov.u32 %0, %%clock;" : "=r"(begin));
#pragma unroll 1
  for (int k = 0; k < turns; k++) {{
{adds}
  }}
  asm volatile("mov.u32 %0, %%clock;" : "=r"(end));
  if (threadIdx.x % 32 == 0) {{ out[2 * group] = begin; out[2 * group + 1] = end; out[16] = x; }}
}}
"""


def build(folder: Path) -> None:
    """Compile the kernel; keep it, and where its slots are: behind what counts the turns."""
    from warplens.program import load_program, nvrtc
    from warplens.program.cubin import parse_cubin

    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "long_loops.cubin"
    nvrtc.compile_source(source(), "long_loops.cu", "sm_90", [], file)
    adds = [x.offset for x in load_program(file, "long_loops").instructions if x.opcode == "FADD"][2 : 2 + SLOTS]
    assert adds == list(range(adds[0], adds[0] + 16 * SLOTS, 16))
    start = parse_cubin(file.read_bytes(), "long_loops").sections[".text.long_loops"].start
    (folder / "long_loops_slots.json").write_text(json.dumps({"at": start + adds[0]}))


def cases() -> list[tuple[int, int, int]]:
    """Return how many warps run how many NOPs of which stall."""
    lone = [(1, stall, count) for stall in (1, 2, 4) for count in range(8, 2300, 8 if stall == 2 else 16)]
    return lone + [(2, 4, count) for count in range(8, 1200, 16)]


def filled(cubin: bytes, at: int, stall: int, count: int) -> bytes:
    """Return the kernel with so many NOPs and a branch behind the slots."""
    made, skipped = bytearray(cubin), 4 * (SLOTS - 2 - count)
    branch = 0x3800000 << 64 | (skipped >> 8) << 34 | (skipped & 255) << 16 | 0x7947 | (FREE | 5) << CONTROL
    for i in range(SLOTS):
        bits = branch if i == count else word((NOP, (), stall if i < count else 4, False, 0), 0)
        made[at + 16 * i : at + 16 * i + 16] = bits.to_bytes(16, "little")
    return bytes(made)


def run(folder: Path, out: Path) -> None:
    """Run all cases."""
    import numpy as np
    from driver import Gpu

    gpu, cubin, rows = Gpu(), (folder / "long_loops.cubin").read_bytes(), list[list[list[int]]]()
    at = json.loads((folder / "long_loops_slots.json").read_text())["at"]
    stamps, host = gpu.memory(4096), np.zeros(17, np.uint32)
    for warps, stall, count in cases():
        module, kernel, row = ctypes.c_void_p(), ctypes.c_void_p(), list[list[int]]()
        gpu.call("cuModuleLoadData", ctypes.byref(module), filled(cubin, at, stall, count))
        gpu.call("cuModuleGetFunction", ctypes.byref(kernel), module, b"long_loops")
        for turns in TURNS:
            values = [stamps, ctypes.c_int(turns), ctypes.c_int(warps)]
            arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
            for _ in range(AGAIN):
                gpu.call("cuLaunchKernel", kernel, 1, 1, 1, 512, 1, 1, 0, None, arguments, None)
                gpu.wait()
            gpu.get(stamps, host)
            row.append([int(host[2 * w + 1] - host[2 * w]) for w in range(warps)])
        gpu.call("cuModuleUnload", module)
        rows.append(row)
    text = json.dumps({**gpu.about(), "command": "python data/h200/long_loops.py run FOLDER OUT", "cycles": rows}, separators=(",", ":"))
    (out / "long_loops.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    build(Path(sys.argv[2])) if sys.argv[1] == "build" else run(Path(sys.argv[2]), Path(sys.argv[3]))
