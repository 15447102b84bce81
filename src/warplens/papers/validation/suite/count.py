"""Workloads of all measured launches, counted by the emulator: workloads.json.xz, from which validation predicts."""

from __future__ import annotations

import gzip
import json
import lzma
import sys
import time
import tomllib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from warplens.core.errors import WarplensError
from warplens.emulator.profiler import profile
from warplens.machine import load_machine
from warplens.papers.validation.suite.build import ROOT, SUITE
from warplens.workload import Workload
from warplens.workload.compiled_call import architecture, load_call, source_of
from warplens.workload.counted import workload_of
from warplens.workload.launch import load_launch
from warplens.workload.profile import Profile

FOLDERS = ("kernels", "triton", "ladders")


def _of_ladders(measured: set[str]) -> list[str]:
    """Return the launches of the ladders that are not among the measured kernels."""
    text = (Path(__file__).parents[1] / "ladders.toml").read_text()
    steps = [step for ladder in tomllib.loads(text)["ladder"] for step in ladder["steps"]]
    return sorted({step[side] for step in steps for side in ("before", "after")} - measured)


def _workload(file: Path, variant: str) -> Workload:
    """Compile the kernel of a launch, emulate it, and return what was counted."""
    machine, call, counted = load_machine("h200"), load_launch(file, variant), list[Workload]()
    path, options = source_of(call, architecture(machine))
    program, call = load_call(path, None, call, options)

    def count(profile: Profile) -> None:
        counted.append(workload_of(program, call, profile, machine))

    whole = profile(program, call, machine, early=count)
    return counted[0].with_values(profile=whole)


def _count(name: str, file: Path, variant: str) -> tuple[str, dict[str, Any] | None, str]:
    """Return a launch's workload as plain data, or none, and a line about it."""
    start = time.perf_counter()
    try:
        workload = _workload(file, variant)
    except WarplensError as error:
        return name, None, f"{name}: {error}"
    tree: dict[str, Any] = msgspec.to_builtins(workload)
    tree["source"] = workload.source.replace(f"{ROOT}/", "")
    return name, tree, f"{name}  {time.perf_counter() - start:.1f} s"


def count(folder: str, names: list[str], jobs: int, *, anew: bool = False) -> str:
    """Count the launches that are missing, and those named; return a line on the result."""
    measured = SUITE / ("triton" if folder == "triton" else "kernels") / "times.json.gz"
    times = json.loads(gzip.decompress(measured.read_bytes()))["launches"]
    found = (SUITE / "triton").glob("*.toml") if folder == "triton" else (ROOT / "examples").rglob("*.toml")
    files, out = {path.stem: path for path in found}, SUITE / folder / "workloads.json.xz"
    workloads: dict[str, Any] = {}
    if out.exists() and not anew:
        workloads = json.loads(lzma.decompress(out.read_bytes()))["workloads"]
    tasks = []
    for name in _of_ladders(set(times)) if folder == "ladders" else list(times):
        if name not in workloads or name in names:
            stem, _, variant = (name, "", "") if folder == "triton" else name.partition(".")
            tasks.append((name, files[stem], variant))
    with ProcessPoolExecutor(jobs) as pool:
        for name, workload, line in pool.map(_count, *zip(*tasks, strict=True)) if tasks else ():
            print(line, file=sys.stdout if workload else sys.stderr, flush=True)
            if workload is not None:
                workloads[name] = workload
    command = f"python -m warplens.papers.validation.suite count --of {folder}"
    part = out.with_suffix(".part")
    part.write_bytes(lzma.compress(msgspec.json.encode({"gpu": "h200", "command": command, "workloads": workloads})))
    part.replace(out)
    return f"{out.name}: {len(workloads)} workloads"
