"""Count every measured launch by the emulator: `python data/h200/count_launches.py` writes kernels/workloads.json.xz.

What validation compares with the times in kernels/times.json.gz. Launches that are in the file already are kept unless
their names are given; `--all` counts all of them anew, `--jobs N` by so many processes. `--triton` does the same in the
folder triton, for the launches that build_triton.py compiled; `--ladders` in the folder ladders, for those that the
ladders of optimisations have beside the measured kernels.
"""

from __future__ import annotations

import argparse
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

import warplens as wl
from warplens.core.errors import WarplensError
from warplens.program.toolkits import prefer_wheels

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def ladder_names(measured: set[str]) -> list[str]:
    """Return the launches of the ladders that are not among the measured kernels."""
    text = (ROOT / "src" / "warplens" / "papers" / "validation" / "ladders.toml").read_text()
    steps = [step for ladder in tomllib.loads(text)["ladder"] for step in ladder["steps"]]
    return sorted({step[side] for step in steps for side in ("before", "after")} - measured)


def count(name: str, file: Path, variant: str) -> tuple[str, dict[str, Any] | None, str]:
    """Return a launch's workload as plain data, or none, and a line about it."""
    start = time.perf_counter()
    try:
        workload = wl.count(None, file, wl.load_machine("h200"), variant=variant)
    except WarplensError as error:
        return name, None, f"{name}: {error}"
    made: dict[str, Any] = msgspec.to_builtins(workload)
    made["source"] = workload.source.replace(f"{ROOT}/", "")
    return name, made, f"{name}  {time.perf_counter() - start:.1f} s"


def main() -> None:
    """Count the launches that are missing, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--of", default="kernels", choices=("kernels", "triton", "ladders"))
    for folder in ("triton", "ladders"):
        parser.add_argument(f"--{folder}", dest="of", action="store_const", const=folder)
    args = parser.parse_args()
    measured = HERE / ("triton" if args.of == "triton" else "kernels") / "times.json.gz"
    times = json.loads(gzip.decompress(measured.read_bytes()))["launches"]
    found = (HERE / "triton").glob("*.toml") if args.of == "triton" else (ROOT / "examples").rglob("*.toml")
    files = {path.stem: path for path in found}
    out = HERE / args.of / "workloads.json.xz"
    made: dict[str, Any] = {}
    if out.exists() and not args.all:
        made = json.loads(lzma.decompress(out.read_bytes()))["workloads"]
    names = ladder_names(set(times)) if args.of == "ladders" else list(times)
    tasks = []
    for name in names:
        if name not in made or name in args.names:
            stem, _, variant = (name, "", "") if args.of == "triton" else name.partition(".")
            tasks.append((name, files[stem], variant))
    with ProcessPoolExecutor(args.jobs) as pool:
        for name, workload, line in pool.map(count, *zip(*tasks, strict=True)) if tasks else ():
            print(line, file=sys.stdout if workload else sys.stderr, flush=True)
            if workload is not None:
                made[name] = workload
    option = "" if args.of == "kernels" else f" --{args.of}"
    content = {"gpu": "h200", "command": f"python data/h200/count_launches.py{option}", "workloads": made}
    out.parent.mkdir(exist_ok=True)
    part = out.with_suffix(".part")
    part.write_bytes(lzma.compress(msgspec.json.encode(content)))
    part.replace(out)


if __name__ == "__main__":
    prefer_wheels()
    main()
