"""Tune all spaces at once on the GPU at hand, `warplens tune --measure`: `python data/h200/suite/tuning/live.py --out FILE`.

The five that each search measures, and the ten fastest configurations by NAME.json.gz, are timed again, one space after
the other (us, the less of two medians). The loss is the best of five over the fastest of all of these.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import fcntl
import gzip
import json
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from warplens.core.cache import Cache
from warplens.core.files import write_whole
from warplens.machine import load_machine
from warplens.program import nvrtc
from warplens.tuner import engines, measured
from warplens.tuner.spec import Configuration, load_sweep
from warplens.tuner.tune import tune

HERE = Path(__file__).parent


def live(space: str, workers: int, lock: str) -> dict[str, Any]:
    """Tune one space and time what it chooses; other spaces may be searched meanwhile, but nothing else is timed."""
    began = time.monotonic()
    sweep, machine = load_sweep(HERE / f"{space}.toml"), load_machine("h200")
    seconds = measured.on_gpu(machine)
    with tempfile.TemporaryDirectory() as folder:
        found = tune(sweep, machine, share=0.05, cache=Cache(Path(folder)), engine=engines.processes(workers))
    recorded = json.loads(gzip.decompress((HERE / f"{space}.json.gz").read_bytes()))["points"]
    fastest = [p["number"] for p in sorted(recorded, key=lambda p: float(p["us"]))[:10]]
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        five = measured.measure(sweep, found, seconds, 5)
        took = time.monotonic() - began
        calls = {c.number: c.call for c in sweep.configurations() if isinstance(c, Configuration)}
        numbers = [*dict.fromkeys([*(m.candidate.number for m in five), found.best.number, *fastest])]
        passes = [{n: 1e6 * seconds(calls[n]) for n in numbers} for _ in range(2)]
    again = {n: round(min(p[n] for p in passes), 3) for n in numbers}
    least = min(again.values())
    return {
        "space": space,
        "command": f"warplens tune data/h200/suite/tuning/{space}.toml --gpu h200 --top 5 --measure",
        "seconds": round(took, 1),
        "configurations": len(found.candidates),
        "emulated": found.emulated,
        "five_us": {m.candidate.number: round(1e6 * m.seconds, 3) for m in five},
        "five_again_us": {m.candidate.number: again[m.candidate.number] for m in five},
        "ten_fastest_again_us": {n: again[n] for n in fastest},
        "recorded_us": {p["number"]: p["us"] for p in recorded if p["number"] in again},
        "chosen_by_prediction": found.best.number,
        "loss": round(again[five[0].candidate.number] / least - 1, 5),
        "loss_without_measuring": round(again[found.best.number] / least - 1, 5),
    }


def compiler() -> str:
    """Return the version of the NVRTC that warplens finds."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    ctypes.CDLL(str(nvrtc.library())).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def main() -> None:
    """Tune all spaces, or those named, and write what they found as they come."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", required=True)
    parser.add_argument("--workers", type=int, default=2, help="processes that compile, for each space")
    args = parser.parse_args()
    names = args.names or sorted(p.name.removesuffix(".json.gz") for p in HERE.glob("*.json.gz"))
    rows: dict[str, Any] = {}
    with tempfile.NamedTemporaryFile() as lock, ProcessPoolExecutor(len(names)) as pool:
        for task in as_completed([pool.submit(live, name, args.workers, lock.name) for name in names]):
            made = task.result()
            rows[made["space"]] = made
            print(made["space"], made["loss"], made["loss_without_measuring"], made["seconds"], flush=True)
            content = {
                "gpu": "NVIDIA H200",
                "date": datetime.date.today().isoformat(),
                "command": "python data/h200/suite/tuning/live.py --out data/h200/suite/tuning/live.json",
                "about": " ".join((__doc__ or "").split("\n\n")[1].split()),
                "nvrtc": compiler(),
                "spaces": [rows[name] for name in sorted(rows)],
            }
            write_whole(Path(args.out), json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
