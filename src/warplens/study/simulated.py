"""The simulator against the measured mixes of the H200, from the machine code that was measured.

The loops are in data/h200/mix_code.json.gz. Nothing is fitted to the points compared here: latencies are a lone warp's,
rates those of one instruction alone, the loaded latency and its spread those of loads alone, and what register ports
cost comes from other kernels (data/h200/register_ports.json).
"""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec import Struct

from warplens.kernel.instruction import Instruction
from warplens.machine import Machine, load_machine
from warplens.simulate.code import Code, Way
from warplens.simulate.from_program import from_program
from warplens.simulate.from_workload import ENDLESS
from warplens.simulate.run import Options, steady
from warplens.simulate.units import Units, units
from warplens.study.validation import ModelError, read, was_used

NAME = "simulate"


class Point(Struct, frozen=True):
    """One measured point: its mix, warps per SM, measured and simulated cycles per body and SM."""

    mix: str
    alpha: int
    ilp: int
    warps: int
    measured: float
    cycles: float
    used: bool  # whether the machine file was read from it

    @property
    def percent(self) -> float:
        """Error in percent of the measured time."""
        return 100 * (self.cycles / self.measured - 1)


def simulate_mixes(
    gpu: str = "h200",
    *,
    mixes: set[str] | None = None,
    every: int = 1,
    used: bool = False,
    options: Options | None = None,
) -> list[Point]:
    """Simulate the measured mixes of a machine, or every so-manieth point; with `used` also one instruction alone."""
    machine = load_machine(gpu)
    made = units(machine)
    best: dict[tuple[str, int, int, int], float] = {}
    for s in read("h200/mix.json.gz")["samples"]:
        key = (s["mix"], s["alpha"], s["ilp"], s["warps_per_sm"])
        if was_used(s) <= used and (mixes is None or s["mix"] in mixes):
            best[key] = min(1 / s["iterations_per_cycle_per_sm"], best.get(key, np.inf))
    points = []
    for (mix, alpha, ilp, warps), measured in list(best.items())[::every]:
        code = mix_code(machine, made, mix, alpha, ilp, warps)
        cycles = steady(code, made, options or Options()).cycles
        points.append(Point(mix, alpha, ilp, warps, measured, cycles, mix == "add" or alpha == 0))
    return points


def mix_code(machine: Machine, made: Units, mix: str, alpha: int, ilp: int, warps: int) -> Code:
    """Return the measured loop of a mix for so many warps."""
    rows = read(f"{machine.id}/mix_code.json.gz")["loops"]
    row = next(r for r in rows if (r["mix"], r["alpha"], r["ilp"]) == (mix, alpha, ilp))
    code = msgspec.convert(row["code"], list[Instruction])
    way = Way([([(0, len(code))], ENDLESS)])
    laid = from_program(code, made, ways=[way], blocks=[[0] * warps], name=f"add/{mix}, alpha {alpha}")
    return msgspec.structs.replace(laid, steady=True, bodies=float(row["unroll"]))


def error(points: list[Point]) -> ModelError:
    """Return the error over points as the table of models shows it."""
    percent = np.array([p.percent for p in points])
    worst = points[int(np.argmax(np.abs(percent)))]
    size = np.abs(percent)
    where = f"add/{worst.mix}, alpha {worst.alpha}, {worst.warps} warps"
    return ModelError(NAME, len(points), float(size.mean()), float(np.median(size)), worst.percent, where, 0)
