"""What the kernels of examples/today/order, sparse, random and limits compute."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.cuda.today import Values
from warplens.workload.launch import KernelCall

# ---- order


def scan(given: Values, call: KernelCall) -> Values:
    """Prefix sums within blocks, and their totals."""
    sums = given["in"].reshape(call.blocks, -1).cumsum(1)
    return {"out": sums.reshape(-1), "out_total": sums[:, -1]}


def radix_histogram(given: Values, call: KernelCall) -> Values:
    """How often each digit is among a block's keys, by digit and block."""
    digits = (given["keys"] >> np.uint32(given["shift"]) & np.uint32(255)).reshape(call.blocks, -1)
    return {"out": np.stack([np.bincount(row, minlength=256) for row in digits], 1).reshape(-1)}


def radix_scatter(given: Values, call: KernelCall) -> Values:
    """All keys, sorted stably by their digit: the offsets are those of the histogram."""
    digits = given["keys"] >> np.uint32(given["shift"]) & np.uint32(255)
    return {"out": given["keys"][np.argsort(digits, kind="stable")]}


def bitonic(given: Values, call: KernelCall) -> Values:
    """Each block's keys, sorted."""
    return {"out": np.sort(given["in"].reshape(call.blocks, -1), 1).reshape(-1)}


def compact(given: Values, call: KernelCall) -> Values:
    """Each block's elements below the threshold, and how many; zeros behind them."""
    rows = given["in"].reshape(call.blocks, -1)
    out = np.zeros_like(rows)
    counts = (rows < given["threshold"]).sum(1)
    for row, to, count in zip(rows, out, counts, strict=True):
        to[:count] = row[row < given["threshold"]]
    return {"out": out.reshape(-1), "out_count": counts}


def hash_probe(given: Values, call: KernelCall) -> Values:
    """Probes, plus the payload where the tag was found."""
    slots, payloads = given["slots"].tolist(), given["payloads"].tolist()
    out = []
    for query in given["queries"].tolist():
        start = (query * 2654435761 & 0xFFFFFFFF) >> 4
        for probes in itertools.count(1):
            at = start + probes - 1 & given["mask"]
            empty, found = slots[at] & 3 == 0, slots[at] >> 2 & 15 == query >> 28
            if empty or found:
                out.append(probes + (0 if empty else payloads[at]) & 0xFFFFFFFF)
                break
    return {"out": np.array(out)}


def histogram(given: Values, call: KernelCall) -> Values:
    """How often each value is there, modulo the bins."""
    bins = next(a.count for a in call.arguments if a.name == "out") or 0
    return {"out": np.bincount(given["values"] % np.uint32(bins), minlength=bins)}


# ---- sparse


def spmv(given: Values, call: KernelCall) -> Values:
    """A sparse matrix times a vector; see row_start in spmv.cu."""
    row, mean = np.arange(given["rows"] + 1), given["mean"]
    start = mean * row + given["jitter"]
    if "SKEW" in call.defines:
        start = row // 64 * 64 * mean + (64 * mean * (row % 64) ** 3 >> 18) + given["jitter"]
    products = given["values"].astype(float) * given["x"][given["columns"]]
    sums = [products[a:b].sum() for a, b in itertools.pairwise(start)]
    return {"out": np.array(sums)}


def gather(given: Values, call: KernelCall) -> Values:
    """Pairs of the table, by the order."""
    return {"out": given["table"].reshape(-1, 2)[given["order"]].reshape(-1)}


def scatter(given: Values, call: KernelCall) -> Values:
    """Values to their places."""
    out = np.empty_like(given["values"])
    out[given["order"]] = given["values"]
    return {"out": out}


# ---- random


def philox(given: Values, call: KernelCall) -> Values:
    """Ten rounds of Philox 4x32 on each counter."""
    count = (next(a.count for a in call.arguments if a.name == "out") or 0) // 4
    word = np.uint64(0xFFFFFFFF)
    x, y, z, w = np.arange(count, dtype=np.uint64), *(np.zeros(count, np.uint64) for _ in range(3))
    for turn in range(10):
        key0, key1 = (
            np.uint64((given[key] + turn * step) & 0xFFFFFFFF)
            for key, step in (("key0", 0x9E3779B9), ("key1", 0xBB67AE85))
        )
        first, second = np.uint64(0xD2511F53) * x, np.uint64(0xCD9E8D57) * z
        x, y, z, w = second >> np.uint64(32) ^ y ^ key0, second & word, first >> np.uint64(32) ^ w ^ key1, first & word
    return {"out": np.stack([x, y, z, w], 1).reshape(-1)}


