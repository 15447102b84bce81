"""When the warps of a block end the second turn of the laboratory's loops if it begins nearer to its end.

    python data/h200/loop_targets.py build FOLDER    no GPU, the CUDA wheels: the laboratory's kernels
    python data/h200/loop_targets.py run FOLDER OUT  on the GPU: OUT/loop_targets.json.gz

The kernels are the laboratory's but for the target of the loop's branch: it is one of the instructions before the one
that reads the clock at the loop's end. So the first turn is whole, and the second shows where the warps are so many
instructions behind their branches. A row: the loop, how many instructions are left, how many warps the block has, the
scheduler, when its warps end their first turn (in most launches), and the four most frequent ends of the second with
how often each was seen on all SMs; none where no launch ended between the second turn's ends and the third's, or the
first's and the second's. All in cycles from when the block began on. `loops` is as in loop_turns.py.
"""

import ctypes
import gzip
import json
import sys
from collections import Counter
from pathlib import Path

from loop_turns import CONTROL, ended

NAMES = (
    "instruction.hfma2", "instruction.hfma2_1", "instruction.ffma", "instruction.dadd", "instruction.dfma",
    "instruction.imad_wide", "pair.imad_lop3",
)  # fmt: skip
LEFT = (*range(1, 18), 24, 32, 64, 128)
WARPS, SCHEDULERS, LAUNCHES, KEPT = (8, 12, 16, 20), 2, 12, 4
OFFSET = 255 << 16 | (1 << 48) - 1 << 34  # where a branch has its distance, in words of four bytes


def build(folder: Path) -> None:
    """Compile the kernels; keep them, their code, and where their branches are."""
    from warplens.laboratory.build import build as compiled
    from warplens.laboratory.catalogue import entries
    from warplens.laboratory.checks import timed_loop
    from warplens.program import load_program
    from warplens.program.cubin import parse_cubin

    folder.mkdir(parents=True, exist_ok=True)
    about = list[dict[str, object]]()
    for name, kernel in ((e.name, e.kernels[0]) for e in entries() if e.name in NAMES):
        cubin, file = compiled([kernel], "sm_90").cubins[kernel.name], folder / f"{kernel.name}.cubin"
        file.write_bytes(cubin)
        code = timed_loop(kernel, load_program(file, kernel.name))
        start = parse_cubin(cubin, kernel.name).sections[f".text.{kernel.name}"].start
        listed = [
            [x.text, c.stall, c.yields, c.write_scoreboard, c.wait_mask, c.reuse] for x in code if (c := x.control)
        ]
        loop = {"name": name, "place": code[0].offset // 16 % 8, "code": listed}
        about.append({"loop": loop, "kernel": kernel.name, "branch": start + code[-1].offset})
    (folder / "loop_targets_about.json").write_text(json.dumps(about))


def changed(cubin: bytes, branch: int, instructions: int) -> bytes:
    """Return a kernel whose branch goes so many instructions back from the one behind it."""
    bits, words = int.from_bytes(cubin[branch : branch + 16], "little"), -4 * instructions & (1 << 56) - 1
    bits = bits & ~OFFSET | (words & 255) << 16 | words >> 8 << 34
    assert bits >> CONTROL == int.from_bytes(cubin[branch : branch + 16], "little") >> CONTROL
    return cubin[:branch] + bits.to_bytes(16, "little") + cubin[branch + 16 :]


def run(folder: Path, out: Path) -> None:
    """Run all loops for times that lie behind the ends of the first turn, and behind those of the second."""
    from driver import Gpu

    gpu, rows = Gpu(), list[list[object]]()
    memory = [gpu.memory(1 << 20) for _ in range(3)]
    abouts = json.loads((folder / "loop_targets_about.json").read_text())
    for about in abouts:
        loop, cubin = about["loop"], (folder / f"{about['kernel']}.cubin").read_bytes()
        clock = max(i for i, (text, *_) in enumerate(loop["code"]) if text.startswith("CS2R"))
        for left in LEFT:
            if left > clock:
                continue
            module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
            made = changed(cubin, about["branch"], len(loop["code"]) - clock + left)
            gpu.call("cuModuleLoadData", ctypes.byref(module), made)
            gpu.call("cuModuleGetFunction", ctypes.byref(kernel), module, about["kernel"].encode())
            for warps in WARPS:
                time = 100
                while not (ended(gpu, memory, kernel, warps, time)[0] > 0).all():
                    time += 50
                seen = [[Counter[tuple[int, ...]]() for _ in range(2)] for _ in range(SCHEDULERS)]
                turn = 80 + int(0.7 * warps * left)  # about what the second one takes
                for cycles in [*range(time - 50, time + 50, 10), *(time + turn * k // LAUNCHES for k in range(3 * LAUNCHES))]:
                    counts, ends = ended(gpu, memory, kernel, warps, cycles)
                    for s in range(SCHEDULERS):
                        for k in range(2):
                            sure = (counts[:, s::4] == k + 1) & (ends[:, s::4] > cycles * (k + 1) // (k + 2))
                            seen[s][k].update(tuple(row) for row in ends[sure.all(1), s::4].tolist())
                for s, (first, second) in enumerate(seen):
                    begun = first.most_common(1)[0][0] if first else []
                    rows.append([loop["name"], left, warps, s, begun, second.most_common(KEPT)])
            gpu.call("cuModuleUnload", module)
    content = {**gpu.about(), "command": "python data/h200/loop_targets.py run FOLDER OUT", "rows": rows}
    content["loops"] = [about["loop"] for about in abouts]
    text = json.dumps(content, separators=(",", ":")).encode()
    (out / "loop_targets.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))


if __name__ == "__main__":
    build(Path(sys.argv[2])) if sys.argv[1] == "build" else run(Path(sys.argv[2]), Path(sys.argv[3]))
