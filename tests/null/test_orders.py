"""Which warp of a scheduler goes first: a rule that says every issue of the H200's stamped codes, to the cycle.

The engine has it too, and is held to the same codes, to more kinds of them, and to such as read registers. Left out are
codes of which a launch began otherwise: the warps are looked at in launches of their own, so that two of them then read
the clock at once; and with four warps those whose first instruction needs the products' half of the cores, which
something before the code still has.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate, product

import pytest
from msgspec.structs import replace

from warplens.papers.validation.stored import read
from warplens.simulator import layout as at
from warplens.simulator.code import Step, WarpPath
from warplens.simulator.from_program import from_program
from warplens.simulator.run import Options, run

from .by_hand import Placed, h200, held_cycles, placed, program, read_at, turn_cycles

_LATE = 5  # cycles after which an issue counts
_MOST = 15  # that are counted: one more halves the counts of all
_BEGINS = {1: [39], 2: [45, 43], 3: [45, 41, 43], 4: [49, 43, 47, 45]}  # when the warps come to the code
_UNIT = {"C": ("integer", 2), "I": ("product", 2), "H": ("half", 2)}  # cycles of it

_COUNTS = {1: [13], 2: [13, 11], 3: [13, 11, 13], 4: [13, 11, 13, 13]}  # issues before it: what `_counts` finds
_REGISTERS = [*range(9, 126, 2), *range(4, 66, 2)]  # that the instructions of a code write
_TEXTS = {
    "C": "CS2R.32 R{0}, SR_CLOCKLO", "F": "FADD R{0}, RZ, RZ", "I": "IMAD R{0}, RZ, RZ, RZ", "S": "LDS R{0}, [RZ]",
    "H": "HFMA2 R{0}, RZ, RZ, RZ", "M": "HFMA2.MMA R{0}, RZ, RZ, RZ", "A": "HADD2 R{0}, RZ, RZ",
    "L": "LOP3.LUT R{0}, RZ, RZ, RZ, 0xc0, !PT", "U": "USHF.L.W.U32.HI UR50, UR50, 0x5, URZ",
    "V": "USHF.L.W.U32.HI UR50, UR51, 0x5, URZ",
}  # fmt: skip
_TOGETHER = pytest.mark.xdist_group("orders")
_START = 300  # the simulated cycle from which clocks are counted
_PRODUCTS = "IHA"  # what needs the products' half of the cores

Code = list[tuple[str, int, bool]]
Row = tuple[Code, list[list[int]]]


@cache
def _rows() -> list[Row]:
    made = []
    for text, clocks in read("experiments/warp_scheduling/orders.json.gz")["rows"]:
        code = [(x[0], int(x[1:].rstrip("y")), x.endswith("y")) for x in text.split()]
        made.append((code, clocks))
    return made


def _reads(code: Code, begins: list[int], counts: list[int], end: int) -> list[list[int]]:
    """Return when each warp reads the clock, by the rule.

    Of the warps that can go it is the one that issued last, if its instruction did not yield; else first one whose last
    instruction did not yield, then the one that has issued least, by counts of four bits; of these the youngest.
    """
    warps = range(len(begins))
    ready, at, used, yielded = list(begins), [0] * len(begins), list(counts), [True] * len(begins)
    read, issued, free, last = [list[int]() for _ in warps], list[tuple[int, int]](), dict[str, int](), -1
    for now in range(min(begins), end):
        while issued and issued[0][0] + _LATE <= now:
            _, w = issued.pop(0)
            used = [n >> 1 for n in used] if used[w] == _MOST else [n + (k == w) for k, n in enumerate(used)]
        can = [
            w for w in warps
            if at[w] < len(code) and ready[w] <= now and free.get(_UNIT.get(code[at[w]][0], ("", 0))[0], 0) <= now
        ]  # fmt: skip
        if not can:
            continue
        w = min(can, key=lambda w: (w != last or yielded[w], yielded[w], used[w], -w))
        kind, stall, yields = code[at[w]]
        if kind == "C":
            read[w].append(now)
        if kind in _UNIT:
            unit, cycles = _UNIT[kind]
            free[unit] = now + cycles
        issued.append((now, w))
        at[w], last, yielded[w], ready[w] = at[w] + 1, w, yields, now + max(stall, 1 + yields)
    return read


def _as_measured(code: Code, clocks: list[list[int]], counts: list[int]) -> bool:
    end = min(c[-1] for c in clocks)
    found = _reads(code, _BEGINS[len(clocks)], counts, end)
    return found == [[t for t in c if t < end] for c in clocks]


@cache
def _counts(warps: int) -> list[int]:
    """Return with what counts the warps come to the code: what three of them say is held against all others."""
    fitted = [
        (code, clocks) for code, clocks in _rows()
        if len(clocks) == warps and len(set(code)) == 1 and code[0] in (("C", 2, True), ("C", 3, True), ("C", 5, True))
    ]  # fmt: skip
    begun = [(code, [c[:8] for c in clocks]) for code, clocks in fitted]  # what is wrong is so soon
    for counts in product(range(9, 16), repeat=warps):
        if all(_as_measured(code, clocks, list(counts)) for code, clocks in (*begun, *fitted)):
            return list(counts)
    return [0] * warps


def _apart(clocks: list[list[int]]) -> bool:
    """Whether no two warps read at once: in launches that began alike none do."""
    end = min(c[-1] for c in clocks)
    every = [t for c in clocks for t in c if t < end]
    return len(set(every)) == len(every)


def _began_alike(clocks: list[list[int]]) -> bool:
    """Whether the launches for each warp began alike: no two read at once, and the first begins when it does."""
    end = min(c[-1] for c in clocks)
    return _apart(clocks) and min(t for c in clocks for t in c if t < end) == min(_BEGINS[len(clocks)])


@pytest.mark.parametrize("warps", [2, 3, 4])
def test_a_rule_says_every_issue_of_each_code(warps: int) -> None:
    rows = [(code, clocks) for code, clocks in _rows() if len(clocks) == warps and _began_alike(clocks)]
    assert len(rows) >= 29
    assert all(_as_measured(code, clocks, _counts(warps)) for code, clocks in rows)


def _run(code: list[Placed], waits: list[int]) -> tuple[list[list[tuple[int, int]]], set[int]]:
    """Return the simulated issues of each warp of a scheduler, its step and cycle, and when the issue stage was held.

    The warps of the other schedulers end at once. A warp issues as often as the counts say before the code, and its
    last issue before it takes the cycles of `waits`.
    """
    n = len(waits)
    made = program([*code, ("NOP", 11, False)])
    laid = from_program(made, h200(), paths=[WarpPath([([(0, len(made))], 1)])], blocks=[[0]])
    first, before = len(laid.steps), Step(label="before", stall=8.0, yields=True)
    steps = [*laid.steps, before, *(replace(before, stall=float(cycles)) for cycles in waits), Step(label="NOP")]
    ways = [
        WarpPath([([(first, first + 1)], _COUNTS[n][k] - 1), ([(first + 1 + k, first + 2 + k)], 1), ([(0, first)], 1)])
        for k in range(n)
    ]
    ways.append(WarpPath([([(first + n + 1, first + n + 2)], 1)]))
    laid = replace(laid, steps=steps, paths=ways, blocks=[[way for k in range(n) for way in (k, n, n, n)]])
    found = [list[tuple[int, int]]() for _ in waits]
    events = run(laid, h200(), Options(events=6000), resident=1, blocks=1).events
    for time, what, warp, step, _ in events.tolist():
        if what == at.ISSUED and warp % 4 == 0:
            found[warp // 4].append((step, time))
    return found, held_cycles(events)


@cache
def _last_before(warps: int) -> list[int]:
    """Return when each warp issues the last instruction before the code."""
    found, _ = _run([(_TEXTS["C"].format(to), 2, True) for to in _REGISTERS], [200] * warps)
    return [issues[_COUNTS[warps][k] - 1][1] for k, issues in enumerate(found)]


def _simulated(code: list[Placed], warps: int) -> list[list[int]]:
    """Return what clock each warp reads, simulated."""
    waits = [_START + begin - last for begin, last in zip(_BEGINS[warps], _last_before(warps), strict=True)]
    found, held = _run(code, waits)
    reads = [list[int]() for _ in found]
    for each, issues in zip(reads, found, strict=True):
        for step, time in issues:
            if step < len(code) and "CLOCK" in code[step][0]:
                each.append(read_at(time, held) - _START)
    return reads


def _as_simulated(code: list[Placed], clocks: list[list[int]]) -> bool:
    """Whether each warp reads the clock as simulated, up to the last read of the one that is done first."""
    end = min(c[-1] for c in clocks)
    return all(
        [t for t in simulated if t <= end] == [t for t in measured if t <= end]
        for simulated, measured in zip(_simulated(code, len(clocks)), clocks, strict=True)
    )


def _texts(code: Code) -> list[Placed]:
    return [(_TEXTS[kind].format(to), stall, y) for (kind, stall, y), to in zip(code, _REGISTERS, strict=True)]


@pytest.mark.parametrize("warps", [2, 3, 4])
def test_the_engine_says_every_issue_of_each_code(warps: int) -> None:
    rows = [row for row in _rows() if len(row[1]) == warps and _began_alike(row[1])]
    assert len(rows) >= 29
    assert all(_as_simulated(_texts(code), clocks) for code, clocks in rows)


@cache
def _more(warps: int) -> list[Row]:
    """Return the codes with more kinds of instructions that began alike."""
    data, made = read("experiments/warp_scheduling/orders_more.json.gz"), list[Row]()
    for kinds, codes in data["programs"].items():
        for (n, code), steps in zip(codes, data["traces"][kinds], strict=True):
            clocks = [list(accumulate(c)) for c in steps]
            if n == warps and _apart(clocks) and not (n == 4 and code[0][0] in _PRODUCTS):
                made.append((code, clocks))
    return made


@_TOGETHER
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize(("warps", "codes", "wrong"), [(1, 288, 0), (2, 288, 0), (3, 287, 0), (4, 232, 1)])
def test_the_engine_says_every_issue_of_more_kinds(warps: int, codes: int, wrong: int, every: int) -> None:
    """Of the one of four warps a launch began otherwise, by six cycles, and no two read at once."""
    rows = _more(warps)
    assert len(rows) == codes
    assert sum(not _as_simulated(_texts(code), clocks) for code, clocks in rows[::every]) <= wrong


# By the kinds of instructions: how many of 16 codes of one, two and three warps are not as simulated.
_WITH_REGISTERS = {
    "half": (0, 0, 0), "half apart": (0, 1, 1), "sums apart": (0, 0, 1), "single": (0, 0, 0), "sums": (1, 0, 0),
    "logic": (0, 0, 0), "whole": (0, 0, 0), "half, whole": (0, 0, 0), "double": (1, 0, 0), "wide": (0, 0, 0),
    "high": (0, 0, 0), "sfu": (1, 5, 7), "shared": (0, 0, 0), "sfu alone": (0, 2, 3),
}  # fmt: skip


@_TOGETHER
@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize("kinds", _WITH_REGISTERS)
def test_the_engine_says_every_issue_where_registers_are_read(kinds: str, every: int) -> None:
    """To the cycle, but for some with SFUs and a few others: how many is known."""
    data = read("experiments/warp_scheduling/orders_reads.json.gz")
    rows = list(zip(data["codes"][kinds], data["traces"][kinds], strict=True))
    for warps, wrong in zip((1, 2, 3), _WITH_REGISTERS[kinds], strict=True):
        kept = [([*map(placed, code)], [list(accumulate(c)) for c in each]) for (n, code), each in rows if n == warps]
        kept = [(code, clocks) for code, clocks in kept if _apart(clocks)]
        assert len(kept) >= 15
        assert sum(not _as_simulated(code, clocks) for code, clocks in kept[::every]) <= wrong


@pytest.mark.parametrize(
    ("every", "loops"), [(12, 58), pytest.param(1, 696, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_loops_of_a_lone_warp_take_what_was_measured(every: int, loops: int) -> None:
    """Within half a cycle of a turn."""
    data = read("experiments/warp_scheduling/orders_more.json.gz")
    rows = list(zip(data["words"], data["loops"], strict=True))[::every]
    assert len(rows) == loops
    assert all(abs(turn_cycles([*map(placed, code)]) - cycles) < 0.5 for code, cycles in rows)
