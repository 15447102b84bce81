"""Which warp of a scheduler goes first, against the clocks of random code that two and three warps run together."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache

import pytest

from warplens.machine import load_machine
from warplens.papers.validation.stored import read
from warplens.simulator import layout as at
from warplens.simulator.code import Code, Step, WarpPath
from warplens.simulator.run import Options, run
from warplens.simulator.units import PIPES, Units, units

_PIPES = {"FADD": ("cuda cores", 1.0), "LOP3": ("integer", 2.0), "CLOCK": ("integer", 2.0)}
_BEFORE = " ".join(["CLOCK 1", *["NOP 11"] * 8])  # as together.py begins, and ends
_BEHIND = "NOP 11 NOP 11"


@cache
def _h200() -> Units:
    return units(load_machine("h200"))


def _step(what: str, stall: str) -> Step:
    cycles, yields = int(stall.removesuffix("y")), stall.endswith("y")
    made = Step(label=what, stall=float(max(cycles, 1 + yields)), yields=yields)
    if what == "NOP":
        return made
    pipe, takes = _PIPES[what]
    return Step(
        label=what, stall=made.stall, yields=yields, pipe=PIPES.index(pipe), latency=4.0, passes=takes, takes=takes
    )


def _clocks(text: str, begins: list[int]) -> list[list[int]]:
    """Return when each warp of a scheduler reads the clock, from the first one's begin on."""
    words = f"{_BEFORE} {text} {_BEHIND}".split()
    code = [_step(*pair) for pair in zip(words[::2], words[1::2], strict=True)]
    # The other schedulers' warps end at once; these wait for their begin behind one another.
    steps = [
        Step(label="wait", stall=float(21 + begin - min(begins) - len(begins) + k), yields=False)
        for k, begin in enumerate(begins)
    ]
    first, end = len(steps), len(steps) + len(code)
    ways = [WarpPath([([(k, k + 1)], 1), ([(first, end)], 1)]) for k in range(first)] + [
        WarpPath([([(end, end + 1)], 1)])
    ]
    block = [way for k in range(first) for way in (k, first, first, first)]
    laid = Code(
        name="together", steps=[*steps, *code, Step(label="NOP")], paths=ways, blocks=[block], controlled=True
    )  # fmt: skip
    found = defaultdict[int, list[int]](list)
    for time, what, warp, pc, *_ in run(laid, _h200(), Options(events=4000), resident=1, blocks=1).events:
        if what == at.ISSUED and laid.steps[pc].label == "CLOCK":
            found[warp // 4].append(int(time))
    return [[t - found[0][0] for t in found[k]] for k in range(first)]


@cache
def _apart(share: str, warps: str) -> Counter[int]:
    """Return how far off the clocks are, up to the end of the first warp."""
    off = Counter[int]()
    for name, text, measured in read("experiments/warp_scheduling/same_code.json.gz")["rows"]:
        if name.split()[1:3] == [share, warps]:
            found = _clocks(text, [clocks[0] for clocks in measured])
            end = min(clocks[-1] for clocks in measured)
            for simulated, clocks in zip(found, measured, strict=True):
                off.update(a - b for a, b in zip(simulated, clocks, strict=True) if b <= end)
    return off


def test_two_warps_that_do_not_yield_go_as_measured() -> None:
    """The last one again where it can, else the other: each of some 1200 clocks, of NOP, FADD and LOP3."""
    off = _apart("0", "2")
    assert set(off) == {0} and off[0] > 1200


@pytest.mark.parametrize(("share", "exact"), [("0.5", 0.75), ("1", 0.5)])
def test_of_two_that_yield_the_one_goes_that_has_issued_least(share: str, exact: float) -> None:
    """What they had issued before is not known, and one that was wrong shifts all behind it (test_orders knows it)."""
    off = _apart(share, "2")
    assert off[0] >= exact * off.total()
