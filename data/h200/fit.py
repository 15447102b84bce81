"""Print the H200's numbers that src/warplens/machine/files/h200.toml takes from mix.json.gz and lone_warp.json.

    python data/h200/fit.py

The best of three repetitions counts. The loaded latency a + b x / (c - x) is fitted to the chains with one
load in flight per warp for a and b, with c such that it also meets the heaviest load.
"""

import gzip
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

here = Path(__file__).parent
data = json.loads(gzip.decompress((here / "mix.json.gz").read_bytes()))
lone = {name: min(cycles) for name, cycles in json.loads((here / "lone_warp.json").read_text())["cycles"].items()}
groups = defaultdict(list)
for sample in data["samples"]:
    groups[sample["mix"], sample["alpha"], sample["ilp"], sample["warps_per_sm"]].append(sample)


def rate(key: tuple) -> float:
    """Iterations per cycle and SM."""
    return max(s["iterations_per_cycle_per_sm"] for s in groups[key])


def latency(key: tuple) -> float:
    """Mean warp cycles per iteration."""
    return min(s["mean_warp_cycles_per_iteration"] for s in groups[key])


ADDRESS = 6  # cycles from IMAD.WIDE to LDG, by the stall counts in the machine code
warps = sorted({key[3] for key in groups})
print("latencies, lone warp: fadd %.2f  mufu %.2f  lds %.2f  dfma %.2f  shfl %.2f  popc %.2f" % (
    lone["fadd_ilp1"] / 63.5, lone["mufu_ilp1"] / 32, lone["lds_ilp1"] / 31.5, lone["dfma_ilp1"] / 31.5,
    lone["shfl_ilp1"] / 31.5, lone["popc_ilp1"] / 31.5))  # fmt: skip
print("fadd to mufu %.2f" % (lone["mufu_fadd"] / 32 - lone["mufu_ilp1"] / 32))
for name, alpha, per in (("add", 512, 512), ("sfu", 0, 1), ("shared", 0, 1), ("load", 0, 1)):
    rates = [32 * per * rate((name, alpha, 1, n)) for n in warps]
    print(name, "ops/cycle/SM", [round(r, 3) for r in rates], "peak per scheduler", round(max(rates) / 4, 2))
bytes_per_ipc = 128 * data["sms"] * 1.98e9
print("load latencies", [round(latency(("load", 0, 1, n)), 1) for n in warps])
print("load latency without address arithmetic", round(min(latency(("load", 0, 1, n)) for n in warps) - ADDRESS, 1))
every = [(i * rate(("load", 0, i, n)) * bytes_per_ipc, latency(("load", 0, i, n))) for i in (1, 2, 4) for n in warps]
print("peak TB/s", round(max(x for x, _ in every) / 1e12, 3))
x = np.array([rate(("load", 0, 1, n)) * bytes_per_ipc for n in warps])
y = np.array([latency(("load", 0, 1, n)) - ADDRESS for n in warps])
heavy_x, heavy_y = max(every)
best = None
for c in np.arange(heavy_x * 1.002, heavy_x * 1.3, heavy_x * 0.001):
    basis = np.stack([np.ones_like(x), x / (c - x)], axis=1)
    (a, b), *_ = np.linalg.lstsq(basis, y, rcond=None)
    error = abs(a + b * heavy_x / (c - heavy_x) - (heavy_y - ADDRESS))
    if best is None or error < best[0]:
        best = (error, a, b, c, np.abs(basis @ [a, b] - y).max())
print("contention a %.1f b %.1f c %.4e, off by at most %.1f cycles with one load per warp" % tuple(best[1:]))
print("         heaviest load: %.3f TB/s at %.0f cycles" % (heavy_x / 1e12, heavy_y))

# The spread of single load latencies, for [[latency_distribution]]: quantiles of the middle of each bin.
spread = json.loads(gzip.decompress((here / "load_latency.json.gz").read_bytes()))
for sample in spread["samples"]:
    counts = np.array(sample["counts"], float)
    middle = spread["bin_cycles"] * np.arange(len(counts)) + (spread["bin_cycles"] - 1) / 2
    share, seen = np.cumsum(counts) / counts.sum(), middle[counts > 0]
    row = [seen[0], *(middle[np.searchsorted(share, p)] for p in (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)), seen[-1]]
    traffic = sample["loads_per_cycle_per_sm"] * bytes_per_ipc / 1e12
    print("load latency, %d warps: %.3f TB/s, min p5 p25 p50 p75 p95 p99 max" % (sample["warps_per_sm"], traffic), row)
