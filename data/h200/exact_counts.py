"""Executions by --exact beside an H200's: `python data/h200/exact_counts.py [--jobs N]` writes kernels/exact.json.gz.

For every launch of which a sample of the blocks (kernels/workloads.json.xz) has an instruction more than 2 % off what
ncu counted (kernels/ncu.json.gz), or, of the papers' kernels, off at all, all blocks are emulated. Where these are
many instructions, and no block asks for what others did (no atomic operation), they are shared among the processes.
Kept: the instructions that differ from ncu's count in the sample by more than 2 %, or in the whole grid at all, each as
[number, by the sample, by all blocks, by ncu]; how many instructions there are, and the processor's seconds. The file
is written anew whenever a launch is complete; if launches are named, what it has of others stays.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import warplens as wl
from warplens.emulator import layout
from warplens.emulator.runner import Runner
from warplens.program import Options, load_program
from warplens.program.program import Program
from warplens.workload.launch import KernelCall, load_launch

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = {path.stem: path for path in (ROOT / "examples").rglob("*.toml")}
GPU = wl.load_machine("h200")
MOST = 0.02
PART = 100e6  # instructions that a process runs at a time
TOGETHER = 8  # blocks: as many as the processor's caches hold


def off(ours: list[float], theirs: list[float]) -> list[int]:
    """Return the instructions whose executions are more than 2 % apart."""
    return [i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if abs(a - b) > MOST * b]


def of_papers(name: str) -> bool:
    """Whether the papers have the kernel of a launch."""
    return FILES[name.partition(".")[0]].relative_to(ROOT / "examples").parts[0] not in ("today", "saxpy.toml")


@cache
def loaded(name: str) -> tuple[KernelCall, Program]:
    """Return a launch and its compiled kernel."""
    stem, _, variant = name.partition(".")
    call = load_launch(FILES[stem], variant)
    options = Options(defines=call.defines, fast_math=call.fast_math, register_limit=call.register_limit)
    return call, load_program(Path(call.folder) / str(call.file), call.kernel, options)


def apart(program: Program) -> bool:
    """Whether no block asks for what others did."""
    return not any(x.opcode.startswith("ATOM") for x in program.instructions)


def parts(name: str, instructions: float) -> list[range]:
    """Return the blocks that run in one process: all of them where there are few, or blocks may need one another."""
    call, program = loaded(name)
    size = max(1, int(PART * call.blocks / instructions)) if apart(program) else call.blocks
    return [range(start, min(start + size, call.blocks)) for start in range(0, call.blocks, size)]


def executed(name: str, blocks: range) -> tuple[list[int], float]:
    """Return how often each instruction was executed by these blocks of a launch, and the seconds that took."""
    start = time.process_time()
    call, program = loaded(name)
    runner = Runner(program, call, GPU)
    runner.without_caches()
    total = np.zeros(len(program.instructions))
    for k in range(0, len(blocks), TOGETHER):
        if apart(program):
            runner.emulator.forget()  # what was touched takes memory
        total += runner.counted(list(blocks[k : k + TOGETHER]))[:, layout.EXECUTED]
    return [int(n) for n in total], time.process_time() - start


def row(ours: list[int], part: list[float], theirs: list[int], seconds: float) -> dict[str, Any]:
    """Return what is kept of a launch."""
    differ = {i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b}
    return {
        "instructions": len(ours),
        "seconds": round(seconds, 1),
        "off": len(off([float(n) for n in ours], [float(n) for n in theirs])),
        "rows": [[i, round(part[i]), ours[i], theirs[i]] for i in sorted(differ | set(off(part, theirs)))],
    }


def main() -> None:
    """Count all launches that a sample counts wrong, or those named; the longest of the papers' first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--to", type=Path, default=HERE / "kernels" / "exact.json.gz")
    args = parser.parse_args()
    counters = json.loads(gzip.decompress((HERE / "kernels" / "ncu.json.gz").read_bytes()))["launches"]
    workloads = json.loads(lzma.decompress((HERE / "kernels" / "workloads.json.xz").read_bytes()))["workloads"]
    sampled = {n: w["profile"]["counts"]["executed"] for n, w in workloads.items()}
    theirs = {n: counters[n]["executed"][: len(ours)] for n, ours in sampled.items()}
    wrong = [n for n, ours in sampled.items() if off(ours, theirs[n]) or (of_papers(n) and ours != theirs[n])]
    names = sorted(args.names or wrong, key=lambda n: (not of_papers(n), -sum(theirs[n])))
    for name in {n.partition(".")[0]: n for n in names}.values():
        executed(name, range(1))  # compiles the emulator before the processes begin
    rows: dict[str, Any] = json.loads(gzip.decompress(args.to.read_bytes()))["launches"] if args.names else {}
    sums: dict[str, Any] = defaultdict(lambda: (0, 0.0, 0))
    with ProcessPoolExecutor(args.jobs) as pool:
        todo = {n: parts(n, sum(theirs[n])) for n in names}
        tasks = {pool.submit(executed, n, blocks): n for n in names for blocks in todo[n]}
        for task in as_completed(tasks):
            name, (ours, seconds) = tasks[task], task.result()
            total, spent, done = sums[name]
            sums[name] = total + np.array(ours), spent + seconds, done + 1
            if done + 1 < len(todo[name]):
                continue
            rows[name] = row(sums[name][0].tolist(), sampled[name], theirs[name], sums[name][1])
            print(name, rows[name]["off"], "more than 2 % off,", rows[name]["seconds"], "s", flush=True)
            content = {
                "command": "python data/h200/exact_counts.py",
                "columns": ["number", "sample", "exact", "ncu"],
                "launches": {n: rows[n] for n in sampled if n in rows},
            }
            args.to.write_bytes(gzip.compress(json.dumps(content).encode(), mtime=0))


if __name__ == "__main__":
    main()
