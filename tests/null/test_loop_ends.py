"""What the end of a loop costs where two warps come to it, to the cycle (data/h200/loop_ends.json.gz).

How a branch gets its target where others ask for theirs is in `simulator/jumps.py`; test_branches has it by itself.
"""

from __future__ import annotations

import pytest

from warplens.papers.validation.mixes import read

from .by_hand import Placed, issues_from, script, without_port

_BEGINS, _COUNTS = {1: [39], 2: [45, 43]}, {1: [13], 2: [13, 11]}  # as in test_orders
_PLACE = 3  # of the code's first instruction in its line
_TEXTS = {
    "CLOCK": "CS2R.32 R9, SR_CLOCKLO", "FADD": "FADD R20, R20, R21", "NOP": "NOP", "JUMP": "BRA `(.L_x_1)",
    "PART": "ISETP.NE.AND P1, PT, R5, RZ, PT",
}  # fmt: skip
_END: list[Placed] = [
    ("VIADD R3, R3, 0x1", 5, True), ("ISETP.GE.AND P0, PT, R3, R0, PT", 13, True), ("@!P0 BRA `(.L_x_2)", 5, False),
]  # fmt: skip


def _right(every: int = 1) -> dict[int, int]:
    """Return of how many cases of one and two warps all clocks of all turns are as measured."""
    right = {1: 0, 2: 0}
    rows = zip(script("loop_ends").cases(), read("h200/loop_ends.json.gz")["clocks"], strict=True)
    for (warps, cycles, first, stall), turns in list(rows)[::every]:
        slots = script("loop_ends").body(cycles, stall, list(range(4, 94)))
        code: list[Placed] = [(_TEXTS[what], wait, y) for what, _, wait, y, _ in slots]
        code[-1] = ("FADD R22, RZ, RZ", 4, True)
        skipped = sum(what == "NOP" for what, *_ in slots)
        code += _END
        straight, around = [(0, len(code))], [(0, 3), (3 + skipped, len(code))]
        ways = [(around if warps > 1 and (w > 0) != first else straight, len(turns) + 1) for w in range(warps)]
        found = issues_from(_BEGINS[warps], code, ways, _COUNTS[warps], _PLACE)
        clocks = [[time for step, time in each if "CLOCK" in code[step][0]] for each in found]
        measured = [[clock for turn in turns for clock in turn[w]] for w in range(warps)]
        right[warps] += [each[: 2 * len(turns)] for each in clocks] == measured
    return right


@pytest.mark.slow
def test_the_clocks_of_two_warps_at_a_loop_s_end_are_as_measured() -> None:
    assert _right() == {1: 6, 2: 351}  # of 6 and 378; without the port 6 and 165


def test_without_the_port_of_instructions_half_are_wrong() -> None:
    with_it = _right(6)
    with without_port():
        without = _right(6)
    assert with_it[2] >= 56 and without[2] < 32  # of 63
