"""Blocks come and go (short_grids.json.gz): the first of an SM at once, their ends noted one by one over all SMs."""

from __future__ import annotations

import gzip
import json
import statistics
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.events import two_events_us
from warplens.core.errors import WarplensError
from warplens.machine import load_machine
from warplens.models.warplens.predict import start_cycles
from warplens.simulator.code import Code, Step, WarpPath
from warplens.simulator.from_workload import from_workload
from warplens.simulator.run import Options, run
from warplens.simulator.sampling import MOST, mean_over_draws
from warplens.simulator.simulation import Simulation, simulate
from warplens.simulator.units import units
from warplens.workload import Launch, Workload
from warplens.workload.workload import WarpListing

DATA = Path(__file__).parents[2] / "data/experiments/block_scheduling"
GPU = load_machine("h200")
EVERY = GPU.launch.block_interval_cycles or 0.0
CLOCK_GHZ = 1e-9 * GPU.chip.clock_hz
MICROSECONDS, FIRST_END, LAST_END = 0, 2, 3  # columns of a launch; the ends in nanoseconds


def _samples() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = json.loads(gzip.decompress((DATA / "short_grids.json.gz").read_bytes()))["samples"]
    return made


def _median(sample: dict[str, Any], column: int) -> float:
    return float(statistics.median(launch[column] for launch in sample["launches"]))


def _off(sample: dict[str, Any], every: float) -> float:
    """Return by how much a launch is off that ends when the ends of its blocks are noted, so many cycles apart."""
    noted = CLOCK_GHZ * _median(sample, FIRST_END) + every * sample["blocks"]
    start = start_cycles(GPU, 0, accesses_memory=True) + 1e3 * CLOCK_GHZ * two_events_us()
    cycles = start + max(CLOCK_GHZ * _median(sample, LAST_END), noted)
    return float(cycles / (1e3 * CLOCK_GHZ * _median(sample, MICROSECONDS)) - 1)


def test_a_launch_ends_when_the_ends_of_its_blocks_are_noted_one_by_one() -> None:
    off = [abs(_off(sample, EVERY)) for sample in _samples()]
    assert len(off) == 270
    assert statistics.mean(off) < 0.02
    assert max(off) < 0.08
    assert max(abs(_off(sample, 0.0)) for sample in _samples()) > 0.3  # if it ended with its last block


def test_the_first_blocks_of_an_sm_begin_at_once() -> None:
    full = {(s["warps"], s["turns"]): s for s in _samples() if s["warps"] * s["blocks"] == 132 * 64 and s["loads"] == 1}
    for warps, last in ((2, 600), (8, 300), (32, 20)):
        begins = full[warps, 16]["begins"]
        assert max(begins) < last < 132 * EVERY * len(begins)  # had they come one by one over all SMs


def _code(warps: int) -> Code:
    steps = [Step(label=str(k), stall=4.0) for k in range(200)]
    way = WarpPath([([(0, len(steps))], 1)])
    return Code(name="short", steps=steps, paths=[way], blocks=[[0] * warps], controlled=True)


def test_the_simulator_has_both() -> None:
    made = run(_code(2), units(GPU), Options(), resident=32, blocks=64)
    starts, per_sm = made.blocks[:, 0].tolist(), GPU.chip.sm_count * EVERY
    assert not any(starts[:32])
    first, exchanged = float(made.blocks[:, 1].min()), GPU.sm.block_exchange_cycles or 0.0
    assert starts[32:] == pytest.approx([first + k * per_sm + exchanged for k in range(32)], abs=5)
    assert made.end_cycle == pytest.approx(first + 63 * per_sm, abs=5)
    assert made.blocks[:, 1].max() < made.end_cycle


def _grid(listing: str, blocks: int, options: Options, blocks_per_sm: int = 8) -> Simulation:
    launch = Launch(grid=blocks, block=256, blocks_per_sm=blocks_per_sm)
    return simulate(Workload(name="grid", warps=[WarpListing(listing)], launch=launch), GPU, options=options)


