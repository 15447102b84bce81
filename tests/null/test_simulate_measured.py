"""The simulator against what an H200 measured: mixes, register ports; its speed."""

from __future__ import annotations

import json
import time
from functools import cache
from itertools import groupby
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from warplens.machine import load_machine
from warplens.papers.validation.mixes import ModelError, model_error, needed_off
from warplens.papers.validation.simulated import Point, judged, mix_code, simulate_mixes, stored_code
from warplens.papers.validation.stored import data_file, read
from warplens.program.instruction import Instruction
from warplens.simulator import layout as at
from warplens.simulator.code import Code, Step, WarpPath
from warplens.simulator.from_program import from_program
from warplens.simulator.from_workload import ENDLESS
from warplens.simulator.run import Options, run
from warplens.simulator.sampling import steady
from warplens.simulator.units import PIPES, Units, units

from .journals import events


def _error(points: list[Point]) -> ModelError:
    return model_error(judged(points), load_machine("h200"))


@pytest.mark.parametrize("which", ["first", pytest.param("laboratory", marks=pytest.mark.slow)])
def test_mixes_are_within_three_percent_in_the_mean_and_ten_at_the_worst(which: str) -> None:
    """Every seventh point; `test-all` takes all of them."""
    made = _error(simulate_mixes(which, every=7))
    assert made.mean_percent <= 3.0 and -9.1 <= made.worst_percent <= 10.0  # a ratio of 1.10


@pytest.mark.slow
@pytest.mark.parametrize("which", ["first", "laboratory"])
def test_all_mixes(which: str) -> None:
    points = simulate_mixes(which)
    made = _error(points)
    assert made.mean_percent <= (2.0 if which == "first" else 2.5)
    assert max(max(p.cycles / p.measured, p.measured / p.cycles) for p in points) <= 1.10
    assert abs(made.needed_warps_off) <= 1


def test_the_occupancy_that_sfus_need_is_known_to_a_warp_of_a_scheduler() -> None:
    assert abs(_error(simulate_mixes(mixes={"sfu"})).needed_warps_off) <= 1


def test_needed_occupancy_lies_on_the_line_between_two() -> None:
    """Rates of 1, 2 and 2 with 4, 8 and 16 warps: 1.8 with 7.2; twice as slow at 4 warps: with 7.467."""
    warps, measured = [16.0, 4.0, 8.0], [0.5, 1.0, 0.5]
    assert needed_off(warps, [0.5, 2.0, 0.5], measured, 4) == pytest.approx((8 - 4 * 0.2 / 1.5 - 7.2) / 4)
    assert needed_off(warps, measured, measured, 4) == 0


def test_one_instruction_alone_is_within_two_percent() -> None:
    points = simulate_mixes(mixes={"add", "sfu", "shared"}, alone=True)
    assert len(points) == 54
    assert max(abs(p.percent) for p in points) <= 2.0


@cache
def _h200() -> Units:
    return units(load_machine("h200"))


def _loop_error(row: dict[str, Any], code: list[Instruction], sample: dict[str, Any], cycles: int = 100_000) -> float:
    """Simulate a loop on as many warps as it was measured with; return by how much of the measured time it is off.

    All warps start together and only drift apart in time: a tenth of the measured 400,000 cycles is too short. Where
    nothing else is said a quarter is simulated.
    """
    made = _h200()
    warps = 4 * bin(sample["active"]).count("1")
    laid = from_program(code, made, paths=[WarpPath([([(0, len(code))], ENDLESS)])], blocks=[[0] * warps])
    laid = msgspec.structs.replace(laid, steady=True, bodies=float(row["unroll"]))
    return 4 * steady(laid, made, Options(limit_cycles=cycles)).cycles / float(sample["cycles"]) - 1


@cache
def _port_errors() -> dict[str, list[float]]:
    """Not mixes: independent adds, results that nobody waits for, registers of both banks (register_ports.cu)."""
    loops = {
        (r["other"], r["adds"], r["chained"]): r
        for r in read("experiments/register_ports/register_ports_code.json.gz")["loops"]
    }
    samples = json.loads(data_file("experiments/register_ports/register_ports.json").read_text())["samples"]
    errors: dict[str, list[float]] = {}
    for s in samples:
        if s["active"] not in (0xFF, 0x1F) or s["other"] in ("ldg64", "address_ldg", "shf"):
            continue
        row = loops[s["other"], s["adds"], s["chained"]]
        error = abs(_loop_error(row, stored_code(row["code"]), s))
        errors.setdefault(f"{s['other']}{' chained' * s['chained']}", []).append(error)
    return errors


