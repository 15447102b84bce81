"""Executions by --exact beside an H200's: `python data/h200/exact_counts.py [--jobs N]` writes kernels/exact.json.gz.

For every launch of which a sample of the blocks (kernels/workloads.json.xz) has an instruction more than 2 % off what
ncu counted (kernels/ncu.json.gz), all blocks are emulated. Kept: the instructions that differ from ncu's count in the
sample by more than 2 %, or in the whole grid at all, each as [number, by the sample, by all blocks, by ncu]; how many
instructions there are, and the processor's seconds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import warplens as wl
from warplens.emulate.profiler import profile
from warplens.errors import WarplensError
from warplens.frontend import Options, load_program
from warplens.kernel.launch import load_launch

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MOST = 0.02


def off(ours: list[float], theirs: list[float]) -> list[int]:
    """Return the instructions whose executions are more than 2 % apart."""
    return [i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if abs(a - b) > MOST * b]


def exact(name: str) -> tuple[list[float], float]:
    """Return the executions of a launch, all of its blocks emulated, and the seconds that took."""
    stem, _, variant = name.partition(".")
    call = load_launch(next((ROOT / "examples").rglob(f"{stem}.toml")), variant)
    options = Options(defines=call.defines, fast_math=call.fast_math, register_limit=call.register_limit)
    program = load_program(Path(call.folder) / str(call.file), call.kernel, options)
    start = time.process_time()
    try:
        made = profile(program, call, wl.load_machine("h200"), exact=True)
    except WarplensError as error:
        print(f"{name}: {error}", flush=True)
        return [], 0.0
    return made.counts["executed"], time.process_time() - start


def main() -> None:
    """Count all launches that a sample counts wrong, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    counters = json.loads(gzip.decompress((HERE / "kernels" / "ncu.json.gz").read_bytes()))["launches"]
    workloads = json.loads(lzma.decompress((HERE / "kernels" / "workloads.json.xz").read_bytes()))["workloads"]
    sampled = {n: w["profile"]["counts"]["executed"] for n, w in workloads.items()}
    names = args.names or [n for n, ours in sampled.items() if off(ours, counters[n]["executed"])]
    rows: dict[str, Any] = {}
    with ProcessPoolExecutor(args.jobs) as pool:
        for name, (ours, seconds) in zip(names, pool.map(exact, names), strict=True):
            theirs, part = counters[name]["executed"], sampled[name]
            if not ours:
                continue
            kept = sorted(
                {*off(part, theirs), *(i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)}
            )
            rows[name] = {
                "instructions": len(ours),
                "seconds": round(seconds, 1),
                "off": len(off(ours, theirs)),
                "rows": [[i, round(part[i]), round(ours[i]), theirs[i]] for i in kept],
            }
            print(name, rows[name]["off"], "of", len(ours), f"more than 2 % off, {seconds:.0f} s", flush=True)
    content = {
        "command": "python data/h200/exact_counts.py",
        "columns": ["number", "sample", "exact", "ncu"],
        "launches": rows,
    }
    (HERE / "kernels" / "exact.json.gz").write_bytes(gzip.compress(json.dumps(content).encode(), mtime=0))


if __name__ == "__main__":
    main()
