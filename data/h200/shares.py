"""How the warps of a scheduler share its issue slots: all run the same short loop, and note when parts of it are done.

    python data/h200/shares.py build FOLDER   no GPU, the CUDA wheels: the kernels; shares_code.json.gz, their loops
    python data/h200/shares.py run FOLDER OUT on the GPU: OUT/shares.json

A row is a loop, how many warps a scheduler has, and for each of them, the oldest first, the nine clocks between eight
parts of the same work.
"""

import ctypes
import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
CODE = HERE / "shares_code.json.gz"
WARPS, TURNS, SCHEDULERS = (2, 3, 4, 6, 8), 100, 4


def build(folder: Path) -> None:
    """Compile the kernels; keep the code of their loops."""
    import msgspec

    from warplens.program import load_programs, nvrtc

    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "shares.cubin"
    made_by = nvrtc.compile_source((HERE / "shares.cu").read_text(), "shares.cu", "sm_90", [], file)
    loops = {}
    for name, program in load_programs(file).items():
        code = program.instructions
        places = {x.offset: i for i, x in enumerate(code)}
        ends = ((places.get(x.target, i), i) for i, x in enumerate(code) if x.opcode == "BRA" and x.target is not None)
        first, last = next((to, end) for to, end in ends if end - to > 30)
        kept = [msgspec.structs.replace(x, operands=(), line=None) for x in code[first : last + 1]]
        loops[name] = msgspec.to_builtins(kept)
    content = {"command": "python data/h200/shares.py build", "compiler": made_by, "arch": "sm_90", "loops": loops}
    CODE.write_bytes(gzip.compress(msgspec.json.encode(content), mtime=0))


def run(folder: Path, out: Path) -> None:
    """Run each loop with so many warps, one block on one SM."""
    import numpy as np
    from driver import Gpu

    gpu, module = Gpu(), ctypes.c_void_p()
    loops = json.loads(gzip.decompress(CODE.read_bytes()))["loops"]
    gpu.call("cuModuleLoadData", ctypes.byref(module), (folder / "shares.cubin").read_bytes())
    stamps, data, rows = gpu.memory(65536), gpu.memory(65536), []
    for name in loops:
        kernel = ctypes.c_void_p()
        gpu.call("cuModuleGetFunction", ctypes.byref(kernel), module, name.encode())
        for warps in WARPS:
            values = [stamps, data, ctypes.c_int(TURNS)]
            arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
            host = np.zeros((SCHEDULERS * warps, 9), np.uint32)
            for _ in range(2):  # the first brings the code
                gpu.call("cuLaunchKernel", kernel, 1, 1, 1, 32 * SCHEDULERS * warps, 1, 1, 0, None, arguments, None)
                gpu.wait()
            gpu.get(stamps, host)
            rows.append([name, warps, (host - host.min())[::SCHEDULERS].tolist()])
    made = {**gpu.about(), "turns": TURNS, "rows": rows}
    (out / "shares.json").write_text(json.dumps(made, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    command: dict[str, Callable[..., None]] = {"build": build, "run": run}
    command[sys.argv[1]](*map(Path, sys.argv[2:]))