class _Xorshift:
    """The generators of all threads of a call."""

    def __init__(self, call: KernelCall) -> None:
        i = np.arange(call.blocks * call.threads_per_block, dtype=np.uint32)
        i = (i ^ np.uint32(61) ^ i >> np.uint32(16)) * np.uint32(9)
        i = (i ^ i >> np.uint32(4)) * np.uint32(0x27D4EB2D)
        self.state = (i ^ i >> np.uint32(15)) | np.uint32(1)

    def uniform(self) -> Any:
        """Return the next number of each, between 0 and 1."""
        for shift, left in ((13, True), (17, False), (5, True)):
            moved = self.state << np.uint32(shift) if left else self.state >> np.uint32(shift)
            self.state = self.state ^ moved
        return ((self.state >> np.uint32(8)).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-24)


def monte_carlo_pi(given: Values, call: KernelCall) -> Values:
    """How many points lie in the circle."""
    generator, inside = _Xorshift(call), 0
    for _ in range(given["samples"]):
        x, y = generator.uniform(), generator.uniform()
        inside += int((x.astype(float) ** 2 + y.astype(float) ** 2 < 1).sum())
    return {"out": np.array([inside])}


def monte_carlo_option(given: Values, call: KernelCall) -> Values:
    """The mean payoff of each thread's paths."""
    generator, total = _Xorshift(call), 0.0
    for _ in range(given["paths"]):
        walk = 0.0
        for _ in range(given["steps"] // 2):
            radius = np.sqrt(-2 * np.log(generator.uniform().astype(float)))
            angle = 2 * np.pi * generator.uniform().astype(float)
            walk = walk + radius * (np.sin(angle) + np.cos(angle)) * given["volatility"] + 2 * given["drift"]
        total = total + np.maximum(given["spot"] * np.exp(walk) - given["strike"], 0)
    return {"out": total / given["paths"]}


# ---- limits


def tlb_walk(given: Values, call: KernelCall) -> Values:
    """The sum of the places, in an array of zeros."""
    state = np.arange(call.blocks * call.threads_per_block, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    state, total = state + np.uint64(1), np.zeros_like(state)
    for _ in range(given["touches"]):
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        total += state >> np.uint64(24) & np.uint64(given["mask"])
    return {"out": total.astype(np.uint32)}


def few_blocks(given: Values, call: KernelCall) -> Values:
    """Each thread's sum of squares."""
    squares = given["x"].astype(float) ** 2
    threads = call.blocks * call.threads_per_block
    return {"out": np.bincount(np.arange(squares.size) // 4 % threads, squares, threads)}


def tiny(given: Values, call: KernelCall) -> Values:
    """A step with momentum."""
    velocities = given["momentum"] * given["velocities"].astype(float) + given["gradients"]
    return {"out_weights": given["weights"] - given["rate"] * velocities, "out_velocities": velocities}


def spill(given: Values, call: KernelCall) -> Values:
    """The state of 64 words, mixed, and its parity."""
    seed, state = given["in"], []
    for _ in range(64):
        seed = seed * np.uint32(1664525) + np.uint32(1013904223)
        state.append(seed)
    for _ in range(given["rounds"]):
        for j in range(64):
            mixed = (state[j] ^ state[(j + 29) % 64]) * np.uint32(5)
            state[j] = mixed + (state[(j + 47) % 64] >> np.uint32(3))
    return {"out": np.bitwise_xor.reduce(state)}


def long_code(given: Values, call: KernelCall) -> Values:
    """Multiply-adds, each rounded once: the double-precision value in between is exact."""
    steps = next((int(d.removeprefix("STEPS=")) for d in call.defines), 2048)
    x = [given["in"] + np.float32(i) for i in range(4)]
    for step in itertools.chain.from_iterable(itertools.repeat(range(steps), given["trips"])):
        constant = (step * 37 % 1009 + 1) / 1024
        x[step % 4] = (0.5 * x[step % 4].astype(float) + constant).astype(np.float32)
    return {"out": x[0] + x[1] + x[2] + x[3]}
