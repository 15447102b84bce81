"""A steady state until its rate is known, and the load that a run makes of the memory: a fixed point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from warplens.errors import WarplensError
from warplens.simulate.code import Code, Floats, lay_steps
from warplens.simulate.run import MARKS, Options, Run, run
from warplens.simulate.units import INFINITE, Units

BUDGET = 300_000  # instructions of the run that counts, unless it is to be full


class Measured(Struct, frozen=True):
    """Cycles of a kernel or of one body, the bound of the error, and the run that they come from."""

    cycles: float
    error_cycles: float
    simulated_instructions: int
    load: float  # DRAM traffic of this SM, B/cycle
    run: Run
    notes: list[str]


def own_load(units: Units, traffic: Callable[[float], float]) -> float:
    """Return the DRAM traffic in B/cycle at which a run makes the load that it assumes: the fixed point.

    More load means more latency and so less traffic: there is one crossing, found by the secant within a bracket. The
    first step follows Little's law.
    """
    high = traffic(0.0)
    if high <= 0 or units.machine.contention is None:
        return high
    inside = high * units.loaded_cycles(0.0)  # bytes in flight
    low, above, below = 0.0, high, 0.0
    guess = high
    for _ in range(60):  # the traffic at which as many bytes are in flight under the loaded latency
        middle = (low + guess) / 2
        low, guess = (middle, guess) if middle * units.loaded_cycles(middle) < inside else (low, middle)
    low, low_off, high_off = 0.0, above - below, INFINITE
    for _ in range(8):
        made = traffic(guess)
        off = made - guess
        if abs(off) <= 0.004 * guess:
            return (made + guess) / 2
        if off > 0:
            low, low_off = guess, off
        else:
            high, high_off = guess, off
        guess = (low + high) / 2 if high_off == INFINITE else low + (high - low) * low_off / (low_off - high_off)
        guess = min(max(guess, low + 0.05 * (high - low)), high - 0.05 * (high - low))
    return guess


def steady(code: Code, units: Units, options: Options) -> Measured:
    """Return the cycles that one SM spends per body of an endless repetition, from a part without the start."""
    way = code.ways[0]
    turn = way.instructions // way.segments[0][1]
    bytes_each = sum(code.steps[i].dram_bytes for a, b in way.segments[0][0] for i in range(a, b)) / turn
    laid = lay_steps(code.steps)
    first = run(code, units, options, resident=1, blocks=1, limit=16_384.0, stagger=64.0, laid=laid)
    per_cycle = max(first.issued, 1) / 16_384
    # Long enough for the budget, and for every warp to make a good number of turns between waits.
    limit = max(65_536.0, BUDGET / per_cycle, 64 * code.warps_per_block / per_cycle)
    limit = options.limit_cycles or min(limit, 4e6)
    done = [first.issued]

    def rate(load: float, cycles: float) -> tuple[Run, Floats, float]:
        every = float(np.floor(cycles / MARKS))
        made = run(
            code, units, options, resident=1, blocks=1, load=load, limit=every * MARKS + 1, stagger=64.0,
            mark_every=every, laid=laid,
        )  # fmt: skip
        done.append(made.issued)
        parts = np.diff(made.marks[MARKS // 4 - 1 :]) / every
        if parts.mean() <= 0:
            raise WarplensError(f"{code.name}: nothing issues in a steady state")
        return made, parts, float(parts.mean())

    load = own_load(units, lambda x: bytes_each * rate(x, limit / 2)[2]) if bytes_each else 0.0
    made, parts, mean = rate(load, limit)
    cycles = turn / code.bodies / mean
    error = 2 * float(parts.std()) / np.sqrt(len(parts)) / mean * cycles
    return Measured(cycles, error, sum(done), load, made, [])
