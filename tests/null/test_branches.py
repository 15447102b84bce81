"""What a taken branch waits for where others of its scheduler branch too, and in loops that outgrow its cache."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from warplens.simulate import layout as at
from warplens.simulate.code import Step, Way
from warplens.simulate.from_program import from_program
from warplens.simulate.run import Options, run
from warplens.study.validation import read

from .by_hand import Placed, h200, program, script

_TEXTS = {"C": "CS2R.32 R9, SR_CLOCKLO", "N": "NOP", "P": "ISETP.GE.AND P1, PT, R16, 0x1, PT", "J": "BRA `(.L_x_1)"}
_BEGIN = 400  # the simulated cycle from which clocks are counted
_COUNTED = 8  # issues of each warp before


def _placed(slot: Any) -> Placed:
    what, *how = slot
    stall, yields = {"P": (13, True), "J": (5, False)}.get(what) or (how[0], how[1])
    return _TEXTS[what], stall, yields


def _way(slots: list[Any], warp: int) -> list[tuple[int, int]]:
    """Return the straight runs of a warp."""
    runs, first, number = list[tuple[int, int]](), 0, 0
    for i, (what, *how) in enumerate(slots):
        if what == "P":
            number = how[0]
        elif what == "J" and (how[1] == script("branches").ALWAYS or (how[1] == 1) == (warp >= number)):
            runs.append((first, i + 1))
            first = i + 1 + how[0]
    return [*runs, (first, len(slots))]


def _run(slots: list[Any], waits: list[int]) -> list[list[tuple[int, int]]]:
    """Return the steps and cycles of each warp's issues; its last one before the code takes the cycles of `waits`."""
    warps, branches = len(waits), script("branches")
    made = program([_placed(slot) for slot in slots])
    laid = from_program(made, h200(), ways=[Way([([(0, len(made))], 1)])], blocks=[[0]])
    first, before = len(laid.steps), Step(label="before", stall=8.0, yields=True)
    steps = [*laid.steps, before, *(replace(before, stall=float(cycles)) for cycles in waits), Step(label="NOP")]
    ways = [
        Way([([(first, first + 1)], _COUNTED - 1), ([(first + 1 + k, first + 2 + k)], 1), (_way(slots, k), 1)])
        for k in range(warps)
    ]
    ways.append(Way([([(first + 1 + warps, first + 2 + warps)], 1)]))
    place = (branches.PLACE + branches.COUNTED + 1) % at.LINE_INSTRUCTIONS
    blocks = [[way for k in range(warps) for way in (k, warps, warps, warps)]]
    laid = replace(laid, steps=steps, ways=ways, blocks=blocks, place=place)
    found = [list[tuple[int, int]]() for _ in waits]
    for time, what, warp, step, _ in run(laid, h200(), Options(events=20_000), resident=1, blocks=1).events:
        if what == at.ISSUED and warp % 4 == 0:
            found[int(warp) // 4].append((int(step), int(time)))
    return found


def _simulated(slots: list[Any], begins: list[int]) -> list[list[int]]:
    """Return what each warp reads of the clock if its first read is at the given time."""
    late = _run(slots, [_BEGIN] * len(begins))
    waits = [_BEGIN + begin - issues[_COUNTED - 1][1] for begin, issues in zip(begins, late, strict=True)]
    found = _run(slots, waits)
    reads = [[time for step, time in issues if step < len(slots) and slots[step][0] == "C"] for issues in found]
    first = min(each[0] for each in reads)
    return [[time - first for time in each] for each in reads]


def right(every: int = 1) -> dict[tuple[int, int, int], tuple[int, int]]:
    """Return for so many warps and places of branch and target in how many cases all clocks are as simulated."""
    found = dict[tuple[int, int, int], tuple[int, int]]()
    branches = script("branches")
    rows = zip(branches.cases(), read("h200/branches.json.gz")["clocks"], strict=True)
    for (warps, slots), clocks in list(rows)[::every]:
        taken = next(i for i, (what, *how) in enumerate(slots) if what == "J" and how[1] == branches.ALWAYS)
        key = warps, (taken + branches.PLACE) % 8, (taken + 1 + slots[taken][1] + branches.PLACE) % 8
        kept = slots[branches.COUNTED + 1 :]
        good, all_of = found.get(key, (0, 0))
        found[key] = good + (_simulated(kept, [each[0] for each in clocks]) == clocks), all_of + 1
    return found


if __name__ == "__main__":
    print(right())
