"""From many warps at once to what they cost one another: places of blocks, reads among writes, code, pairs of SMs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from warplens.laboratory.derive_memory import contention
from warplens.laboratory.numbers import Number, digits
from warplens.laboratory.plans_lives import PARTS
from warplens.laboratory.samples import Samples

_END_CYCLES = 20  # from a warp's last clock to its end, by the stall counts in the machine code: a comparison, EXIT
_TURN_BYTES = 1024  # of a block: 256 threads


def blocks(samples: Samples) -> Iterator[Number]:
    """How long the place of a block that ended stays empty, and how many of its warps wait alike for their loads."""
    entry = "lives.blocks"

    def exchange(point: dict[str, int], values: dict[str, float]) -> float:
        return values["period"] - values["block"] - _END_CYCLES

    taken = samples.take(entry, exchange, "block_warps", "loads", stores=0)
    found = [reading.median for (warps, _), reading in taken.items() if warps in (8, 16)]
    if found:
        how = (
            "from start to start in the same place of an SM, less from a block's first start until its last loads have "
            f"come, less {_END_CYCLES} to the end: blocks of 8 and 16 warps with 1 or 2 loads, median of "
            f"{', '.join(f'{one:.0f}' for one in found)}"
        )
        yield Number("sm.block_exchange_cycles", digits(float(np.median(found)), 3), entry, how)
    off = [_off(samples, entry, part) for part in PARTS]
    crossed = next((k for k, (one, more) in enumerate(pairwise(off)) if one and more and one >= 0 > more), None)
    if crossed is not None:
        one, more = off[crossed] or 0.0, off[crossed + 1] or 0.0
        alike = PARTS[crossed] * 2 ** (one / (one - more))
        each = ", ".join(f"{part}: {100 * (value or 0):+.1f} %" for part, value in zip(PARTS, off, strict=True))
        how = (
            f"the longest wait of a block's warps is that of {alike:.2f} times fewer draws from the waits of single "
            f"ones; mean difference of both over blocks of 4 to 32 warps by how many wait alike: {each}"
        )
        yield Number("memory.alike_warps", float(round(alike)), entry, how)


def _off(samples: Samples, entry: str, part: int) -> float | None:
    """Return how much longer than a block's longest wait is that of a part of its warps, each for itself: the mean."""

    def apart(point: dict[str, int], values: dict[str, float]) -> float:
        few = min(part, point["block_warps"])
        return (values[f"drawn_{few}"] - values["longest"]) / values["latency"]

    found = samples.take(entry, apart, "block_warps", "loads", "stores")
    return float(np.mean([reading.median for reading in found.values()])) if found else None


def writes(samples: Samples) -> Iterator[Number]:
    """What a read waits for beyond the curve of reads alone, by the share of DRAM's rate that is written."""
    entry, curve = "lives.turns", {n.key: n.value for n in contention(samples) if n.key.startswith("contention.")}
    b, c = curve.get("contention.b_cycles"), curve.get("contention.c_bytes_per_second")
    clock = samples.head["reference_ghz"] * 1e9
    rate = samples.take(
        entry,
        lambda p, v: p["blocks"] * p["turns"] * _TURN_BYTES * (1 + p["stores"] / 4) * clock
        / (v["mean_span_cycles_2n"] - v["mean_span_cycles_n"]),
        "stores", "warps",
    )  # fmt: skip
    wait = samples.take(
        entry,
        lambda p, v: (v["waited_cycles_2n"] - v["waited_cycles_n"]) / (p["blocks"] * 8 * p["turns"]),
        "stores", "warps",
    )  # fmt: skip
    if not (isinstance(b, float) and isinstance(c, float) and len(wait) > 8) or min(wait)[0] > 0:
        return
    at = sorted(wait)
    moved = np.array([rate[one].median for one in at]) / c
    written = moved * np.array([stores / (4 + stores) for stores, _ in at])
    beyond = np.array([wait[one].median for one in at]) - b * moved / (1 - moved)
    alone = beyond[0]  # the fewest warps without stores
    more, share = (beyond - alone)[written > 0], written[written > 0]
    slope = float(more @ share / (share @ share))
    rms = float(np.sqrt(np.mean((more - slope * share) ** 2)))
    how = (
        "loads among stores in 1, 2 and 4 turns of 4, by load, less the curve of contention and less the fewest warps "
        f"without stores: slope over the share of c that is written; {rms:.0f} cycles off (rms), {len(more)} points"
    )
    yield Number("contention.written_cycles", digits(slope), entry, how)


def fetches(samples: Samples) -> Iterator[Number]:
    """Cycles per instruction of the warps of an SM that are at different places of long code, all SMs at work."""
    entry = "control.fetch"
    taken = samples.take(
        entry, lambda p, v: v["mean_warp_cycles"] / (p["passes"] * p["links"] * p["fetching"]), "fetching"
    )
    if 2 in taken and 4 in taken:
        two, four = taken[2], taken[4]
        how = (
            f"8192 multiply-adds, two ({two.median:.3f}) and four ({four.median:.3f}) warps of each SM a third of a "
            f"pass apart, second and third pass; {four}"
        )
        mean = (two.median + four.median) / 2
        yield Number("instruction_cache.fetch_interval_cycles", digits(mean, 3), entry, how)


def pairs(samples: Samples) -> Iterator[Number]:
    """How much of what both SMs of a pair read at once L2 is not asked for twice.

    L2 is the limit all the while: what the pairs that read the same save of it, the others get. From their rates
    follows what the pairs took, without their own ports, which limit them, coming into it.
    """
    entry = "bandwidth.l2.together"
    share = samples.one(entry, lambda p, v: v["share"], pairs=1)
    own = samples.one(entry, lambda p, v: v["share"] * v["even_pairs"] + (1 - v["share"]) * v["odd_pairs"], pairs=0)
    even = samples.one(entry, lambda p, v: v["even_pairs"], pairs=1)
    odd = samples.one(entry, lambda p, v: v["odd_pairs"], pairs=1)
    every = samples.one(entry, lambda p, v: v["even_pairs"], pairs=2)
    if share and own and even and odd and every:
        part = share.median
        saved = 1 - (own.median - (1 - part) * odd.median) / (part * even.median)
        how = (
            f"every other pair of SMs reads the same 64 KiB from L2 over and over: {even.median / own.median:.2f} of "
            f"the rate of SMs that read each their own, and the others {odd.median / own.median:.3f} of it; all pairs "
            f"together {every.median / own.median:.2f}; {even}"
        )
        yield Number("cache.l2_pair_saving_fraction", digits(min(1.0, max(0.0, saved)), 3), entry, how)


STEPS = (blocks, writes, fetches, pairs)