LOADS, ADDS = "LD R1, [R2]\n" + 20 * "FADD R1, R1, R3\n", 20 * "FADD R1, R1, R3\n"


def test_where_chance_decides_the_answer_is_a_mean_over_draws() -> None:
    made = [_grid(LOADS, 1250, Options(seed=seed)) for seed in range(1, 17)]
    means, single = [one.cycles for one in made], [max(end for _, end in one.blocks) for one in made]
    assert statistics.stdev(means) < 0.02 * statistics.mean(means)
    assert all(one.simulated_instructions == MOST * 10 * 8 * 21 for one in made)
    centre = statistics.mean(means)
    assert all(0 < one.error_cycles < 0.08 * one.cycles for one in made)
    assert sum(abs(one.cycles - centre) <= one.error_cycles for one in made) >= 14
    # all but the time is of the run nearest to the mean
    assert all(abs(end - one.cycles) < 0.03 * one.cycles for end, one in zip(single, made, strict=True))


def test_one_draw_of_many_instructions_says_so() -> None:
    made = _grid(100 * LOADS, 1250, Options())
    assert made.simulated_instructions == 10 * 8 * 21 * 100  # twice that would be beyond the budget
    assert made.error_cycles == 0
    assert any(note.startswith("one run with random latencies") for note in made.notes)


def test_one_draw_is_off_by_a_tenth() -> None:
    launch = Launch(grid=1250, block=256, blocks_per_sm=8)
    made = units(GPU)
    code = from_workload(Workload(name="grid", warps=[WarpListing(LOADS)], launch=launch), made)
    ends = [run(code, made, Options(seed=seed), resident=8, blocks=10).end_cycle for seed in range(1, 65)]
    assert 0.05 < statistics.stdev(ends) / statistics.mean(ends) < 0.15


@pytest.mark.parametrize("spread", [0.002, 0.01, 0.02, 0.1])
def test_the_error_of_a_mean_holds_as_often_as_is_said(spread: float) -> None:
    some, chance, held = run(_code(1), units(GPU), Options(), resident=1, blocks=1), Random(1), 0
    for _ in range(1000):
        mean = mean_over_draws(lambda _: replace(some, end_cycle=chance.gauss(1e4, 1e4 * spread)), Options(), 1e9)
        held += abs(mean.cycles - 1e4) <= mean.error_cycles
    assert 880 <= held <= 990


def test_plain_python_draws_the_same() -> None:
    made = [_grid(LOADS, 133, Options(compiled=compiled)) for compiled in (True, False)]
    assert made[0].cycles == made[1].cycles and made[0].error_cycles == made[1].error_cycles > 0
    assert made[0].stalls == made[1].stalls


@pytest.mark.parametrize("seed", [2**63 - 1, -(2**63), 0])
def test_any_seed_of_64_bits_will_do(seed: int) -> None:
    assert _grid(LOADS, 133, Options(seed=seed)).error_cycles > 0


def test_more_blocks_than_an_sm_holds_are_refused() -> None:
    with pytest.raises(WarplensError, match=r"9 blocks of 8 warps .* holds 64 warps"):
        _grid(ADDS, 1250, Options(), blocks_per_sm=9)


def test_what_has_no_chance_in_it_is_simulated_once() -> None:
    made = _grid(ADDS, 1250, Options())
    assert made.error_cycles == 0
    assert made.simulated_instructions == 10 * 8 * 20


def test_events_are_those_of_the_run_nearest_to_the_mean() -> None:
    silent, told = (_grid(LOADS, 1250, Options(events=events)) for events in (0, 100_000))
    assert told.cycles == silent.cycles
    assert told.stalls == silent.stalls
    assert len(told.events) > 0
    assert abs(max(end for _, end in told.blocks) - told.cycles) < 0.03 * told.cycles
