"""Latency and throughput of instructions: single operations, pairs, local memory, the uniform datapath."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warplens.laboratory.gpu_session import SCHEDULERS
from warplens.laboratory.operations import (
    INDEPENDENT,
    OPERATIONS,
    PAIRS,
    UNIFORM,
    Operation,
    chain_kernel,
    local_kernel,
    uniform_kernel,
)
from warplens.laboratory.plan import Entry, chain_sweep
from warplens.laboratory.samples import Number, Reading, Samples, digits, links_per_cycle, number, per_link
from warplens.laboratory.source import LANES


def _operation(op: Operation, chains: int) -> Entry:
    strides = (0, 1, 2, 4, 8, 16, 32) if op.width else (1,)
    return Entry(
        f"instruction.{op.name}" + (f".ilp{chains}" if chains > 1 else ""),
        (chain_kernel(op, chains), chain_kernel(op, chains, doubled=True)),
        chain_sweep,
        "latency, throughput and needed warps (Tables 6.1 to 6.3)" + (f": {op.about}" if op.about else ""),
        {"register": op.register, "width": op.width, "strides": strides if chains == 1 else (1,)},
        weight=2.0 if op.width and chains == 1 else 0.5,
    )


def entries() -> list[Entry]:
    """Return the measurements of latency and throughput: every operation, pairs, several chains per warp."""
    found = [_operation(op, 1) for op in OPERATIONS]
    found += [_operation(op, chains) for op in OPERATIONS for chains in (2, 4) if chains <= op.most_chains]
    for op in (op for op in OPERATIONS if op.name in INDEPENDENT):
        kernels = chain_kernel(op, 8, False, 0, op.length // 4), chain_kernel(op, 8, True, 0, op.length // 4)
        found.append(
            Entry(f"instruction.{op.name}.ilp8", kernels, chain_sweep, "cycles between two that are independent",
                  {"register": op.register, "width": op.width, "warps": (1,)}, weight=0.1)
        )  # fmt: skip
    for op in PAIRS:
        found.append(
            Entry(f"pair.{op.name}", (chain_kernel(op), chain_kernel(op, doubled=True)), chain_sweep,
                  "latency from producer to consumer (§4.7)", {"register": op.register, "width": op.width}, weight=0.5)
        )  # fmt: skip
    for name in UNIFORM:
        found.append(
            Entry(f"instruction.{name}", (uniform_kernel(name), uniform_kernel(name, True)), chain_sweep,
                  "latency and throughput of the uniform datapath", {"register": "r"}, weight=0.5)
        )  # fmt: skip
    found.append(
        Entry("instruction.ldl", (local_kernel(), local_kernel(True)), chain_sweep,
              "latency and throughput of local memory that hits in L1", {"register": "r", "limit": False}, weight=0.5)
    )  # fmt: skip
    return found


# The operation that stands for its class, for latency and for rate. HADD2 and HFMA2 take turns with HFMA2.MMA; the rate
# of HFMA2, and of FFMA beside it, is that of the register ports.
_LATENCY_OF = {
    "fp32": "fadd", "int": "lop3", "imul": "imad", "fp64": "dfma", "half": "hfma2", "convert": "popc",
    "sfu": "mufu_rsq", "shuffle": "shfl", "shared": "lds", "uniform": "uniform_imul",
}  # fmt: skip
_MOST_CHAINS = {f"instruction.{op.name}": op.most_chains for op in OPERATIONS}
_RATE_OF = {**_LATENCY_OF, "fp64": "dadd", "half": "hfma2_1"}
# Pairs that depend on one another in turn: a pair less its slow half is the way from the fast half to the slow one.
_CONFLICT_DEGREES = (
    ("fp32", "sfu", "fadd_mufu", "mufu_rsq"), ("fp32", "shared", "fadd_lds", "lds"),
    ("int", "shared", "lop3_lds", "lds"), ("int", "shuffle", "shfl_lop3", "shfl"),
)  # fmt: skip
# Pairs that are alike, by the compiler's stall counts: half of it is the way there, half the way back.
_BOTH_DIRECTIONS = (("int", "fp32", "lop3_fadd"), ("imul", "fp32", "imad_fadd"), ("imul", "int", "imad_lop3"))


def latency(samples: Samples, name: str, stride: int = 1) -> Reading | None:
    """Return the cycles of one link in a lone warp."""
    return samples.one(name, per_link, warps=1, stride=stride)


def curve(samples: Samples, name: str, stride: int = 1) -> dict[int, Reading]:
    """Return links per cycle of an SM by warps per SM."""
    return samples.take(name, links_per_cycle, "warps", stride=stride)


def best(samples: Samples, name: str, stride: int = 1) -> tuple[str, str, Reading] | None:
    """Return the peak rate: the entry, the warps per SM in words, and the readings there.

    That of the best number of chains per warp and of the best occupancy, of those in the upper half: with few warps the
    difference of 2N and N links may be too small, because what the loop itself takes may be hidden in one and not in
    the other. None where a run ended before several chains were measured: one alone may come to two thirds of the peak.
    """
    more = {f"{name}.ilp{chains}": chains <= _MOST_CHAINS.get(name, 1) for chains in (2, 4)}
    if any(meant and e not in samples.entries and e not in samples.failed for e, meant in more.items()):
        return None
    entries = (name, *more)
    rates = {entry: curve(samples, entry, stride) for entry in entries}
    upper = [(e, n, r) for e, found in rates.items() for n, r in found.items() if 2 * n > max(found)]
    if not upper:
        return None
    entry, warps, reading = max(upper, key=lambda one: one[2].median)
    return entry, str(warps), reading


def needed_warps(rates: dict[int, Reading], goal: float) -> float | None:
    """Return the warps per SM at which a rate is reached, between two occupancies on the straight line."""
    before_n, before = 0.0, 0.0
    for warps in sorted(rates):
        rate = rates[warps].median
        if rate >= goal:
            return before_n + (warps - before_n) * (goal - before) / (rate - before)
        before_n, before = float(warps), rate
    return None


def derive_latencies(samples: Samples) -> Iterator[Number]:
    """Derive latency, peak rate and needed warps of every operation; latency of pairs."""
    known = [(f"instruction.{op.name}", op.name, op.kind, sum(op.expect.values())) for op in OPERATIONS]
    known += [(f"pair.{op.name}", op.name, op.kind, sum(op.expect.values())) for op in PAIRS]
    known += [(f"instruction.{name}", name, "uniform", count) for name, count in UNIFORM.items()]
    known.append(("instruction.ldl", "ldl", "load", 1))
    for entry, name, kind, count in known:
        alone = latency(samples, entry)
        if alone is None:
            continue
        key = f"operations.{name}"
        yield Number(f"{key}.kind", kind)
        yield Number(f"{key}.instructions", count, entry, "machine instructions of one link")
        yield from number(f"{key}.latency_cycles", alone, entry, "one warp, 2N links less N")
        yield from derive_rates(samples, key, entry)
        yield from _independent(samples, name)


def _independent(samples: Samples, name: str) -> Iterator[Number]:
    """Derive the ILP latency: cycles between two instructions of a lone warp that do not depend on one another."""
    entry = f"instruction.{name}.ilp8"
    each = samples.one(entry, lambda p, v: per_link(p, v) / p["chains"], warps=1)
    yield from number(f"operations.{name}.ilp_latency_cycles", each, entry, "one warp, 8 chains: a link of one of them")
    if name == _LATENCY_OF["fp32"]:
        yield from number("sm.ilp_latency_cycles", each, entry, "one warp, 8 chains: a link of one of them", worth=2)


def derive_rates(samples: Samples, key: str, entry: str) -> Iterator[Number]:
    """Derive peak rate of an operation, and the warps that 90 and 95 % of it need with one chain per warp."""
    top = best(samples, entry)
    if top is not None:
        where, warps, peak = top
        how = f"best over chains: {warps} warps per SM"
        yield from number(f"{key}.peak_ops_per_cycle_per_scheduler", peak, where, how, LANES / SCHEDULERS, 3)
        yield from saturation(key, entry, curve(samples, entry), peak)


def saturation(key: str, entry: str, found: dict[int, Reading], peak: Reading) -> Iterator[Number]:
    """Return the warps at 90 and 95 % of the peak; where one chain per warp comes to less, of that (Table 6.4)."""
    top = max((reading.median for reading in found.values()), default=0.0)
    short = 0.95 * peak.median > top
    of_what = f"the {100 * top / peak.median:.0f} % of the peak that this comes to" if short else "the peak"
    for percent in (90, 95):
        needed = needed_warps(found, percent / 100 * (top if short else peak.median))
        if needed is not None:
            how = f"{percent} % of {of_what}, one chain per warp, between measured occupancies on the line"
            yield Number(f"{key}.at_{percent}_percent_warps_per_scheduler", digits(needed / SCHEDULERS, 3), entry, how)


def derive_classes(samples: Samples) -> Iterator[Number]:
    """Derive latency and rate of instruction classes, each from the operation that stands for it."""
    for kind, name in _LATENCY_OF.items():
        entry, kinds = f"instruction.{name}", f"instructions.{kind}"
        alone = latency(samples, entry)
        if alone:
            how = f"one warp, 2N links less N, in whole cycles; {alone}"
            yield Number(f"{kinds}.latency_cycles", float(round(alone.median)), entry, how)
        top = best(samples, f"instruction.{_RATE_OF[kind]}")
        if top is not None:
            how = f"best over chains: {top[1]} warps per SM"
            yield from number(f"{kinds}.peak_ops_per_cycle_per_scheduler", top[2], top[0], how, LANES / SCHEDULERS, 3)
        entry = f"instruction.{_RATE_OF[kind]}"
        needed = needed_warps(curve(samples, entry), 0.95 * top[2].median) if top else None
        if needed is not None:
            how = "95 % of the peak, one chain per warp"
            yield Number(f"{kinds}.needed_warps_per_scheduler", digits(needed / SCHEDULERS, 3), entry, how)


def derive_forwarding(samples: Samples) -> Iterator[Number]:
    """Derive latency from a producer of one class to a consumer of another (§4.7)."""
    for producer, consumer, pair, slow in _CONFLICT_DEGREES:
        both, own = latency(samples, f"pair.{pair}"), latency(samples, f"instruction.{slow}")
        if both and own:
            key = f"instructions.{producer}.latency_to.{consumer}"
            how = f"a pair, less instruction.{slow}, in whole cycles; {both}"
            yield Number(key, float(round(both.median - own.median)), f"pair.{pair}", how)
    for one, other, pair in _BOTH_DIRECTIONS:
        both = latency(samples, f"pair.{pair}")
        for producer, consumer in ((one, other), (other, one)) if both else ():
            own = latency(samples, f"instruction.{_LATENCY_OF[producer]}")
            if both and own and round(both.median / 2) != round(own.median):
                key, how = f"instructions.{producer}.latency_to.{consumer}", f"half a pair, in whole cycles; {both}"
                yield Number(key, float(round(both.median / 2)), f"pair.{pair}", how)


def derive_wide_products(samples: Samples) -> Iterator[Number]:
    """Derive products of 64 bits: their rate, and how much longer than a plain one they keep their warp."""
    top = best(samples, "instruction.imad_wide")
    if top is not None:
        key, how = "instructions.imul_wide.peak_ops_per_cycle_per_scheduler", f"best over chains: {top[1]} warps per SM"
        yield from number(key, top[2], top[0], how, LANES / SCHEDULERS, 3)
    wide, plain = latency(samples, "pair.imad_wide_lop3"), latency(samples, "pair.imad_lop3")
    if wide and plain:
        how = f"a pair, less pair.imad_lop3, in whole cycles: the compiler's stall counts are the same; {wide}"
        occupied = float(round(wide.median - plain.median))
        yield Number("instructions.imul_wide.extra_stall_cycles", occupied, "pair.imad_wide_lop3", how)


def derive_shared_memory(samples: Samples) -> Iterator[Number]:
    """Derive cost of bank conflicts: latency and occupied cycles by ways, on the line through 1 to 32."""
    entry, degrees = "instruction.lds", (1, 2, 4, 8, 16, 32)
    alone = {degree: latency(samples, entry, degree) for degree in degrees}
    intervals = {degree: curve(samples, entry, degree) for degree in degrees}
    peak = {degree: max((r.median for r in found.values()), default=0.0) for degree, found in intervals.items()}
    known = [degree for degree in degrees if alone[degree] and peak[degree]]
    if len(known) < 2:
        return
    if peak.get(1):
        how = "best over occupancies, without conflicts"
        yield Number("shared_memory.access_interval_cycles", digits(1 / peak[1], 3), entry, how)
    cycles = [reading.median for degree in known if (reading := alone[degree])]
    slope, _ = np.polyfit(known, cycles, 1)
    off = float(np.abs(np.polyval(np.polyfit(known, cycles, 1), known) - cycles).max())
    how = f"{known[0]} to {known[-1]} ways, one warp: slope, off by at most {off:.2f} cycles"
    yield Number("shared_memory.conflict_cycles", digits(float(slope), 3), entry, how)
    taken, _ = np.polyfit(known, [1 / peak[degree] for degree in known], 1)
    how = f"{known[0]} to {known[-1]} ways: slope of the cycles between two accesses of an SM, best over occupancies"
    yield Number("shared_memory.conflict_interval_cycles", digits(float(taken), 3), entry, how)


def derive_shared_atomics(samples: Samples) -> Iterator[Number]:
    """Derive atomics on shared memory: every thread its own bank, all on one word."""
    for name in ("atoms_add", "atoms_cas"):
        entry = f"instruction.{name}"
        for pattern, stride in (("spread", 1), ("same", 0)):
            key, rate = f"atomics.shared_{name.removeprefix('atoms_')}_{pattern}", curve(samples, entry, stride)
            yield from number(f"{key}.latency_cycles", latency(samples, entry, stride), entry, f"{pattern}, one warp")
            if rate:
                warps, top = max(rate.items(), key=lambda one: one[1].median)
                yield from number(
                    f"{key}.peak_ops_per_cycle_per_sm", top, entry, f"{pattern}, {warps} warps per SM", LANES, 3
                )


def derive_tables(samples: Samples) -> Iterator[Number]:
    """Derive throughput against occupancy of instructions for which all occupancies were reached (Zhang & Owens)."""
    most = samples.head["facts"]["attributes"]["threads_per_sm_max"] // LANES
    for kind, name in (("fp32", "fadd"), ("sfu", "mufu_rsq"), ("shared", "lds"), ("fp64", "dadd")):
        entry, found = f"instruction.{name}", curve(samples, f"instruction.{name}")
        if most in found:
            how, key = "one chain per warp; medians, with the point (0, 0) in front", f"throughput.{kind}"
            yield Number(f"{key}.warps_per_sm", [0.0, *map(float, sorted(found))], entry, how)
            values = [0.0, *(digits(LANES * found[n].median) for n in sorted(found))]
            yield Number(f"{key}.ops_per_cycle_per_sm", values, entry, how)
