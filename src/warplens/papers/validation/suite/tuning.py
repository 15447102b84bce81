"""Every configuration of the tuning spaces on the GPU: NAME.json.gz for each space.

All configurations are timed in turn, with a warm L2, and then again in the opposite order, so that a slow drift of the
clock falls on all of them. What a configuration computes is compared with the first one's.
"""

from __future__ import annotations

import gzip
import json
import statistics
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from warplens.core.driver import DriverError
from warplens.core.errors import WarplensError
from warplens.papers.validation.suite.gpu import Arrays, Device, Launch
from warplens.workload.launch import KernelCall

_COMPARED = 1 << 16  # elements of an output
Entry = dict[str, Any]


class Session:
    """The configurations of an index on the GPU."""

    def __init__(self, folder: Path, repetitions: int) -> None:
        """Take the GPU."""
        self.device, self._folder, self._repetitions = Device(), folder, repetitions
        self._arrays = Arrays(self.device)
        self._expected = dict[str, np.ndarray[Any, Any]]()

    def measure(self, entry: Entry, *, check: bool) -> dict[str, Any]:
        """Time one configuration; an error is its result."""
        try:
            call = msgspec.convert(entry["call"], KernelCall)
            launch, found = Launch(self.device, self._arrays, entry, call, self._folder), dict[str, Any]()
            if check:
                found["same"] = self._same(launch, entry["space"])
            launch.run()
            found["samples_us"] = [self.device.timed(launch) for _ in range(self._repetitions)]
            found["clock_mhz"] = self.device.clocks_mhz()["sm"]
            launch.free()
            return found
        except WarplensError as error:
            try:
                self.device.gpu.wait()
            except DriverError:
                self.device.reset()
                self._arrays = Arrays(self.device)
            return {"error": str(error)}

    def _same(self, launch: Launch, space: str) -> bool:
        """Compare the beginning of the output with the first configuration's; sums by block, which differ in number,
        by their sum."""
        launch.restore()
        launch.run()
        self.device.gpu.wait()
        data = next(iter(launch.results(_COMPARED).values())).astype(np.float64)
        seen = np.array([data.sum()]) if space == "reduction" else data
        return bool(np.allclose(seen, self._expected.setdefault(space, seen), rtol=2e-3, atol=1e-5))


def _point(entry: Entry, first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    samples = [*first.get("samples_us", []), *second.get("samples_us", [])]
    kept = {key: entry[key] for key in ("number", "values", "registers", "static_shared_bytes")}
    seen = {"us": round(statistics.median(samples), 3)} if samples else {}
    failed = {"error": second["error"]} if "error" in second else {}
    return {**kept, **first, **seen, "samples_us": samples, **failed}


def run(index: Path, out: Path, repetitions: int, only: list[str]) -> str:
    """Time the configurations of an index, write a file for each space; return a line on them."""
    entries = [e for e in json.loads(index.read_text())["entries"] if not only or e["space"] in only]
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(index.parent / "cubins.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        session, began, first = Session(Path(folder), repetitions), time.monotonic(), []
        for i, entry in enumerate(entries):
            first.append(session.measure(entry, check=True))
            if i % 100 == 0:
                line = f"{i}/{len(entries)} {entry['space']} {time.monotonic() - began:.1f} s"
                print(line, file=sys.stderr, flush=True)
        second = [session.measure(entry, check=False) for entry in reversed(entries)][::-1]
    out.mkdir(parents=True, exist_ok=True)
    lines = []
    for space in dict.fromkeys(e["space"] for e in entries):
        every = zip(entries, first, second, strict=True)
        points = [_point(entry, one, two) for entry, one, two in every if entry["space"] == space]
        about = {**session.device.about(), "repetitions": 2 * repetitions, "space": space, "points": points}
        (out / f"{space}.json.gz").write_bytes(gzip.compress(json.dumps(about).encode(), mtime=0))
        wrong = [p.get("error", p["values"]) for p in points if "error" in p or not p.get("same", True)]
        lines.append(f"{space}: {len(points)} points, {len(wrong)} wrong {wrong[:2]}")
    return "\n".join(lines)
