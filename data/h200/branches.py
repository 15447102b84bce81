"""When the target of a branch issues where up to four warps of a scheduler branch within a few cycles of each other.

    python data/h200/branches.py build FOLDER    no GPU, the CUDA wheels: the kernel, and where its slots are
    python data/h200/branches.py run FOLDER OUT  on the GPU: OUT/branches.json.gz

The warps meet at a barrier, run a straight code until their issues are counted alike, and jump over NOPs so that they
come apart; then nothing happens for a while, and all branch. A row of `clocks` has for a case and each warp the reads
of the clock from before it comes apart on: one before its branch, at the target, and at the next lines.
"""

import ctypes
import gzip
import json
import random
import sys
from pathlib import Path
from typing import Any

from issue_order import CLOCK, CONTROL, NOP, word

READS, ADDS, AGAIN, TURNS = 20, 196, 2, 3
LONGEST = 11  # stall of a NOP that does not yield
LINE = 8  # instructions
COUNTED = 80  # instructions of the straight code
ALWAYS = 7  # the predicate of what is always taken
FREE = 7 << 5 | 7 << 8  # a control code that waits for nothing
Slot = tuple[Any, ...]  # C, N: a stall, whether it yields; P: a number of a warp; J: how many it skips, its predicate


def source() -> str:
    """Return the kernel: in each turn warps of one scheduler meet."""
    reads = "\n".join(f'asm volatile("mov.u32 %0, %%clock;" : "=r"(t[{i}]));' for i in range(READS))
    adds = 'asm volatile("add.f32 %0, %0, %1;" : "+f"(x) : "f"(y));\n' * ADDS
    return f"""
typedef unsigned u32;
extern "C" __global__ void __launch_bounds__(512) branches(u32 *out, int turns, int warps) {{
  int warp = threadIdx.x / 32, group = warp / 4;
  if (warp % 4 || group >= warps) return;
  u32 t[{READS}]; float x = warps, y = turns;
#pragma unroll 1
  for (int k = 0; k < turns; k++) {{
  asm volatile("barrier.sync 0, %0;" ::"r"(warps * 32) : "memory");
{reads}
{adds}
  }}
  if (threadIdx.x % 32 == 0) {{
#pragma unroll
    for (int i = 0; i < {READS}; i++) out[group * {READS + 1} + i] = t[i];
    out[group * {READS + 1} + {READS}] = x;
  }}
}}
"""


def build(folder: Path) -> None:
    """Compile the kernel; keep it, where its slots are, into which registers they read, and what ends a turn."""
    from warplens.program import load_program, nvrtc
    from warplens.program.cubin import parse_cubin

    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "branches.cubin"
    nvrtc.compile_source(source(), "branches.cu", "sm_90", [], file)
    code, data = load_program(file, "branches").instructions, file.read_bytes()
    start = parse_cubin(data, "branches").sections[".text.branches"].start

    def bits(x: Any) -> int:
        return int.from_bytes(data[start + x.offset : start + x.offset + 16], "little") & ((1 << CONTROL) - 1)

    reads = [x for x in code if "SR_CLOCKLO" in x.text]
    behind = [x for x in code if x.offset > reads[0].offset]
    add, compare, last = (next(x for x in behind if name in x.text) for name in ("UIADD3", "ISETP.LE", "BRA"))
    number = next(x for x in code if x.text.startswith("SHF.R.U32.HI"))
    about = {
        "at": start + reads[0].offset, "place": reads[0].offset // 16 % LINE, "slots": (last.offset - reads[0].offset) // 16 - 2,
        "clock": f"{bits(reads[0]) & ~(255 << 16):x}", "add": f"{bits(add):x}", "compare": f"{bits(compare):x}",
        "number": int(number.text.split()[1][1:-1]), "registers": [int(x.text.split()[1][1:-1]) for x in reads],
    }  # fmt: skip
    (folder / "branches_slots.json").write_text(json.dumps(about))


PLACE, SLOTS = 7, 216  # of the compiled kernel: where the first slot is in its line, and how many there are


