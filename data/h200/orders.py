"""Which warp of a scheduler goes first, to the cycle: up to four warps run the same hand-written code and stamp it.

    python data/h200/orders.py build FOLDER    no GPU, the CUDA wheels: the kernel, and where its slots are
    python data/h200/orders.py run FOLDER OUT  on the GPU: OUT/orders.json.gz

The code is 90 reads of the clock, each into a register of its own, so that every issue of every warp is known from one
run. A read takes its unit, which LOP3 shares, for two cycles. Some codes have other instructions among the reads, which
are not stamped. A row: the code (`C2y`: a read with a stall of two that yields; S is LDS, I IMAD, H HFMA2), and the
clocks of each warp, from the last one's begin on. While one warp is looked at the others run the code for longer.
"""

import ctypes
import gzip
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from issue_order import CLOCK, OPS, Slot, word

SLOTS, MORE, AGAIN = 90, 8, 3
RZ = 255
KINDS = {"S": ("LDS", (RZ,)), "I": ("IMAD", (RZ,) * 3), "H": ("HFMA2", (RZ,) * 3)}
UNIFORM = 50  # what goes to a uniform register goes to this one
OPS["LDS"] = (0x800 << 64 | 0x7984, (16, 24))  # without an offset
Program = list[tuple[str, int, bool]]  # kind, stall, whether it yields
Kinds = dict[str, tuple[str, tuple[int, ...]]]  # of instructions that are not reads of the clock: name, sources


def source() -> str:
    """Return the kernel: warps of one scheduler meet, and read the clock in a loop."""
    reads = "\n".join(f'asm volatile("mov.u32 %0, %%clock;" : "=r"(t[{i}]));' for i in range(SLOTS))
    return f"""
typedef unsigned u32;
extern "C" __global__ void __launch_bounds__(512) orders(u32 *out, int turns, int warps, int seen, int more) {{
  int warp = threadIdx.x / 32, group = warp / 4;
  if (warp % 4 || group >= warps) return;
  u32 t[{SLOTS}], begin;
  if (group != seen) turns += more;
  asm volatile("barrier.sync 0, %0;" ::"r"(warps * 32) : "memory");
  asm volatile("mov.u32 %0, %%clock;" : "=r"(begin));
#pragma unroll 1
  for (int k = 0; k < turns; k++) {{
{reads}
  }}
  if (threadIdx.x % 32 == 0) {{
#pragma unroll
    for (int i = 0; i < {SLOTS}; i++) out[group * {SLOTS + 1} + i] = t[i];
    out[group * {SLOTS + 1} + {SLOTS}] = begin;
  }}
}}
"""


def programs() -> list[tuple[int, Program]]:
    """Return the codes, and how many warps run each."""
    chance, made = random.Random(5), list[tuple[int, Program]]()
    for n in (2, 3, 4):
        made += [(n, [("C", stall, y)] * SLOTS) for stall in (1, 2, 3, 4, 5, 6, 8) for y in (True, False)]
        for stalls in ((2, 3), (1, 2, 3, 4), (3, 4, 5), (2, 3, 4, 5, 6, 7, 8)):
            for share in (1.0, 0.5):
                made.append((n, [("C", chance.choice(stalls), chance.random() < share) for _ in range(SLOTS)]))
        for kind in KINDS:
            for every in (3, 5, 8):
                code = [kind if i % every == every - 1 else "C" for i in range(SLOTS)]
                made.append((n, [(x, chance.choice((2, 3, 4)), True) for x in code]))
    return made


def text(code: Program) -> str:
    """Write a code down."""
    return " ".join(f"{kind}{stall}{'y' * y}" for kind, stall, y in code)


