"""When the warps of a block begin behind the laboratory's barrier: how long each takes to the end of its first turn.

    python data/h200/starts.py build FOLDER    no GPU, the extra `cuda`: the laboratory's kernels
    python data/h200/starts.py run FOLDER OUT  on the GPU: OUT/starts.json

The kernels are the laboratory's, unchanged: time is up after a turn and a half, so that a warp's record says when its
first turn ended. A row: the loop, how many warps the block has, and the cycles of each.
"""

import ctypes
import json
import sys
from pathlib import Path

NAMES = ("instruction.fadd", "instruction.hfma2", "pair.lop3_fadd")
WARPS, BLOCKS, WORDS = (4, 8, 12, 16), 132, 8
NEVER = 0x7FC12345  # what no result is


def build(folder: Path) -> None:
    """Compile the kernels; keep them, and how long a turn takes."""
    from warplens.measure import journal
    from warplens.measure.build import build as compiled
    from warplens.measure.catalogue import entries
    from warplens.study.validation import data_file

    folder.mkdir(parents=True, exist_ok=True)
    kernels, about = {e.name: e.kernels[0] for e in entries() if e.name in NAMES}, list[dict[str, object]]()
    turns = {
        (row["entry"], row["point"]["warps"]): row["values"]["mean_cycles_per_count_n"]
        for row in journal.read(data_file("h200/measured.jsonl.xz")) if row["is"] == "sample" and row["entry"] in kernels
    }  # fmt: skip
    for name, kernel in kernels.items():
        (folder / f"{kernel.name}.cubin").write_bytes(compiled([kernel], "sm_90").cubins[kernel.name])
        about.append({"name": name, "kernel": kernel.name, "turn": [turns[name, warps] for warps in WARPS]})
    (folder / "starts_about.json").write_text(json.dumps(about))


def run(folder: Path, out: Path) -> None:
    """Run all loops; the first block is looked at."""
    import numpy as np
    from driver import Gpu

    gpu, rows = Gpu(), list[list[object]]()
    records, data, given = (gpu.memory(1 << 20) for _ in range(3))
    for about in json.loads((folder / "starts_about.json").read_text()):
        kernel = gpu.function(folder / f"{about['kernel']}.cubin", about["kernel"], 0)
        for warps, turn in zip(WARPS, about["turn"], strict=True):
            host = np.zeros(BLOCKS * warps * WORDS, np.uint64)
            gpu.put(records, 0, np.zeros((BLOCKS * warps + 1) * WORDS, np.uint64))
            values = [records, data, given, ctypes.c_uint64(int(1.5 * turn)), ctypes.c_uint32(1), ctypes.c_uint32(1)]
            values += [ctypes.c_uint32(0), ctypes.c_uint32(NEVER), ctypes.c_float(0)]
            arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
            gpu.call("cuLaunchKernel", kernel, BLOCKS, 1, 1, 32 * warps, 1, 1, 0, None, arguments, None)
            gpu.wait()
            gpu.get(records, host)
            first = host.reshape(BLOCKS, warps, WORDS)[0]
            rows.append([about["name"], warps, [int(r[1] - r[0]) for r in first]])
    text = json.dumps({**gpu.about(), "command": "python data/h200/starts.py run FOLDER OUT", "rows": rows}, separators=(",", ":"))
    (out / "starts.json").write_text(text + "\n")


if __name__ == "__main__":
    build(Path(sys.argv[2])) if sys.argv[1] == "build" else run(Path(sys.argv[2]), Path(sys.argv[3]))
