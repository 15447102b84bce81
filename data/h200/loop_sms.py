"""How long the laboratory's loops without global memory take on each SM: the mean, the fastest and the slowest one.

    python data/h200/loop_sms.py build FOLDER    no GPU, the CUDA wheels: the laboratory's kernels
    python data/h200/loop_sms.py run FOLDER OUT  on the GPU: OUT/loop_sms.json.gz

The kernels are the laboratory's, and run as long as there, with a block on each SM. A row: the loop, how many warps the
block has, and cycles of an SM per count of the loop: by the mean rate of all SMs and launches, of the fastest SM of any
launch, and of the slowest.
"""

import ctypes
import gzip
import json
import sys
from pathlib import Path
from typing import Any

FAMILIES, GLOBAL = ("instruction.", "pair.", "issue."), ("instruction.ldl",)  # local memory lies in global memory
WARPS, BLOCKS, WORDS, LAUNCHES, CYCLES = (4, 8, 12, 16, 20, 24, 28, 32), 132, 8, 4, 480_000
NEVER = 0x7FC12345  # what no result is


def build(folder: Path) -> None:
    """Compile the kernels; keep them, how many chains each has, and how wide its accesses to shared memory are."""
    from warplens.laboratory.build import build as compiled
    from warplens.laboratory.catalogue import entries

    folder.mkdir(parents=True, exist_ok=True)
    found = [e for e in entries() if e.name.startswith(FAMILIES) and not e.name.startswith(GLOBAL)]
    cubins, about = compiled([e.kernels[0] for e in found], "sm_90").cubins, list[dict[str, Any]]()
    for entry in found:
        kernel, chains = entry.kernels[0], int(entry.kernels[0].facts["chains"])
        (folder / f"{kernel.name}.cubin").write_bytes(cubins[kernel.name])
        width = max(1, entry.parameters.get("width", 0))
        about.append({"name": entry.name, "kernel": kernel.name, "chains": chains, "width": width})
    (folder / "loop_sms_about.json").write_text(json.dumps(about))


def rates(gpu: Any, memory: list[Any], kernel: ctypes.c_void_p, loop: dict[str, Any], warps: int) -> Any:
    """Return the counts per cycle of each SM, in one launch."""
    import numpy as np

    host = np.zeros(BLOCKS * warps * WORDS, np.uint64)
    gpu.put(memory[0], 0, np.zeros((BLOCKS * warps + 1) * WORDS, np.uint64))
    values = [*memory, ctypes.c_uint64(CYCLES * loop["chains"]), ctypes.c_uint32(1), ctypes.c_uint32(loop["width"])]
    values += [ctypes.c_uint32(0), ctypes.c_uint32(NEVER), ctypes.c_float(0)]
    arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
    gpu.call("cuLaunchKernel", kernel, BLOCKS, 1, 1, 32 * warps, 1, 1, 0, None, arguments, None)
    gpu.wait()
    gpu.get(memory[0], host)
    found = host.astype(np.int64).reshape(BLOCKS, warps, WORDS)
    return (found[:, :, 5] / (found[:, :, 1] - found[:, :, 0])).sum(axis=1)


def run(folder: Path, out: Path) -> None:
    """Run all loops."""
    import numpy as np
    from driver import Gpu

    gpu, rows = Gpu(), list[list[object]]()
    memory = [gpu.memory(1 << 20) for _ in range(3)]
    for loop in json.loads((folder / "loop_sms_about.json").read_text()):
        kernel = gpu.function(folder / f"{loop['kernel']}.cubin", loop["kernel"], 0)
        for warps in WARPS:
            seen = np.array([rates(gpu, memory, kernel, loop, warps) for _ in range(LAUNCHES)])
            rows.append([loop["name"], warps, *(round(1 / float(x), 3) for x in (seen.mean(), seen.max(), seen.min()))])
    made = {**gpu.about(), "command": "python data/h200/loop_sms.py run FOLDER OUT", "rows": rows}
    text = json.dumps(made, separators=(",", ":")).encode()
    (out / "loop_sms.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))


if __name__ == "__main__":
    build(Path(sys.argv[2])) if sys.argv[1] == "build" else run(Path(sys.argv[2]), Path(sys.argv[3]))
