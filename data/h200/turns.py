"""On which scheduler a block's warps are: the places of the warps of one SM, by their number in a block.

    python data/h200/turns.py build FOLDER     no GPU, the CUDA wheels: the kernel
    python data/h200/turns.py run FOLDER OUT   on the GPU: OUT/turns.json

A place (%warpid) is of the scheduler that is left of it when it is divided by four. A run is of blocks of so many
warps that live for one to three times the same while; a row has the places of a block's warps, in the order in which
the SM began the blocks.
"""

import ctypes
import json
import sys
from collections.abc import Callable
from pathlib import Path

SOURCE = """
extern "C" __global__ void turns(long long *out, int spin) {
  long long start = clock64();
  unsigned place, sm;
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(place));
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  while (clock64() - start < spin * (1 + blockIdx.x % 3)) { }
  long long *row = out + 3 * ((long long)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  if (threadIdx.x % 32 == 0) row[0] = sm, row[1] = place, row[2] = start;
}
"""
WARPS, BLOCKS, KEPT = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16), 132 * 40, 24


def build(folder: Path) -> None:
    """Compile the kernel."""
    from warplens.program import nvrtc

    folder.mkdir(parents=True, exist_ok=True)
    nvrtc.compile_source(SOURCE, "turns.cu", "sm_90", [], folder / "turns.cubin")


def run(folder: Path, out: Path) -> None:
    """Run blocks of each size."""
    import numpy as np
    from driver import Gpu

    gpu, module, kernel, runs = Gpu(), ctypes.c_void_p(), ctypes.c_void_p(), []
    gpu.call("cuModuleLoadData", ctypes.byref(module), (folder / "turns.cubin").read_bytes())
    gpu.call("cuModuleGetFunction", ctypes.byref(kernel), module, b"turns")
    for warps in WARPS:
        rows, host = gpu.memory(BLOCKS * warps * 24), np.zeros((BLOCKS, warps, 3), np.int64)
        values = [rows, ctypes.c_int(3000)]
        arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        gpu.call("cuLaunchKernel", kernel, BLOCKS, 1, 1, 32 * warps, 1, 1, 0, None, arguments, None)
        gpu.wait()
        gpu.get(rows, host)
        mine = host[host[:, 0, 0] == 0]
        order = np.argsort(mine[:, 0, 2], kind="stable")[:KEPT]
        runs.append({"warps": warps, "places": mine[order, :, 1].tolist()})
        gpu.call("cuMemFree_v2", rows)
    (out / "turns.json").write_text(json.dumps({**gpu.about(), "runs": runs}) + "\n")


if __name__ == "__main__":
    command: dict[str, Callable[..., None]] = {"build": build, "run": run}
    command[sys.argv[1]](*map(Path, sys.argv[2:]))
