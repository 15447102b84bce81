"""Loads that hit in L2, simulated against the laboratory's: what mechanisms are worth that no measured kernel needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace

from warplens.machine import Machine, load_machine
from warplens.papers.validation.ablation import without
from warplens.simulator.code import Code, WarpPath
from warplens.simulator.from_workload import ENDLESS, step
from warplens.simulator.run import Options
from warplens.simulator.sampling import steady
from warplens.simulator.traffic import SECTOR_BYTES
from warplens.simulator.units import units

from .journals import TOGETHER, samples

pytestmark = TOGETHER

UNDER_LOAD, ONE_SM = "latency under load, L2", "what one SM gets of L2"
SMS = 132
ADDRESS_CYCLES = 6.0  # of a load of 4 bytes, which gives an index


def _rate(machine: Machine, sms: float, chains: int, width: int, warps: int) -> float:
    """Return the loads of a warp per cycle of an SM: chains of them, of so many bytes per thread, all in L2."""
    made, clock, packets = units(machine, sms), machine.chip.clock_hz, machine.packets
    assert packets.load_reply_seconds is not None and packets.load_sector_seconds is not None
    lines, sectors = width / 4, float(width)  # of 32 threads
    way_back = max(lines * packets.load_reply_seconds, sectors * packets.load_sector_seconds) * made.sms * clock
    alone = machine.bandwidth.get("l2_load_16")
    by_one = sectors * SECTOR_BYTES * clock / (alone.one_sm_bytes_per_second or np.inf) if alone else 0.0
    load = replace(
        step("load", "load", made), l2_hit=1.0, l2_bytes=SECTOR_BYTES * sectors, dram_bytes=0.0, dram_cycles=0.0,
        l2_cycles=max(way_back, by_one), passes=max(1.0, lines / (machine.cache.l1_request_interval_cycles or 1.0)),
    )  # fmt: skip
    late = ADDRESS_CYCLES if width == 4 else 0.0
    steps = [replace(load, waits=((k, late),), values=(k,)) for k in range(chains)]
    ways = [WarpPath([([(0, chains)], ENDLESS)])]
    code = Code(name="loads", steps=steps, paths=ways, blocks=[[0] * warps], controlled=True, steady=True)
    return chains / steady(code, made, Options(limit_cycles=60_000)).cycles


def test_latency_of_l2_grows_with_its_load() -> None:
    """Where the rate of L2 does not limit yet: a tenth too fast without. All 104 points: 4.5 %, 6.0 % without."""
    gpu, off = load_machine("h200"), {"": list[float](), UNDER_LOAD: list[float]()}
    for chains, width, warps in ((1, 4, 64), (1, 8, 32), (1, 16, 16), (2, 4, 32), (2, 8, 16), (4, 4, 16)):
        entry = f"stream.l2.ilp{chains}.b{width}"
        got = samples("measured").take(entry, lambda p, v: float(v["rate"]) * p["chains"] / SMS, "warps")
        for name, found in off.items():
            made = _rate(without(gpu, name) if name else gpu, SMS, chains, width, warps)
            found.append(100 * (made / got[warps].median - 1))
    assert np.mean(np.abs(off[""])) <= 4.5 and min(off[UNDER_LOAD]) > 5.0 and np.mean(off[UNDER_LOAD]) > 10.0


def test_one_sm_alone_gets_a_part_of_l2() -> None:
    """Its rate is that of 16 bytes per thread; those of 4 and 8 follow. Without it they are a quarter too fast."""
    gpu = load_machine("h200")

    def rate(point: dict[str, Any], values: dict[str, Any]) -> float:
        span = values["mean_span_cycles_2n"] - values["mean_span_cycles_n"]
        return float(point["trips"] * point.get("accesses", 8) * point["warps"] / span)

    got = samples("measured").take("bandwidth.l2.width", rate, "width", "warps", sms=1)
    for width in (4, 8, 16):
        both = [_rate(machine, 1, 8, width, 32) / got[width, 32].median for machine in (gpu, without(gpu, ONE_SM))]
        assert abs(both[0] - 1) <= 0.05 and both[1] > 1.25
