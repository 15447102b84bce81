"""Count every measured launch by the emulator: `python data/h200/count_launches.py` writes kernels/workloads.json.gz.

What validation compares with the times in kernels/times.json.gz. Launches that are in the file already are kept unless
their names are given; `--all` counts all of them anew. `--triton` does the same in the folder triton, for the launches
that build_triton.py compiled.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

import warplens as wl
from warplens.errors import WarplensError

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def main(arguments: list[str]) -> None:
    """Count the launches that are missing, or those named."""
    triton = "--triton" in arguments
    folder = HERE / ("triton" if triton else "kernels")
    times = json.loads(gzip.decompress((folder / "times.json.gz").read_bytes()))["launches"]
    files = {path.stem: path for path in (folder.glob("*.toml") if triton else (ROOT / "examples").rglob("*.toml"))}
    out = folder / "workloads.json.gz"
    gpu = wl.load_machine("h200")
    made: dict[str, Any] = {}
    if out.exists() and "--all" not in arguments:
        made = json.loads(gzip.decompress(out.read_bytes()))["workloads"]
    for name in times:
        if name in made and name not in arguments:
            continue
        stem, _, variant = (name, "", "") if triton else name.partition(".")
        start = time.perf_counter()
        try:
            workload = wl.analyze(None, files[stem], gpu, variant=variant)
        except WarplensError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        made[name] = msgspec.to_builtins(workload)
        made[name]["source"] = workload.source.replace(f"{ROOT}/", "")
        print(f"{name}  {time.perf_counter() - start:.1f} s", flush=True)
    command = f"python data/h200/count_launches.py{' --triton' if triton else ''}"
    content = {"gpu": "h200", "command": command, "workloads": made}
    part = out.with_suffix(".part")
    part.write_bytes(gzip.compress(msgspec.json.encode(content), mtime=0))
    part.replace(out)


if __name__ == "__main__":
    main(sys.argv[1:])
