"""Turn by turn: when each warp of a block comes to the end of each turn of the laboratory's loops.

    python data/h200/loop_turns.py build FOLDER    no GPU, the CUDA wheels: the laboratory's kernels, some changed
    python data/h200/loop_turns.py run FOLDER OUT  on the GPU: OUT/loop_turns.json.gz

The kernels are the laboratory's, unchanged, or with another stall count of the instruction before the branch of the
loop. They run for a time, and a warp's record says how many turns it has ended and when the last one did: launches for
more and more time give all. A row: the loop, that stall count (0: the compiler's), how many warps the block has, and
for each warp the ends of its first turns in cycles from when the block began on (none: launches differ). `loops` has
their code: text, stall count, whether it yields, the scoreboards it has and waits for, what is kept; and its place.
"""

import ctypes
import gzip
import json
import sys
from pathlib import Path
from typing import Any

NAMES = (
    "instruction.fadd", "instruction.imad", "instruction.imad_wide", "instruction.imad_hi", "instruction.hfma2",
    "instruction.dadd", "instruction.dfma", "instruction.mufu_sin.ilp2", "pair.lop3_fadd", "pair.imad_lop3",
    "pair.imad_wide_lop3",
)  # fmt: skip
CHANGED = ("instruction.dadd", "pair.lop3_fadd")
STALLS = (2, 3, 4, 5, 6, 7, 8, 9)
WARPS, BLOCKS, WORDS, TURNS, STEP = (4, 8, 12, 16), 132, 8, 8, 0.45
CONTROL = 105  # where an instruction's control code begins
NEVER = 0x7FC12345  # what no result is


def build(folder: Path) -> None:
    """Compile the kernels; keep them, their code, and how long a turn takes."""
    from warplens.laboratory import journal
    from warplens.laboratory.build import build as compiled
    from warplens.laboratory.catalogue import entries
    from warplens.laboratory.checks import timed_loop
    from warplens.papers.validation.mixes import data_file
    from warplens.program import load_program
    from warplens.program.cubin import parse_cubin

    folder.mkdir(parents=True, exist_ok=True)
    kernels, about = {e.name: e.kernels[0] for e in entries() if e.name in NAMES}, list[dict[str, Any]]()
    turns = {
        (row["entry"], row["point"]["warps"]): row["values"]["mean_cycles_per_count_n"]
        for row in journal.read(data_file("h200/measured.jsonl.xz"))
        if row["is"] == "sample" and row["entry"] in kernels
    }  # fmt: skip
    for name, kernel in kernels.items():
        cubin, file = compiled([kernel], "sm_90").cubins[kernel.name], folder / f"{kernel.name}.cubin"
        file.write_bytes(cubin)
        code = timed_loop(kernel, load_program(file, kernel.name))
        before = parse_cubin(cubin, kernel.name).sections[f".text.{kernel.name}"].start + code[-2].offset
        for stall in STALLS if name in CHANGED else ():
            made = int.from_bytes(cubin[before : before + 16], "little") & ~(15 << CONTROL) | stall << CONTROL
            changed = cubin[:before] + made.to_bytes(16, "little") + cubin[before + 16 :]
            (folder / f"{kernel.name}_{stall}.cubin").write_bytes(changed)
        listed = [
            [x.text, c.stall, c.yields, c.write_scoreboard, c.wait_mask, c.reuse] for x in code if (c := x.control)
        ]
        times = [turns[name, warps] for warps in WARPS]
        loop = {"name": name, "place": code[0].offset // 16 % 8, "code": listed}
        about.append({"loop": loop, "kernel": kernel.name, "turn": times})
    (folder / "loop_turns_about.json").write_text(json.dumps(about))


def ended(gpu: Any, memory: list[Any], kernel: ctypes.c_void_p, warps: int, cycles: int) -> tuple[Any, Any]:
    """Return for each warp of each block how many turns it has ended in so many cycles, and when the last."""
    import numpy as np

    host = np.zeros(BLOCKS * warps * WORDS, np.uint64)
    gpu.put(memory[0], 0, np.zeros((BLOCKS * warps + 1) * WORDS, np.uint64))
    values = [*memory, ctypes.c_uint64(cycles), ctypes.c_uint32(1), ctypes.c_uint32(1)]
    values += [ctypes.c_uint32(0), ctypes.c_uint32(NEVER), ctypes.c_float(0)]
    arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
    gpu.call("cuLaunchKernel", kernel, BLOCKS, 1, 1, 32 * warps, 1, 1, 0, None, arguments, None)
    gpu.wait()
    gpu.get(memory[0], host)
    found = host.astype(np.int64).reshape(BLOCKS, warps, WORDS)
    return found[:, :, 5], found[:, :, 1] - found[:, :, 0]


def run(folder: Path, out: Path) -> None:
    """Run all loops; the first two blocks are looked at."""
    from driver import Gpu

    gpu, rows = Gpu(), list[list[object]]()
    memory = [gpu.memory(1 << 20) for _ in range(3)]
    abouts = json.loads((folder / "loop_turns_about.json").read_text())
    for about in abouts:
        name = about["loop"]["name"]
        for stall in (0, *(STALLS if name in CHANGED else ())):
            file = folder / (f"{about['kernel']}_{stall}.cubin" if stall else f"{about['kernel']}.cubin")
            kernel = gpu.function(file, about["kernel"], 0)
            for warps, turn in zip(WARPS, about["turn"], strict=True):
                if stall and warps != 8:
                    continue
                seen = [[set[int]() for _ in range(TURNS)] for _ in range(warps)]
                for k in range(2, int((TURNS + 3) / STEP)):
                    cycles = int(STEP * k * turn)
                    counts, ends = ended(gpu, memory, kernel, warps, cycles)
                    for block in range(2):
                        for warp in range(warps):
                            count, end = int(counts[block, warp]), int(ends[block, warp])
                            if 0 < count <= TURNS and end > cycles * count // (count + 1):  # else it may be an estimate
                                seen[warp][count - 1].add(end)
                rows.append([name, stall, warps, [[min(s) if len(s) == 1 else None for s in each] for each in seen]])
    made = {**gpu.about(), "command": "python data/h200/loop_turns.py run FOLDER OUT", "rows": rows}
    made["loops"] = [about["loop"] for about in abouts]
    text = json.dumps(made, separators=(",", ":")).encode()
    (out / "loop_turns.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))


if __name__ == "__main__":
    build(Path(sys.argv[2])) if sys.argv[1] == "build" else run(Path(sys.argv[2]), Path(sys.argv[3]))
