"""The fluid schedule: what it must say where the answer is known, and that it follows the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from tests.null.predicted import ASKED, predicted
from warplens.machine import load_machine
from warplens.papers.validation.kernels import Part
from warplens.simulator import layout as at
from warplens.simulator.code import Code, Step, path_arrays, straight
from warplens.simulator.fluid_schedule import SpanArrays, kernel_fluid, run_fluid, span_arrays
from warplens.simulator.operands import Operands
from warplens.simulator.run import Options, Run, run
from warplens.simulator.units import PIPES, units

H200 = units(load_machine("h200"))
CORES, INTEGER, L1, SHARED = (PIPES.index(n) for n in ("cuda cores", "integer", "memory system", "shared memory"))


def code(steps: list[Step], warps: int, turns: int = 1) -> Code:
    return Code(name="test", steps=steps, paths=[straight(steps, turns)], blocks=[[0] * warps], controlled=True)


def cut(made: Code) -> SpanArrays:
    return span_arrays(made, path_arrays(made), H200)


def fluid(made: Code, resident: int, blocks: int, *, compiled: bool = True) -> Run:
    return run_fluid(made, H200, Options(compiled=compiled), resident=resident, blocks=blocks)


def simulated(made: Code, resident: int, blocks: int) -> float:
    return run(made, H200, Options(), resident=resident, blocks=blocks).end_cycle


def load(**values: float) -> Step:
    of_it = {"l2_bytes": 128.0, "dram_bytes": 128.0, "l2_cycles": 1.0, "dram_cycles": 4.0, **values}
    latency = float(load_machine("h200").timing("load").latency_cycles or 0)
    return Step(label="load", kind=at.LOAD, pipe=L1, latency=latency, values=(0,), reason=at.LONG, **of_it)  # type: ignore[arg-type]


ADDS = [Step(label="add", pipe=CORES, stall=float(s)) for s in (1, 4, 2, 1, 5, 2)]
WHOLE = [
    Step(label=str(pipe), pipe=pipe, passes=passes, stall=stall)
    for pipe, passes, stall in ((INTEGER, 2.0, 2.0), (CORES, 1.0, 4.0), (INTEGER, 2.0, 5.0), (INTEGER, 2.0, 1.0),
                                (CORES, 1.0, 2.0), (CORES, 1.0, 1.0), (INTEGER, 2.0, 4.0))
]  # fmt: skip
READ = Step(label="read", kind=at.QUEUED, pipe=SHARED, latency=23.0, values=(0,), reason=at.SHORT, stall=2.0)
USE = Step(label="use", pipe=CORES, waits=((0, 0.0),), stall=4.0)
BARRIER = Step(label="barrier", kind=at.BARRIER, pipe=PIPES.index("barrier unit"), stall=5.0)
EVERYTHING = [*ADDS, load(), READ, USE, BARRIER, *WHOLE]


def test_a_burst_ends_before_a_wait_and_behind_a_barrier() -> None:
    made = cut(code([*ADDS, load(), USE, BARRIER, *ADDS], 1))
    assert made.spans.first.tolist() == [0, 7, 9] and made.spans.last.tolist() == [6, 8, 14]
    assert made.spans.slots.tolist() == [7, 2, 6]
    assert made.spans.cycles[2] == 14 and made.spans.stall[2] == 1  # 15 cycles, the last two stall counts apart
    assert made.demands[2, 0] == pytest.approx(6 / 14)
    assert [o.step for o in made.operations] == [6, 8]  # the load and the barrier


def test_a_register_port_that_half_of_the_instructions_use_costs_an_eighth_of_a_slot() -> None:
    add, other = (Step(label="add", pipe=CORES, operands=Operands(n << at.LANES_AT)) for n in (1, 0))
    read = Step(label="read", kind=at.QUEUED, pipe=SHARED, values=(0,), operands=Operands(1))
    made = cut(code([add, add, other, read], 1))
    assert made.spans.slots.sum() == pytest.approx(4 + 0.5 * (2 / 4) ** 2)


@pytest.mark.parametrize(("warps", "blocks"), [(4, 1), (8, 3)])
def test_compiled_it_says_the_same(warps: int, blocks: int) -> None:
    made = code(EVERYTHING, warps, turns=3)
    plain, fast = fluid(made, 2, blocks, compiled=False), fluid(made, 2, blocks)
    assert plain.end_cycle == fast.end_cycle and np.array_equal(plain.stalls, fast.stalls)


def test_a_warp_alone_takes_what_the_simulator_says() -> None:
    for warps in (1, 4):  # each on a scheduler of its own
        assert fluid(made := code(ADDS, warps), 1, 1).end_cycle == pytest.approx(simulated(made, 1, 1))
    assert fluid(made := code(ADDS, 1, turns=5), 1, 1).end_cycle == pytest.approx(simulated(made, 1, 1))  # jumps


def test_no_unit_does_more_than_it_can() -> None:
    assert fluid(code(WHOLE, 64, turns=50), 1, 1).end_cycle >= 16 * 50 * 8  # four of seven take two cycles
    assert fluid(code(ADDS, 64, turns=50), 1, 1).end_cycle >= 16 * 50 * 6 * 0.99


@pytest.mark.parametrize(
    ("steps", "warps", "resident", "blocks", "off"),
    [
        (ADDS, 8, 2, 8, 0.05),  # two warps on each scheduler want the same cycle now and then
        (ADDS, 8, 6, 12, 0.05),
        (WHOLE, 16, 4, 4, 0.1),  # a pipe that takes one in two cycles
        ([*ADDS, load(), *ADDS, USE], 8, 4, 16, 0.05),  # waits for DRAM
        ([load(dram_cycles=40.0), USE], 8, 8, 32, 0.05),  # DRAM never stands idle
        ([load(), USE, BARRIER, *ADDS], 8, 4, 16, 0.05),  # a block is as slow as its slowest warp
        ([load(l1_hit=1.0, passes=4.0), USE], 16, 4, 8, 0.05),  # L1's data path
        ([*ADDS, READ, *ADDS, USE], 16, 2, 4, 0.05),
    ],
)
def test_it_follows_the_simulator(steps: list[Step], warps: int, resident: int, blocks: int, off: float) -> None:
    made = code(steps, warps, turns=12)
    assert fluid(made, resident, blocks).end_cycle == pytest.approx(simulated(made, resident, blocks), rel=off)


@pytest.mark.parametrize("blocks", [1, 2])
def test_code_that_outgrows_the_cache_is_fetched(blocks: int) -> None:
    lines = int(H200.setup[0].first_lines)
    made = code([Step(label="add", pipe=CORES, yields=False)] * (at.LINE_INSTRUCTIONS * (lines + 40)), 8, turns=4)
    assert fluid(made, blocks, blocks).end_cycle == pytest.approx(simulated(made, blocks, blocks), rel=0.05)


@pytest.mark.parametrize(("turns", "resident", "blocks"), [(400, 4, 40), (4, 4, 2000), (5000, 2, 2)])
def test_a_sample_stands_for_all(turns: int, resident: int, blocks: int) -> None:
    made = code([*ADDS, load(), *ADDS, USE], 8, turns=turns)
    whole = fluid(made, resident, blocks)
    part = kernel_fluid(made, H200, resident=resident, blocks=blocks)
    assert part.cycles == pytest.approx(whole.end_cycle, rel=0.05) and part.run.issued < whole.issued
    assert sum(part.run.shares.values()) == pytest.approx(1)


@pytest.mark.parametrize("part", ASKED)
def test_it_is_within_five_percent_of_the_simulator_on_nine_of_ten_launches(part: Part) -> None:
    near = float(np.mean([abs(p.fast / p.slow - 1) <= 0.05 for p in predicted(part)]))
    assert near >= 0.9
