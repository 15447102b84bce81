"""Print the H200's numbers that src/warplens/machine/files/h200.toml takes from mix.json.gz.

    python data/h200/fit.py

Throughput is 2N iterations against N on the slowest warp (launch and prologue cancel); latency is the mean
over warps. The best of three repetitions counts. The loaded latency a + b x / (c - x) is fitted to the
chains with one load in flight per warp for a and b, with c such that it also meets the heaviest load.
"""

import gzip
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

data = json.loads(gzip.decompress((Path(__file__).parent / "mix.json.gz").read_bytes()))
groups = defaultdict(list)
for sample in data["samples"]:
    groups[sample["mix"], sample["alpha"], sample["ilp"], sample["warps_per_sm"]].append(sample)


def cycles(key: tuple) -> float:
    """Cycles per iteration of the chain."""
    samples = groups[key]
    return min(s["cycles"] - s["cycles_half"] for s in samples) / (samples[0]["iterations"] / 2)


def latency(key: tuple) -> float:
    """Mean warp cycles per iteration."""
    return min(s["mean_warp_cycles_per_iteration"] for s in groups[key])


warps = sorted({key[3] for key in groups})
print("fp32 latency", round(latency(("add", 512, 1, 1)) / 512, 3))
print("sfu latency", round(latency(("sfu", 0, 1, 1)), 2), " to fp32:", round(latency(("sfu", 1, 1, 1)) - 4, 2))
print("shared latency", round(latency(("shared", 0, 1, 1)), 2), " to fp32:", round(latency(("shared", 1, 1, 1)) - 4, 2))
for name, alpha, per in (("add", 512, 512), ("sfu", 0, 1), ("shared", 0, 1)):
    rates = [32 * per * n / cycles((name, alpha, 1, n)) for n in warps]
    print(name, "ops/cycle/SM", [round(r, 2) for r in rates], "peak per scheduler", round(max(rates) / 4, 2))
bytes_per_ipc = 128 * data["sms"] * 1.98e9
rates = [n / cycles(("load", 0, 1, n)) for n in warps]
print("load ops/cycle/SM", [round(32 * r, 3) for r in rates])
print("load latencies", [round(latency(("load", 0, 1, n)), 1) for n in warps])
unloaded = min(latency(("load", 0, 1, n)) for n in warps) - 5  # less the address arithmetic, IMAD.WIDE
print("load latency without address arithmetic", round(unloaded, 1))
every = [(i * n / cycles(("load", 0, i, n)) * bytes_per_ipc, latency(("load", 0, i, n))) for i in (1, 2, 4) for n in warps]
print("peak TB/s", round(max(x for x, _ in every) / 1e12, 3))
x = np.array([r * bytes_per_ipc for r in rates])
y = np.array([latency(("load", 0, 1, n)) - 5 for n in warps])
heavy_x, heavy_y = max(every)
best = None
for c in np.arange(heavy_x * 1.002, heavy_x * 1.3, heavy_x * 0.001):
    basis = np.stack([np.ones_like(x), x / (c - x)], axis=1)
    (a, b), *_ = np.linalg.lstsq(basis, y, rcond=None)
    error = abs(a + b * heavy_x / (c - heavy_x) - (heavy_y - 5))
    if best is None or error < best[0]:
        best = (error, a, b, c, np.abs(basis @ [a, b] - y).max())
print("contention a %.1f b %.1f c %.4e, off by at most %.1f cycles with one load per warp" % tuple(best[1:]))
print("         heaviest load: %.3f TB/s at %.0f cycles" % (heavy_x / 1e12, heavy_y))
