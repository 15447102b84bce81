"""From accesses in no order to what L2 and DRAM take for their packets, and how much L2 keeps to write back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from warplens.laboratory.derive_memory import reach
from warplens.laboratory.numbers import Number, digits, number
from warplens.laboratory.plans_scattered import LINES, PLACES
from warplens.laboratory.samples import Point, Reading, Samples

_LINE_BYTES, _LANES = 128, 32
_LEVEL = 1.04  # up to where latency is that of small footprints
_DRAM_BYTES = 64  # half of a line, that DRAM gives for a sector


def _packet_seconds(point: Point, values: dict[str, Any]) -> float:
    """Return the seconds per packet: of one access of a group of lanes to one line."""
    packets = max(1, point["place"] // _LINE_BYTES) * point["threads"] / point["lanes"]
    return float((values["seconds_2n"] - values["seconds_n"]) / (packets * point["accesses"] * point["trips"]))


def packets(samples: Samples) -> Iterator[Number]:
    """Seconds of L2 per packet and per sector, of loads and stores; a packet is what an access asks of one line."""

    shapes = [(width, apart) for width in (4, 16) for apart in (16, 32, 64, 128)]
    load, store, both = (
        samples.take(f"packets.{kind}", _packet_seconds, "width", "apart") for kind in ("load", "store", "both")
    )
    if not (load.keys() >= {(4, 128), (4, 32)} and store.keys() >= set(shapes) and both.keys() >= set(shapes)):
        return
    one, two, four = (store[4, apart] for apart in (128, 64, 32))
    sector = ((four.median - one.median) / 3 + (two.median - one.median) + (four.median - two.median) / 2) / 3
    whole = store[16, 16]
    more = [both[shape].median - store[shape].median for shape in shapes]
    how = "what loads add to stores of the same packets, mean over widths and strides: "
    how += f"{1e12 * min(more):.1f} to {1e12 * max(more):.1f} ps"
    yield Number("packets.load_request_seconds", digits(float(np.mean(more)), 3), "packets.both", how)
    yield from number("packets.load_reply_seconds", load[4, 128], "packets.load",
                      "loads of one sector of each line", worth=3)  # fmt: skip
    yield from number("packets.load_sector_seconds", load[4, 32], "packets.load",
                      "loads of four sectors of each line", 1 / 4, 3)  # fmt: skip
    how = f"stores to one sector of each line, less the sector; {one}"
    yield Number("packets.store_seconds", digits(one.median - sector, 3), "packets.store", how)
    how = f"16-byte stores of whole lines, less the packet; {whole}"
    sectors = (whole.median - one.median + sector) / 4
    yield Number("packets.store_sector_seconds", digits(sectors, 3), "packets.store", how)
    how = f"stores of 4 bytes to 1, 2, 4 sectors of each line: slope; {four}"
    yield Number("packets.partial_sector_seconds", digits(sector, 3), "packets.store", how)


def anywhere(samples: Samples) -> Iterator[Number]:
    """Bytes per second of DRAM where every place is somewhere else."""
    for key, entry, place, each, how in (
        ("load", "load", 32, _DRAM_BYTES, "loads, every lane in a sector somewhere in 2 GiB: half a line each"),
        ("store", "store", 32, 32, "stores of 32 bytes somewhere in 8 GiB"),
        ("partial_store", "store", 16, 32, "stores of 16 bytes somewhere in 8 GiB, a sector each"),
    ):
        taken = samples.one(f"packets.dram.{entry}", _packet_seconds, place=place)
        if taken:
            rate = Reading(tuple(each / seconds for seconds in taken.all))
            yield from number(f"scattered.dram_{key}_bytes_per_second", rate, f"packets.dram.{entry}", how, worth=3)


def additions(samples: Samples) -> Iterator[Number]:
    """Atomic additions per cycle and SM, each alone in its sector, when all go to so many lines."""
    clock, sms = samples.head["reference_ghz"] * 1e9, samples.head["facts"]["attributes"]["sm_count"]

    def rate(point: Point, values: dict[str, Any]) -> float:
        longer = 1e-9 * (np.mean(values["nanoseconds_2n"]) - np.mean(values["nanoseconds_n"]))
        return float(point["adds"] / longer / clock / sms)

    for old, name in ((True, "global"), (False, "global_reduce")):
        for lines in LINES:
            taken = samples.one("atomic.lines", rate, old=old, lines=lines)
            lanes, words = (1 if lines < 64 else 8), (1 if lines == 1 else 32 * lines)
            how = f"{lanes} lane(s) of a warp to {words} words, all SMs, 2N additions less N, {PLACES} places each time"
            yield from number(f"atomics.{name}_lines_{lines}.peak_ops_per_cycle_per_sm", taken, "atomic.lines", how,
                              worth=3)  # fmt: skip


def kept_to_write(samples: Samples) -> Iterator[Number]:
    """How many bytes the L2 cache keeps that must be written back."""
    entry = "bandwidth.l2.dirty"
    found = samples.take(entry, lambda p, v: v["seconds"], "bytes")
    if len(found) < 6:
        return
    sizes = np.array(sorted(found), float)
    taken = np.array([found[int(n)].median for n in sizes])

    def fit(kept: float) -> tuple[float, float]:
        """Return the error of start + slope min(size, kept), and the slope."""
        basis = np.stack([np.ones_like(sizes), np.minimum(sizes, kept)], axis=1)
        best, *_ = np.linalg.lstsq(basis, taken, rcond=None)
        return float(((basis @ best - taken) ** 2).sum()), float(best[1])

    kept = min(np.arange(8e6, 64e6, 0.5e6).tolist(), key=lambda n: fit(n)[0])
    how = (
        "reading 256 MiB takes longer, the more was written before, up to so many bytes: least squares over "
        f"{len(sizes)} sizes, {1e-12 / fit(kept)[1]:.1f} TB/s"
    )
    yield Number("cache.l2_dirty_bytes", digits(kept, 3), entry, how)


def resident(samples: Samples) -> Iterator[Number]:
    """How large a footprint the L2 cache holds: by atomics, each line at one place; by loads of all SMs."""
    entry, whole = "resident.l2", samples.head["facts"]["attributes"].get("l2_bytes", 0)
    for kind, key in (("atomic", "cache.l2_resident_bytes"), ("load", "cache.l2_hit_by_all_bytes")):
        taken = samples.take(entry, lambda p, v: v["mean_cycles"], "bytes", kind=kind)
        if taken:
            yield reach(key, taken, _LEVEL, entry, max(whole // 3, min(taken)))


STEPS = (packets, anywhere, additions, kept_to_write, resident)
