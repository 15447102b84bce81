"""The simulator against the measured mixes of the H200, from the machine code that was measured.

Two runs are compared with: the first one (mix.json.gz, the 324 points of `validate`) and the laboratory's load mixes
(measured.jsonl.xz). Nothing is fitted to the points compared here: latencies are a lone warp's, rates those of one
instruction alone, the loaded latency and its spread those of loads alone, and what register ports cost comes from other
kernels (register_ports.json). The two runs found memory latencies that differ by 5 % (note 0015):
each is simulated with what its own loads alone found.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from statistics import median
from typing import Any

import msgspec
from msgspec import Struct

from warplens.laboratory import journal
from warplens.machine import Machine, load_machine
from warplens.papers.validation.stored import Judged, Sweep, data_file, read
from warplens.program.decoding import decode_texts
from warplens.program.instruction import Instruction
from warplens.simulator.code import Code, WarpPath
from warplens.simulator.from_program import from_program
from warplens.simulator.from_workload import ENDLESS
from warplens.simulator.run import Options
from warplens.simulator.sampling import steady
from warplens.simulator.units import Units, units
from warplens.workload import Workload

NAME = "simulate"
# Fitted to the first run's loads alone.
FIRST_RUN = {
    "instructions__load__latency_cycles": 710.0,
    "contention__a_cycles": 718.8,
    "contention__b_cycles": 43.4,
    "contention__c_bytes_per_second": 4.3266e12,
}
CODE = {
    "first": "experiments/volkov_mix/mix_code.json.gz",
    "laboratory": "experiments/volkov_mix/load_mix_code.json.gz",
}


class Point(Struct, frozen=True):
    """One measured point: its mix, warps per SM, measured and simulated cycles per body and SM."""

    mix: str
    alpha: int
    ilp: int
    warps: int
    measured: float
    cycles: float

    @property
    def percent(self) -> float:
        """Error in percent of the measured time."""
        return 100 * (self.cycles / self.measured - 1)

    @property
    def used(self) -> bool:
        """True if the machine file's numbers come from such points: one instruction alone."""
        return self.mix == "add" or self.alpha == 0


def stored_code(rows: list[dict[str, Any]]) -> list[Instruction]:
    """Return instructions of a file of loops, which leaves out their operands: the text has them."""
    code = msgspec.convert(rows, list[Instruction])
    known = decode_texts(x.text for x in code)
    return [msgspec.structs.replace(x, operands=known[x.text].operands) if x.text in known else x for x in code]


def simulate_mixes(
    run: str = "first",
    *,
    mixes: set[str] | None = None,
    every: int = 1,
    alone: bool = False,
    options: Options | None = None,
) -> list[Point]:
    """Simulate the mixes of a run, or every so-manieth of its points; `alone`: one instruction alone instead."""
    engine = units(machine_of(run))
    points = []
    for (mix, alpha, ilp, warps), measured in _measured(run).items():
        point = Point(mix, alpha, ilp, warps, measured, measured)
        if point.used is alone and (mixes is None or mix in mixes):
            points.append(point)
    return [
        msgspec.structs.replace(
            p, cycles=steady(mix_code(engine, run, p.mix, p.alpha, p.ilp, p.warps), engine, options or Options()).cycles
        )
        for p in points[::every]
    ]


def mix_code(engine: Units, run: str, mix: str, alpha: int, ilp: int, warps: int) -> Code:
    """Return the measured loop of a mix for so many warps."""
    code, unroll = _loops(run)[mix, alpha, ilp]
    path = WarpPath([([(0, len(code))], ENDLESS)])
    blocks = 2 if warps > 32 else 1  # as measured
    looped = from_program(
        code, engine, paths=[path], blocks=[[0] * (warps // blocks)] * blocks, name=f"add/{mix}, alpha {alpha}"
    )
    return msgspec.structs.replace(looped, steady=True, bodies=float(unroll))


def judged(points: list[Point]) -> Judged:
    """Return points as what a model says of the sweeps that they belong to."""
    found: dict[tuple[str, int, int], list[Point]] = defaultdict(list)
    for p in points:
        found[p.mix, p.alpha, p.ilp].append(p)
    known = [
        Sweep(mix, alpha, Workload(name=f"add/{mix}, alpha {alpha}"), [float(p.warps) for p in those],
              [p.measured for p in those])
        for (mix, alpha, _), those in found.items()
    ]  # fmt: skip
    return Judged(NAME, known, [[p.cycles for p in those] for those in found.values()])


@cache
def _loops(run: str) -> dict[tuple[str, int, int], tuple[list[Instruction], int]]:
    rows = read(CODE[run])["loops"]
    return {(r["mix"], r["alpha"], r["ilp"]): (stored_code(r["code"]), r["unroll"]) for r in rows}


@cache
def _measured(run: str) -> dict[tuple[str, int, int, int], float]:
    """Return cycles per body and SM: the best of three in the first run, the median of five in the laboratory's."""
    found: dict[tuple[str, int, int, int], list[float]] = defaultdict(list)
    if run == "first":
        for s in read("experiments/volkov_mix/mix.json.gz")["samples"]:
            found[s["mix"], s["alpha"], s["ilp"], s["warps_per_sm"]].append(1 / s["iterations_per_cycle_per_sm"])
        return {key: min(cycles) for key, cycles in found.items()}
    for row in journal.read(data_file("h200/journal/measured.jsonl.xz")):
        if row["is"] == "sample" and re.fullmatch(r"mix\.load\.a\d+", row["entry"]):
            point, values = row["point"], row["values"]
            found["load", point["alpha"], 1, point["warps"]].append(values["sms"] / values["rate"])
    return {key: median(cycles) for key, cycles in found.items()}


def machine_of(run: str) -> Machine:
    """Return the H200 with the memory that a run found."""
    machine = load_machine("h200")
    return machine.with_values(**FIRST_RUN) if run == "first" else machine
