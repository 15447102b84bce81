"""When the warps of a block begin the loops of wide_products.py, and the code between their clock and the loop.

    python data/h200/product_begins.py build FOLDER    no GPU, the CUDA wheels: the kernels
    python data/h200/product_begins.py run FOLDER OUT  on the GPU: OUT/product_begins.json.gz

A sample: the cycle in which each warp reads its clock before the loop, from the first one on, in the commonest of
twenty launches, and how many of them are so: with 16 and 32 warps often fewer than half.
"""

import ctypes
import gzip
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

KEYS, WARPS, LAUNCHES = ("product", "filler", "count"), (4, 8, 16, 32), 20
SEED = 77777


def build(folder: Path) -> None:
    """Compile the kernels; keep what each does from its clock on."""
    import msgspec
    import wide_products

    from warplens.program import load_program, nvrtc

    folder.mkdir(parents=True, exist_ok=True)
    file, kernels = folder / "product_begins.cubin", list(wide_products.loops())
    source = "".join(text.replace("__global__", 'extern "C" __global__') for _, _, text in kernels)
    made_by, about = nvrtc.compile_source(wide_products.HEAD + source, "products", "sm_90", [], file), list[Any]()
    for name, keys, _ in kernels:
        code = load_program(file, name).instructions
        head = min(x.target for x in code if x.target is not None and x.target < x.offset)
        clock = next(x.offset for x in code if x.opcode == "CS2R")
        before = [msgspec.structs.replace(x, operands=(), line=None) for x in code if clock <= x.offset < head]
        about.append({**keys, "code": msgspec.to_builtins(before)})
    (folder / "product_begins_about.json").write_text(json.dumps({"compiler": made_by, "loops": about}))


def begun(gpu: Any, memory: Any, kernel: ctypes.c_void_p, warps: int) -> tuple[int, ...]:
    """Return when each warp of a block reads its clock, from the first one on."""
    import numpy as np

    host, values = np.zeros(2 * warps, np.uint32), [memory, ctypes.c_uint32(SEED), ctypes.c_int(1)]
    arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
    gpu.call("cuLaunchKernel", kernel, 1, 1, 1, 32 * warps, 1, 1, 0, None, arguments, None)
    gpu.wait()
    gpu.get(memory, host)
    clocks = host[::2].astype(np.int64)
    return tuple((clocks - clocks.min()).tolist())


def run(folder: Path, out: Path) -> None:
    """Run all kernels; the first launch of each, which has to load it, does not count."""
    from driver import Gpu

    gpu, samples = Gpu(), list[dict[str, object]]()
    memory, about = gpu.memory(8192), json.loads((folder / "product_begins_about.json").read_text())
    for loop in about["loops"]:
        keys = {key: loop[key] for key in KEYS}
        kernel = gpu.function(folder / "product_begins.cubin", "_".join(map(str, keys.values())), 0)
        for warps in WARPS:
            begun(gpu, memory, kernel, warps)
            begins, often = Counter(begun(gpu, memory, kernel, warps) for _ in range(LAUNCHES)).most_common(1)[0]
            samples.append({**keys, "warps": warps, "begins": begins, "launches": often})
    made = {**gpu.about(), "command": "python data/h200/product_begins.py run FOLDER OUT", **about, "samples": samples}
    text = json.dumps(made, separators=(",", ":")).encode()
    (out / "product_begins.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))


if __name__ == "__main__":
    build(Path(sys.argv[2])) if sys.argv[1] == "build" else run(Path(sys.argv[2]), Path(sys.argv[3]))
