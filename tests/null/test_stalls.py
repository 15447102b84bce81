"""Stall reasons: when they agree, and for how many measured launches they do."""

from __future__ import annotations

import json

import numpy as np
import pytest

from warplens.cli.main import main
from warplens.machine import load_machine
from warplens.papers.validation.stalls import Stalls, validate_stalls
from warplens.program.instruction import Control, Instruction
from warplens.simulator import layout as at
from warplens.simulator.code import WarpPath
from warplens.simulator.from_program import from_program
from warplens.simulator.run import Options, Run, run
from warplens.simulator.units import units


def loops(turns: list[list[tuple[str, str, int, int]]], options: Options, limit: float = 1e30, long: int = 1) -> Run:
    """Run one block whose warps each repeat one instruction, so many in a loop: opcode, kind, stall count, turns."""
    made = units(load_machine("h200"))
    kinds = sorted({warp for warps in turns for warp in warps})
    code = [
        Instruction(
            text=opcode, opcode=opcode, kind=kind,
            control=Control(stall, False, 0 if kind == "sfu" else None, None, int(kind == "sfu"), 0),
        )
        for opcode, kind, stall, _ in kinds
        for _ in range(long)
    ]  # fmt: skip
    ways = [WarpPath([([(i * long, (i + 1) * long)], times)]) for i, (*_, times) in enumerate(kinds)]
    rows = [[kinds.index(warp) for warp in warps] for warps in turns]
    return run(from_program(code, made, paths=ways, blocks=rows), made, options, resident=1, blocks=1, limit=limit)


@pytest.mark.parametrize(
    ("opcode", "kind", "reason", "share"),
    [
        ("LOP3", "int", "math", 1 / 2),  # the unit takes one in two cycles: in the second nobody could go
        ("MUFU", "sfu", "mio", 7 / 8),  # one in eight
        ("FADD", "fp32", "math", 0.0),  # there is room in every cycle: what waits was not selected
    ],
)
def test_warps_without_room_say_so_whichever_is_selected(opcode: str, kind: str, reason: str, share: float) -> None:
    done = loops([[(opcode, kind, 1, 100_000)] * 32], Options(), 20_000.0, long=200)
    found = {name: done.stalls[:, at.REASONS.index(name)].sum() for name in ("selected", "not_selected", reason)}
    assert found[reason] / sum(found.values()) == pytest.approx(share, abs=0.03)
    assert done.stalls.sum() == pytest.approx(32 * 20_000, rel=0.01)


def test_a_sampler_sees_one_warp_at_a_time_however_many_there_are() -> None:
    short, long = ("NOP", "branch", 12, 5000), ("NOP", "branch", 24, 15_000)
    alone, seen = (loops([[short, short, short, long]], Options(sampled=sampled)) for sampled in (False, True))
    assert alone.end_cycle == seen.end_cycle and np.array_equal(alone.stalls, seen.stalls)  # looking changes nothing
    # Four warps for a sixth of the time, selected in 1/12 (three) and 1/24 of their cycles, then one: 1/24.
    by_cycles, by_time = (3 * 5_000 + 15_000) / (3 * 60_000 + 360_000), (3 / 12 + 1 / 24) / 4 / 6 + 5 / 6 / 24
    for made, share in ((alone.stalls.sum(axis=0), by_cycles), (seen.sampled, by_time)):
        assert made[at.SELECTED] / made.sum() == pytest.approx(share, rel=0.02)
    assert seen.sampled.sum() == pytest.approx(seen.end_cycle, rel=0.001)


def test_only_the_three_largest_sampled_reasons_count() -> None:
    sampled = {"long_sb": 0.5, "wait": 0.2, "mio": 0.15, "barrier": 0.15}
    near = Stalls("a", "train", sampled, {"long_sb": 0.58, "wait": 0.11, "mio": 0.2, "lg": 0.11})
    assert near.largest == ["long_sb", "wait", "mio"] and near.agrees  # barrier is 15 points off, but fourth
    assert near.off[0] == pytest.approx(-0.09) and near.off[1] == "wait"
    assert not Stalls("b", "train", sampled, {"long_sb": 0.39, "wait": 0.2, "mio": 0.2}).agrees


def test_every_sixteenth_launch_one_in_three_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--kernels", "--stalls", "--every", "16", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    agree = sum(part["agree"] for part in made["stalls"].values())
    assert agree >= sum(part["launches"] for part in made["stalls"].values()) / 4
    assert len(made["launches"]) == made["stalls"]["train"]["launches"]  # the test set is not named


@pytest.mark.slow
def test_stall_reasons_of_ten_kernels_agree_with_nsight_within_ten_points() -> None:
    found = validate_stalls()
    assert sum(x.agrees for x in found) >= 180  # of 319
    assert len({x.name.partition(".")[0] for x in found if x.agrees}) >= 60
