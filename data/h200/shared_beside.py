"""What a warp's loads of shared memory cost other schedulers, and how long it waits for theirs (shared_beside.cu).

    python data/h200/shared_beside.py build FOLDER    no GPU, the CUDA wheels: the kernels and their loops
    python data/h200/shared_beside.py run FOLDER OUT  on the GPU: OUT/shared_beside.json.gz

A row: adds behind each load, warps of each of the other schedulers, how many of these there are; cycles of one of them
for a load with its adds, by the mean rate of all SMs and launches, and cycles of a load of the warp beside them.
"""

import ctypes
import gzip
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ADDS, ACTIVE, SCHEDULERS = (0, 1, 2, 3, 4, 6), (0x01, 0x03, 0x07, 0x0F, 0xFF), (0x1, 0x3, 0x7)
SMS, LAUNCHES, SHORTEST = 132, 6, 20


def unroll(adds: int) -> int:
    """Return the loads of one turn of the loop."""
    return (192 // (adds + 1) + 3) // 4 * 4


def build(folder: Path) -> None:
    """Compile the kernels; keep their two loops: the one of loads and adds, and that of the warp beside."""
    import msgspec

    from warplens.program import load_program, nvrtc

    folder.mkdir(parents=True, exist_ok=True)
    file, loops = folder / "shared_beside.cubin", list[dict[str, Any]]()
    made_by = nvrtc.compile_source((HERE / "shared_beside.cu").read_text(), "shared_beside.cu", "sm_90", [], file)
    for adds in ADDS:
        code = load_program(file, f"beside_{adds}").instructions
        number = {x.offset: i for i, x in enumerate(code)}
        backs = [(number[x.target], i) for i, x in enumerate(code) if x.target is not None and x.target < x.offset]
        found = [code[a : b + 1] for a, b in backs if b - a > SHORTEST]
        loads = {sum(x.opcode == "LDS" for x in part) + any(x.opcode == "FADD" for x in part): part for part in found}
        alone = loads.pop(64)
        (many,) = loads.values()
        kept = [[msgspec.structs.replace(x, operands=(), line=None) for x in part] for part in (many, alone)]
        loops.append({"adds": adds, "unroll": unroll(adds), "code": msgspec.to_builtins(kept[0])})
        loops[-1]["beside"] = msgspec.to_builtins(kept[1])
    (folder / "shared_beside_about.json").write_text(json.dumps({"compiler": made_by, "loops": loops}))


def run(folder: Path, out: Path) -> None:
    """Run all loops."""
    import numpy as np
    from driver import Gpu

    gpu, host, rows = Gpu(), np.zeros(SMS * 32), list[list[object]]()
    keep, rates = gpu.memory(4096), gpu.memory(SMS * 32 * 8)
    for adds in ADDS:
        kernel = gpu.function(folder / "shared_beside.cubin", f"beside_{adds}", 0)
        for active in ACTIVE:
            for schedulers in SCHEDULERS:
                values = [keep, rates, ctypes.c_float(0), ctypes.c_uint(active), ctypes.c_uint(schedulers)]
                arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
                seen = list[Any]()
                for _ in range(LAUNCHES):
                    gpu.call("cuLaunchKernel", kernel, SMS, 1, 1, 1024, 1, 1, 0, None, arguments, None)
                    gpu.wait()
                    gpu.get(rates, host)
                    seen.append(host.reshape(SMS, 32).copy())
                mean, count = np.concatenate(seen).mean(axis=0), schedulers.bit_count()
                others = count / (mean.sum() - mean[3])
                rows.append([adds, active.bit_count(), count, round(others, 4), round(1 / float(mean[3]), 4)])
    about = json.loads((folder / "shared_beside_about.json").read_text())
    made = {**gpu.about(), "command": "python data/h200/shared_beside.py run FOLDER OUT", **about, "rows": rows}
    text = json.dumps(made, separators=(",", ":")).encode()
    (out / "shared_beside.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))


if __name__ == "__main__":
    build(Path(sys.argv[2])) if sys.argv[1] == "build" else run(Path(sys.argv[2]), Path(sys.argv[3]))
