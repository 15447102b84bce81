"""Count every measured launch by the emulator: `python data/h200/count_launches.py` writes kernels/workloads.json.gz.

What validation compares with the times in kernels/times.json.gz. Launches that are in the file already are kept unless their
names are given; `--all` counts all of them anew. `--ladders` counts those that the ladders of optimisations have beside
these, into ladders/workloads.json.gz.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import msgspec

import warplens as wl
from warplens.errors import WarplensError

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KERNELS = HERE / "kernels" / "workloads.json.gz"
LADDERS = HERE / "ladders" / "workloads.json.gz"


def ladder_names(measured: set[str]) -> list[str]:
    """Return the launches of the ladders that are not among the measured kernels."""
    text = (ROOT / "src" / "warplens" / "study" / "files" / "ladders.toml").read_text()
    steps = [step for ladder in tomllib.loads(text)["ladder"] for step in ladder["steps"]]
    return sorted({step[side] for step in steps for side in ("before", "after")} - measured)


def main(arguments: list[str]) -> None:
    """Count the launches that are missing, or those named."""
    times = json.loads(gzip.decompress((HERE / "kernels" / "times.json.gz").read_bytes()))["launches"]
    files = {path.stem: path for path in (ROOT / "examples").rglob("*.toml")}
    gpu = wl.load_machine("h200")
    made: dict[str, Any] = {}
    out = LADDERS if "--ladders" in arguments else KERNELS
    names = ladder_names(set(times)) if "--ladders" in arguments else list(times)
    if out.exists() and "--all" not in arguments:
        made = json.loads(gzip.decompress(out.read_bytes()))["workloads"]
    for name in names:
        if name in made and name not in arguments:
            continue
        stem, _, variant = name.partition(".")
        start = time.perf_counter()
        try:
            workload = wl.analyze(None, files[stem], gpu, variant=variant)
        except WarplensError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        made[name] = msgspec.to_builtins(workload)
        made[name]["source"] = workload.source.replace(f"{ROOT}/", "")
        print(f"{name}  {time.perf_counter() - start:.1f} s", flush=True)
    content = {"gpu": "h200", "command": "python data/h200/count_launches.py", "workloads": made}
    out.parent.mkdir(exist_ok=True)
    part = out.with_suffix(".part")
    part.write_bytes(gzip.compress(msgspec.json.encode(content), mtime=0))
    part.replace(out)


if __name__ == "__main__":
    main(sys.argv[1:])
