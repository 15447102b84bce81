"""What nvidia-matmul-heuristics says of the example GEMMs: `python data/h200/gemm_heuristics.py`. Needs no GPU.

Needs that package (closed source, so no dependency) beside warplens; writes gemm_heuristics.json. Its answer is for the
kernel that it would choose of a library's, not for the kernel of the example.
"""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import nvMatmulHeuristics as heuristics
from build_launches import ROOT, calls

from warplens.workload.launch import KernelCall

OUT = Path(__file__).parent / "gemm_heuristics.json"
FILES = ("matmul/matmul_*", "today/dense/sgemm_*", "today/dense/hgemm_*", "triton/triton_matmul")
TARGETS = ("GENERIC", "CUTLASS3", "TRITON")
_LETTERS = {"f16": "H", "f32": "S"}


def problem(call: KernelCall) -> tuple[list[int], str, str]:
    """Return the sizes m, n, k of a launch, its precision (A and B, sums, C) and layout."""
    given = {a.name: a for a in call.arguments}
    sizes = [int(given.get(name, given["n"]).value or 0) for name in "mnk"]
    precision = _LETTERS[given["a"].element] + "S" + _LETTERS[given["out"].element]
    transposed = str(call.kernel).startswith("hgemm")  # B lies with its depth in a row
    return sizes, precision, "NT_ROW_MAJOR" if transposed else "NN_ROW_MAJOR"


def asked(target: str, sizes: list[int], precision: str, layout: str) -> dict[str, Any]:
    """Return the best kernel of a target's and its time in microseconds."""
    tool = heuristics.NvMatmulHeuristicsInterfaceEx(
        backend=heuristics.NvMatmulHeuristicsTarget[target],
        flags=heuristics.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING,
        gpu=heuristics.NvMatmulHeuristicsNvidiaGpu.H200_SXM,
    )
    shape = tool.makeNvMatmulHeuristicsProblem(*sizes, heuristics.NvMatmulHeuristicsMatmulLayout[layout])
    best = min(tool.get(shape, 8, precision=precision), key=lambda found: found["runtime"])
    return {"us": round(1e6 * best["runtime"], 2), "kernel": str(best["kernel"])}


def main() -> None:
    """Ask for every launch at full size, and write the answers."""
    found: dict[str, Any] = {}
    for pattern in FILES:
        for file in sorted((ROOT / "examples").glob(f"{pattern}.toml")):
            for name, call in calls(file):
                if "small" not in call.variant.split(","):
                    sizes, precision, layout = problem(call)
                    answers = {target: asked(target, sizes, precision, layout) for target in TARGETS}
                    found[name] = {"m_n_k": sizes, "precision": precision, "layout": layout, **answers}
    about = {
        "package": f"nvidia-matmul-heuristics {importlib.metadata.version('nvidia-matmul-heuristics')}",
        "gpu": "H200_SXM",
        "flags": "PERF_MODEL_BASED_AUTO_TUNING",
        "command": "python data/h200/gemm_heuristics.py",
    }
    OUT.write_text(json.dumps({**about, "launches": found}, indent=1) + "\n")
    print(f"{OUT.name}: {len(found)} launches")


if __name__ == "__main__":
    main()