def build(folder: Path) -> None:
    """Compile the kernel; keep it, where its slots are, and into which registers they read."""
    from warplens.program import load_program, nvrtc
    from warplens.program.cubin import parse_cubin

    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "orders.cubin"
    nvrtc.compile_source(source(), "orders.cu", "sm_90", [], file)
    code, data = load_program(file, "orders").instructions, file.read_bytes()
    start = parse_cubin(data, "orders").sections[".text.orders"].start
    reads = [x for x in code if "SR_CLOCKLO" in x.text][1:]
    assert [x.offset for x in reads] == list(range(reads[0].offset, reads[0].offset + 16 * SLOTS, 16))
    at = start + reads[0].offset
    clock = int.from_bytes(data[at : at + 16], "little") & ((1 << 105) - 1) & ~(255 << 16)
    about = {"at": at, "clock": f"{clock:x}", "registers": [int(x.text.split()[1][1:-1]) for x in reads]}
    (folder / "orders_slots.json").write_text(json.dumps(about))


def placed(cubin: bytes, about: dict[str, Any], slots: list[Slot]) -> bytes:
    """Return the kernel with these instructions in its slots."""
    made = bytearray(cubin)
    for i, slot in enumerate(slots):
        place = about["at"] + 16 * i
        made[place : place + 16] = word(slot, int(about["clock"], 16)).to_bytes(16, "little")
    return bytes(made)


def filled(cubin: bytes, about: dict[str, Any], code: Program, kinds: Kinds) -> bytes:
    """Return the kernel with this code in its slots."""
    slots = list[Slot]()
    for (kind, stall, yields), register in zip(code, about["registers"], strict=True):
        what, sources = kinds.get(kind, (CLOCK, ()))
        slots.append((what, (UNIFORM if what.startswith("U") else register, *sources), stall, yields, 0))
    return placed(cubin, about, slots)


def filler(kinds: Kinds) -> Callable[[bytes, dict[str, Any], Program], bytes]:
    """Return what fills the kernel's slots with instructions of these kinds."""
    return lambda cubin, about, code: filled(cubin, about, code, kinds)


def traces(
    gpu: Any, folder: Path, codes: list[tuple[int, list[Any]]], fill: Callable[[bytes, dict[str, Any], Any], bytes]
) -> list[list[list[int]]]:
    """Run codes, once for each warp that is looked at; return the clocks of each code's warps."""
    import numpy as np

    cubin, stamps, found = (folder / "orders.cubin").read_bytes(), gpu.memory(4096), list[list[list[int]]]()
    about, host = json.loads((folder / "orders_slots.json").read_text()), np.zeros((4, SLOTS + 1), np.uint32)
    for n, code in codes:
        module, kernel, clocks = ctypes.c_void_p(), ctypes.c_void_p(), list[list[int]]()
        gpu.call("cuModuleLoadData", ctypes.byref(module), fill(cubin, about, code))
        gpu.call("cuModuleGetFunction", ctypes.byref(kernel), module, b"orders")
        read = [i for i, slot in enumerate(code) if slot[0] in ("C", CLOCK)]
        for seen in range(n):
            values = [stamps, *(ctypes.c_int(v) for v in (1, n, seen, MORE))]
            arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
            for _ in range(AGAIN):
                gpu.call("cuLaunchKernel", kernel, 1, 1, 1, 512, 1, 1, 4096, None, arguments, None)
                gpu.wait()
            gpu.get(stamps, host)
            clocks.append((host[seen, read] - host[n - 1, SLOTS]).astype(np.int32).tolist())
        gpu.call("cuModuleUnload", module)
        found.append(clocks)
    return found


def run(folder: Path, out: Path) -> None:
    """Run all codes."""
    from driver import Gpu

    gpu, codes = Gpu(), programs()
    rows = [[text(code), clocks] for (_, code), clocks in zip(codes, traces(gpu, folder, codes, filler(KINDS)), strict=True)]
    made = json.dumps({**gpu.about(), "rows": rows}, separators=(",", ":"))
    (out / "orders.json.gz").write_bytes(gzip.compress(made.encode(), mtime=0))


if __name__ == "__main__":
    command: dict[str, Callable[..., None]] = {"build": build, "run": run}
    command[sys.argv[1]](*map(Path, sys.argv[2:]))