@pytest.mark.xdist_group("loops")
def test_register_ports_are_what_other_instructions_cost_among_adds() -> None:
    errors = [e for part in _port_errors().values() for e in part]
    assert len(errors) == 60
    assert max(errors) < 0.04 and float(np.mean(errors)) < 0.008


_WARPS = {4: "alone", 8: "two", 32: "many"}


@cache
def _product_errors() -> dict[str, list[float]]:
    """IMAD.WIDE and IMAD.HI among adds or LOP3s, which need another unit (wide_products.py); IMAD beside them."""
    loops = {
        (r["product"], r["filler"], r["count"]): r
        for r in read("experiments/register_ports/wide_products_code.json.gz")["loops"]
    }
    errors: dict[str, list[float]] = {}
    for s in json.loads(data_file("experiments/register_ports/wide_products.json").read_text())["samples"]:
        row = loops[s["product"], s["filler"], s["count"]]
        if s["warps"] in _WARPS and s["count"] in (0, 2, 4, 8):
            many = {**s, "active": 2 ** (s["warps"] // 4) - 1, "cycles": 4 * s["cycles"] / s["warps"]}
            error = _loop_error({"unroll": 8}, stored_code(row["code"]), many)
            which = f"{s['product']} {s['filler']} {_WARPS[s['warps']]}"
            errors.setdefault(which, []).append(abs(error))
    return errors


@pytest.mark.xdist_group("loops")
def test_wide_products_hold_their_warp_and_the_others() -> None:
    """A lone warp's operands come late, on the GPU as here: to the cycle.

    The stall counts of others stand while a product is issued: without that two warps are up to 8 % too fast.
    """
    errors = _product_errors()
    alone, two, many = ([e for k, part in errors.items() if k.endswith(w) for e in part] for w in _WARPS.values())
    assert len(alone) == len(two) == len(many) == 24
    assert max(alone) < 0.001
    assert float(np.mean(two)) < 0.01 and max(two) < 0.025
    assert float(np.mean(many)) < 0.008 and max(many) < 0.02


@cache
def _switch_errors(change: str) -> dict[tuple[str, int, int], float]:
    """Adds, then an instruction that waits for the one before it; every instruction yields, or none (switches.py).

    The compiler puts half of the SFU instructions of a chain in a row, behind the adds. That the adds of one warp do
    not hide those of another is the greedy choice, and that one waits before an SFU, not three: else 18 % too fast.
    """
    rows = read("experiments/register_ports/switches_code.json.gz")["loops"]
    loops = {(r["other"], r["adds"], r["chains"]): r for r in rows}
    errors = {}
    for s in json.loads(data_file("experiments/register_ports/switches.json").read_text())["samples"]:
        if s["change"] != change or s["active"] != 0xFF or s["chains"] == 4:
            continue
        key = (s["other"], s["adds"], s["chains"])
        code = stored_code(loops[key]["code"])
        if change == "yield_all":
            code = [replace(x, control=replace(x.control, yields=True)) for x in code if x.control]
        errors[key] = abs(_loop_error(loops[key], code, s, 400_000))
    return errors


@pytest.mark.xdist_group("loops")
@pytest.mark.parametrize("change", ["compiled", "yield_all"])
def test_from_warp_to_warp(change: str) -> None:
    errors = _switch_errors(change)
    assert len(errors) == 18
    assert float(np.mean(list(errors.values()))) < 0.008 and max(errors.values()) < 0.02


def _missed(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(strict=True, reason=reason)


_LOOPS = {
    "ports": ("none chained", "mufu", "mufu chained", "lds chained", "lds_loose chained"),
    "products": (*(f"{product} {filler} {warps}" for product in ("wide", "high", "low") for filler in ("fadd", "lop3")
                   for warps in _WARPS.values() if (filler, warps) != ("fadd", "two")), "low fadd two"),
    "switches": ("compiled none", "yield_all none", "compiled mufu", "compiled lds", "yield_all mufu", "yield_all lds"),
}  # fmt: skip
_BEYOND: dict[str, dict[str, str]] = {  # which scheduler or branch goes first is not modelled
    "ports": {"lds": "1 loop, 2.3 %", "mufu_loose chained": "1 loop, 2.9 %"},
    "products": {"wide fadd two": "1 of 4 loops, -2.1 %", "high fadd two": "1 of 4, -2.1 %"},
}


@pytest.mark.xdist_group("loops")
@pytest.mark.parametrize(
    ("family", "which"),
    [*((family, which) for family, names in _LOOPS.items() for which in names),
     *(pytest.param(f, w, marks=_missed(off)) for f, names in _BEYOND.items() for w, off in names.items())],
)  # fmt: skip
def test_loops_of_several_instructions_are_within_two_percent(family: str, which: str) -> None:
    """The goal for microbenchmarks without memory; one instruction alone attains it (above)."""
    if family == "switches":
        change, other = which.split()
        errors = {which: [e for key, e in _switch_errors(change).items() if key[0] == other]}
    else:
        errors = _port_errors() if family == "ports" else _product_errors()
        assert set(errors) == {*_LOOPS[family], *_BEYOND.get(family, ())}
    assert max(errors[which]) <= 0.02


@cache
def _plateau(banks: float | None) -> float:
    """Return the cycles of a scheduler for 16 adds and a load of shared memory with 64 warps, measured: 18.65."""
    machine = load_machine("h200")
    made = units(msgspec.structs.replace(machine, sm=msgspec.structs.replace(machine.sm, register_banks=banks)))
    return 4 * steady(mix_code(made, "first", "shared", 16, 1, 64), made, Options()).cycles


def test_without_ports_the_plateau_is_missed() -> None:
    """What the ports explain of the 7 % that adds and shared memory take beyond their issue slots."""
    assert _plateau(None) < 17.5 < 18.3 < _plateau(2.0) < 19.1


def _python_speed() -> float:
    """Return how many turns of a small loop Python itself makes in a second."""
    turns, kept, start = 200_000, list(range(64)), time.process_time()
    for i in range(turns):
        if kept[i & 63] < i:
            kept[i & 63] ^= i
    return turns / (time.process_time() - start)


def test_speed_is_five_million_instructions_per_second_of_one_core() -> None:
    """The rate, or that over Python's own in the same seconds: a machine that others use halves both.

    Where the simulator makes 6.1 million, Python 3.11 makes 11.3 million turns: 0.54. 0.35 stands for 4 million there.
    """
    made = units(load_machine("h200"))
    code = mix_code(made, "first", "shared", 16, 1, 32)
    run(code, made, Options(), resident=1, blocks=1, limit=1000.0)  # compiles
    simulated, interpreted = 0.0, 0.0
    for _ in range(12):  # the best of many: others take turns of the core
        start = time.process_time()
        done = run(code, made, Options(), resident=1, blocks=1, limit=200_000.0)
        simulated = max(simulated, done.issued / (time.process_time() - start))
        interpreted = max(interpreted, _python_speed())
    assert simulated > 5e6 or simulated / interpreted > 0.35


def test_stalls_add_up_to_all_warp_cycles() -> None:
    made = units(load_machine("h200"))
    done = run(mix_code(made, "first", "load", 16, 1, 8), made, Options(), resident=1, blocks=1, limit=50_000.0)
    # Every warp is somewhere in every cycle; the last wait of each may reach beyond the end.
    assert done.stalls.sum() == pytest.approx(8 * 50_000, rel=0.03)
    assert [k for k, _ in groupby(at.REASONS)] == list(at.REASONS)


_FETCHES_SLOWER = pytest.mark.xfail(
    strict=True, reason="3.2 %: code comes in 2.48 cycles on this H200, in 2.40 on the one of the machine file"
)


@pytest.mark.parametrize(
    ("links", "active", "later", "within"),
    [pytest.param(8192, 0x1, False, 0.03, marks=_FETCHES_SLOWER), (8192, 0xF, True, 0.03), (8192, 0x11, True, 0.04),
     (8192, 0xFF, False, 0.05), (12288, 0x1, False, 0.08), (12288, 0xFFFF, False, 0.03), (4096, 0x1, False, 0.04),
     (4096, 0xF, True, 0.08), (8192, 0xFFFF, False, 0.03), (8192, 0x1111, False, 0.12)],
)  # fmt: skip
def test_warps_at_different_places_share_the_fetch_of_long_code(
    links: int, active: int, later: bool, within: float
) -> None:
    """Loops that outgrow the first instruction cache, on all SMs; warps together, or a third of a pass apart.

    Four warps of a scheduler that begin together drift apart, and fetch one by one: 6 cycles for each instruction.
    """
    wanted = (links, 132, active, later)
    samples = [s for s in read("experiments/instruction_fetch/fetch.json.gz")["samples"]
               if (s["links"], s["grid"], s["active"], s["later_cycles"] > 0) == wanted]  # fmt: skip
    measured = np.mean([max(warp[-1] for warp in s["passes"]) for s in samples])
    add = Step(label="FFMA", pipe=PIPES.index("cuda cores"), yields=False)
    steps = [Step(label="wait", stall=float(samples[0]["later_cycles"])), *[add] * links, Step(label="BRA", stall=5.0)]
    loop = ([(1, len(steps))], 4)
    ways = (
        [WarpPath([loop]), *(WarpPath([([(0, 1)], k), loop]) for k in range(1, active.bit_count()))]
        if later
        else [WarpPath([loop])]
    )
    ways.append(WarpPath([([(len(steps) - 1, len(steps))], 1)]))  # of warps that are not active
    order = [w for w in range(16) if active >> w & 1]
    block = [(order.index(w) if later else 0) if w in order else len(ways) - 1 for w in range(16)]
    code = Code(name="fetch", steps=steps, paths=ways, blocks=[block], controlled=True)
    assert run(code, _h200(), Options(), resident=1, blocks=1).end_cycle == pytest.approx(measured, rel=within)


_A_QUARTER_OF_THE_QUEUE = pytest.mark.xfail(
    strict=True, reason="776 cycles, measured 320: a scheduler has a quarter of the SM's 60 places, not all of them"
)


@pytest.mark.parametrize(
    ("lines", "warps", "within"),
    [(1, 1, 0.0), (8, 1, 0.0), pytest.param(32, 1, 0.0, marks=_A_QUARTER_OF_THE_QUEUE), (1, 4, 0.0), (8, 4, 0.04),
     (32, 4, 0.08)],
)  # fmt: skip
def test_loads_under_way_have_a_limit_on_an_sm_and_none_on_a_warp(lines: int, warps: int, within: float) -> None:
    """Each warp sends 40 loads, with a look at the clock behind each; none is back so soon (journal, in_flight.dram).

    A lone warp is never held, though up to 1280 lines are under way: no limit for a warp or a scheduler below 40 loads.
    Four warps, one on each scheduler, are held when 60 loads wait to leave the SM, a line per cycle.
    """
    wanted = {"blocks": 1, "lines": lines, "warps": warps}
    issued = [row["values"]["issued"] for row in events("measured")
              if row.get("entry") == "in_flight.dram" and wanted.items() <= row.get("point", {}).items()]  # fmt: skip
    last = float(np.median(issued, axis=0)[-1])
    if not within:
        assert set(np.diff(issued).ravel()) == {8.0} and last < (_h200().machine.timing("load").latency_cycles or 0)
    load = Step(label="LDG", pipe=PIPES.index("memory system"), kind=at.LOAD, stall=8.0, passes=float(lines))
    code = Code(name="x", steps=[load] * 40, paths=[WarpPath([([(0, 40)], 1)])], blocks=[[0] * warps])
    done = run(code, _h200(), Options(events=10_000), resident=1, blocks=1)
    sent = [int(row[0]) for row in done.events if row[1] == at.ISSUED and row[2] == 0]
    assert len(sent) == 40 and sent[-1] - sent[0] + 8 == pytest.approx(last, rel=within)


def test_a_fence_holds_its_warp() -> None:
    """A lone warp's fences in a loop (fence.json): the fence, the taken branch, the loop's counter."""
    points = json.loads(data_file("experiments/fences/fence.json").read_text())["points"]
    alone = next(p for p in points if (p["kind"], p["blocks"], p["threads"]) == ("fence", 1, 32))
    sm = load_machine("h200").sm
    assert sm.fence_cycles and sm.branch_taken_cycles
    # 282 = 265 + 10 + 7: an addition and a comparison before the branch
    assert alone["cycles_per_trip"] - sm.fence_cycles - sm.branch_taken_cycles == pytest.approx(7, abs=3)
