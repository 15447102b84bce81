"""What branches cost many warps, with BSSY and BSYNC and without: loops of regions.cu, changed, built and run.

    python data/h200/regions.py build FOLDER     no GPU, the CUDA wheels: a cubin for each change, and the loops
    python data/h200/regions.py run FOLDER OUT   on the GPU: OUT/regions.json.gz

A sample: cycles of an SM per region, the best and the worst of five launches, of so many warps on all schedulers
(`every` 1) or on one (4); `skip`: all lanes jump over its nine products. `change`: BSYNC, or BSSY too, is a NOP.
"""

from __future__ import annotations

import ctypes
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
CHANGES = {"compiled": "", "no_bsync": "drop BSYNC.5", "no_both": "drop BSYNC.5; drop BSSY.5"}
KERNELS = ("uniform", "region")
WARPS = {1: (1, 2, 4, 8, 12, 16, 20, 24, 32), 4: (1, 2, 4, 6, 8)}
LAUNCHES = 5


def build(folder: Path) -> None:
    """Compile, change, and keep the loops."""
    import msgspec

    from warplens.laboratory.patches import patched
    from warplens.laboratory.source import Expectation, Kernel
    from warplens.program import load_program, nvrtc

    folder.mkdir(parents=True, exist_ok=True)
    plain, loops = folder / "compiled.cubin", []
    made_by = nvrtc.compile_source((HERE / "regions.cu").read_text(), "regions.cu", "sm_90", [], plain)
    for change, patch in CHANGES.items():
        file, kernel = folder / f"{change}.cubin", Kernel("region", "", Expectation(), patch=patch)
        file.write_bytes(patched([kernel], plain.read_bytes()))
        for name in KERNELS:
            instructions = load_program(file, name).instructions
            number = {x.offset: i for i, x in enumerate(instructions)}
            backs = [(number[x.target], i) for i, x in enumerate(instructions) if (x.target or x.offset) < x.offset]
            first, last = max(backs, key=lambda ends: ends[1] - ends[0])
            loop = [msgspec.structs.replace(x, operands=(), line=None) for x in instructions[first : last + 1]]
            loops.append({"change": change, "kind": name, "code": msgspec.to_builtins(loop)})
    (folder / "about.json").write_text(json.dumps({"compiler": made_by, "loops": loops}))


def run(folder: Path, out: Path) -> None:
    """Run all loops."""
    from driver import Gpu

    gpu, samples = Gpu(), []
    memory, rates, host = gpu.memory(4096), gpu.memory(32 * 8), np.zeros(32)
    for change in CHANGES:
        for kind in KERNELS if change == "compiled" else KERNELS[1:]:
            kernel = gpu.function(folder / f"{change}.cubin", kind, 0)
            for limit in (32, 0):
                for every, counts in WARPS.items():
                    for warps in counts:
                        numbers = [ctypes.c_int(x) for x in (warps, every, limit)]
                        seen = [_rate(gpu, kernel, [memory, rates, *numbers], rates, host) for _ in range(LAUNCHES)]
                        cycles = {"cycles": round(1 / max(seen), 4), "most": round(1 / min(seen), 4)}
                        keys = {"change": change, "kind": kind, "skip": limit > 0, "every": every, "warps": warps}
                        samples.append({**keys, **cycles})
    about = json.loads((folder / "about.json").read_text())
    made = {**gpu.about(), "command": "python data/h200/regions.py run FOLDER OUT", **about, "samples": samples}
    text = json.dumps(made, separators=(",", ":")).encode()
    (out / "regions.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))


def _rate(gpu: Any, kernel: Any, values: list[Any], rates: Any, host: Any) -> float:
    """Return the regions per cycle of an SM, in one launch."""
    arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
    gpu.call("cuLaunchKernel", kernel, 1, 1, 1, 1024, 1, 1, 0, None, arguments, None)
    gpu.wait()
    gpu.get(rates, host)
    return float(host.sum())


if __name__ == "__main__":
    build(Path(sys.argv[2])) if sys.argv[1] == "build" else run(Path(sys.argv[2]), Path(sys.argv[3]))