def code(delays: list[int], takers: list[int], branch: int, target: int, gap: int, wait: int, after: int) -> list[Slot]:
    """Return the slots: `branch` and `target` are places in a line, `takers` the predicates of those that skip a delay."""
    slots: list[Slot] = [("C", 4, False), *[("N", 4, True)] * COUNTED, ("C", 4, False)]
    for k, (cycles, predicate) in enumerate(zip(delays, takers, strict=True), 1):
        waits = [LONGEST] * (cycles // LONGEST) + [cycles % LONGEST] * (cycles % LONGEST > 0)
        slots += [("P", k), ("J", len(waits), predicate), *(("N", w, False) for w in waits)]
    slots += [("N", LONGEST, False)] * 5
    while (len(slots) + 2 + PLACE) % LINE != branch:
        slots.append(("N", LONGEST, False))
    slots += [("C", LONGEST, False), ("N", wait, False)]
    skipped = gap
    while (len(slots) + 1 + skipped + PLACE) % LINE != target:
        skipped += 1
    slots += [("J", skipped, ALWAYS), *[("N", 3, False)] * skipped, ("C", after, False)]
    for _ in range(19):
        slots.append(("C" if (len(slots) + PLACE) % LINE == 0 else "N", after, False))
    slots += [("N", LONGEST, False)] * 4
    return slots + [("N", 4, False)] * (SLOTS - len(slots))


def cases() -> list[tuple[int, list[Slot]]]:
    """Return how many warps run which slots."""
    made, chance = list[tuple[int, list[Slot]]](), random.Random(4)
    for branch, target in ((4, 0), (4, 5), (4, 7), (7, 0), (7, 7)):
        for taker in (1, 9):
            made += [(2, code([d], [taker], branch, target, 6, 6 + 3 * (d % 2), 11)) for d in range(1, 36)]
    for warps, branch, target in ((3, 4, 2), (3, 7, 1), (3, 5, 7), (4, 4, 2), (4, 7, 1), (4, 5, 7)):
        for _ in range(150):
            delays = [chance.randrange(1, 24) for _ in range(warps - 1)]
            takers = [chance.choice((1, 9)) for _ in range(warps - 1)]
            how = chance.choice((0, 6)), chance.choice((6, 7, 8, 9)), chance.choice((9, 10, 11))
            made.append((warps, code(delays, takers, branch, target, *how)))
    return made


def filled(cubin: bytes, about: dict[str, Any], slots: list[Slot]) -> bytes:
    """Return the kernel with these slots: P1 says whether a warp's number is at least that named last."""
    made, registers, words = bytearray(cubin), iter(about["registers"]), list[int]()
    for what, *how in slots:
        if what == "P":
            bits = 0x3F26270 << 64 | how[0] << 32 | about["number"] << 24 | 0x780C | (FREE | 13) << CONTROL
        elif what == "J":
            skipped = 4 * how[0]
            bits = 0x3800000 << 64 | (skipped >> 8) << 34 | (skipped & 255) << 16 | how[1] << 12 | 0x947
            bits |= (FREE | 1 << 4 | 5) << CONTROL
        elif what == "C":
            bits = word((CLOCK, (next(registers),), how[0], how[1], 0), int(about["clock"], 16))
        else:
            bits = word((NOP, (), how[0], how[1], 0), 0)
        words.append(bits)
    words += [int(about["add"], 16) | (FREE | 1 << 4 | 12) << CONTROL, int(about["compare"], 16) | (FREE | 13) << CONTROL]
    for i, bits in enumerate(words):
        made[about["at"] + 16 * i : about["at"] + 16 * i + 16] = bits.to_bytes(16, "little")
    return bytes(made)


def run(folder: Path, out: Path) -> None:
    """Run all cases; all warps are looked at in one launch."""
    import numpy as np
    from driver import Gpu

    gpu, cubin, rows = Gpu(), (folder / "branches.cubin").read_bytes(), list[list[list[int]]]()
    about = json.loads((folder / "branches_slots.json").read_text())
    assert (about["place"], about["slots"]) == (PLACE, SLOTS)
    stamps, host = gpu.memory(4096), np.zeros((4, READS + 1), np.uint32)
    for warps, slots in cases():
        module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        gpu.call("cuModuleLoadData", ctypes.byref(module), filled(cubin, about, slots))
        gpu.call("cuModuleGetFunction", ctypes.byref(kernel), module, b"branches")
        values = [stamps, ctypes.c_int(TURNS), ctypes.c_int(warps)]
        arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        for _ in range(AGAIN):
            gpu.call("cuLaunchKernel", kernel, 1, 1, 1, 512, 1, 1, 4096, None, arguments, None)
            gpu.wait()
        gpu.get(stamps, host)
        reads = host[:warps, 1 : sum(what == "C" for what, *_ in slots)]
        rows.append((reads - reads[:, 0].min()).astype(np.int32).tolist())
        gpu.call("cuModuleUnload", module)
    text = json.dumps({**gpu.about(), "command": "python data/h200/branches.py run FOLDER OUT", "clocks": rows}, separators=(",", ":"))
    (out / "branches.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    build(Path(sys.argv[2])) if sys.argv[1] == "build" else run(Path(sys.argv[2]), Path(sys.argv[3]))
