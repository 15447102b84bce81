"""Which lines L1 keeps, and how large it is: `python data/h200/kept.py kept.cubin > kept.json`.

kept.cu runs one block on one SM. A pattern is what its warps load, turn by turn, so many loads at once, and what is
touched afterwards, one after the other; the time of each touch says whether L1 had it. Kept for each pattern: its
parameters, from which `tables` makes the lines again, the share found in each of five runs, and a bit per touch.
"""

from __future__ import annotations

import base64
import ctypes
import json
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parent))
from driver import Gpu

LINE = 128
LINES = 32768  # of the array that the patterns are from; lines loaded before are of another one, and count from here
LATE_CYCLES = 150  # a hit takes some 60 with its clocks, L2 some 280
CARVEOUT = 9  # the driver's number for the share of shared memory that a kernel prefers
Table = npt.NDArray[np.uint16]


def tables(p: dict[str, Any]) -> tuple[Table, Table]:
    """Return the lines that are loaded [turns, loads, warps, width] and those that are touched."""
    shape = p["turns"], p["loads"], p["warps"], p["width"]
    count, random = int(np.prod(shape)), np.random.default_rng(p["seed"])
    if p["kind"] == "random":  # with a distance: from two places so many lines apart
        lines = random.choice(LINES * (2 if p.get("apart") else 1), count, replace=False)
    else:
        lines = (int(random.integers(LINES)) + p.get("step", 1) * np.arange(count)) % LINES
    touched = random.permutation(lines)
    if p.get("touch") == "old":  # what was loaded before, the last of it first
        touched = LINES + p["before"] - 1 - np.arange(min(p["before"], 2048))
    elif p.get("mode"):  # every warp's own, in order
        touched = lines
    return lines.astype(np.uint16).reshape(shape), touched.astype(np.uint16)


def pattern(kind: str, seed: int, loads: int, warps: int, width: int, turns: int = 1, **more: Any) -> dict[str, Any]:
    """Return the parameters of a pattern."""
    return {"kind": kind, "seed": seed, "turns": turns, "loads": loads, "warps": warps, "width": width, **more}


def patterns() -> Iterator[dict[str, Any]]:
    """Yield the parameters of all patterns."""
    for kind, before, seed in product(("random", "row"), (0, 4096), (1, 2)):
        for warps, loads, width in ((32, 2, 1), (32, 4, 1), (32, 8, 1), (32, 16, 1)):  # whole lines
            yield pattern(kind, seed, loads, warps, width, before=before)
            yield pattern(kind, seed, loads, warps, width, turns=2, before=before, mode=1)
        for warps, loads in ((1, 2), (1, 4), (1, 8), (1, 16), (16, 1), (32, 1), (32, 2)):  # a sector of each
            yield pattern(kind, seed, loads, warps, 32, before=before)
        for turns in (4, 8, 16, 32):  # one load at a time
            yield pattern(kind, seed, 1, 1, 32, turns=turns, before=before)
            yield pattern(kind, seed, 1, 32, 1, turns=turns, before=before)
        for loads in (1, 2, 4):
            yield pattern(kind, seed, loads, 32, 8, before=before)
            yield pattern(kind, seed, loads, 32, 1, turns=8, before=before, mode=1)
    for seed, count in product((1, 2), (0, 1, 4, 8, 16)):  # which of the old lines went
        for before in (1024, 1800, 2048, 4096):
            yield pattern("random", seed, max(1, count), 32 if count else 1, 1, before=before, touch="old")
        yield pattern("random", seed, max(1, count), 1, 32 if count else 1, before=4096, touch="old")
    for power in range(1, 8):
        yield pattern("row", 1, 8, 32, 1, step=1 << power, before=0)
        yield pattern("row", 1, 8, 32, 1, step=1 << power, before=4096)
    for seed in range(10, 30):  # enough to tell one rule of sets from another
        yield pattern("random", seed, 16, 32, 1, before=0)
        yield pattern("random", seed, 16, 32, 1, before=4096)
        yield pattern("random", seed, 1, 32, 32, before=0)
    for power, seed in product(range(15, 24), (1, 2, 3, 4)):
        yield pattern("random", seed, 1, 32, 32, apart=1 << power)
    for warps, kib in product((1, 2, 4, 8, 16, 32), (0, 1, 2, 3, 5, 7, 9, 10, 12, 15, 18, 20, 24, 28, 32, 36, 40, 48)):
        yield pattern(
            "row", 1, 1, warps, 1, before=2048, touch="old", room=kib << 10, carveout=-1
        )  # the driver's choice


def main() -> None:
    """Run all patterns, each six times; print what was found, and which lines in most of the last five."""
    gpu, cubin = Gpu(), Path(sys.argv[1])
    data, room, out = (gpu.memory(size) for size in (LINE * (LINES + (1 << 23)), 1 << 16, 1 << 16))
    rows = []
    for p in patterns():
        loads, touched = tables(p)
        gpu.put(room, 0, np.concatenate([loads.ravel(), touched]))
        shared = 2 * (loads.size + 2 * len(touched)) + p.get("room", 0)
        kernel = gpu.function(cubin, f"kept{p['loads']}", shared)
        gpu.call("cuFuncSetAttribute", kernel, CARVEOUT, p.get("carveout", 0))
        unit = 4 if p["width"] < 32 else 0
        numbers = [p.get("before", 0), p["turns"], p["width"], unit, p.get("mode", 0), len(touched)]
        old = ctypes.c_uint64(data.value + LINE * p.get("apart", LINES))
        held = [data, old, room, *[ctypes.c_int(n) for n in numbers], out]
        arguments = (ctypes.c_void_p * len(held))(*[ctypes.addressof(a) for a in held])
        hits, times = [], np.zeros(len(touched), np.uint16)
        for _ in range(6):
            gpu.call("cuLaunchKernel", kernel, 1, 1, 1, 32 * p["warps"], 1, 1, shared, None, arguments, None)
            gpu.wait()
            gpu.get(out, times)
            hits.append(times < LATE_CYCLES)
        most = np.mean(hits[1:], axis=0) > 0.5  # the first run brings it all to L2
        found = [round(float(np.mean(h)), 4) for h in hits[1:]]
        bits = base64.b64encode(np.packbits(most).tobytes()).decode()
        rows.append({**p, "shared_bytes": shared, "found": found, "most": bits})
        print(json.dumps(p), found, [int(np.percentile(times, q)) for q in (1, 50, 99)], file=sys.stderr)
    print(json.dumps({**gpu.about(), "data_address": data.value, "rows": rows}))


if __name__ == "__main__":
    main()
