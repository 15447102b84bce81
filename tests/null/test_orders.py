"""Which warp of a scheduler goes first: a rule that says every issue of the H200's stamped codes, to the cycle.

The engine does not have it yet: docs/simulator.md says why.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest

from warplens.study.validation import read

_LATE = 5  # cycles after which an issue counts
_MOST = 15  # that are counted: one more halves the counts of all
_BEGINS = {2: [45, 43], 3: [45, 41, 43], 4: [49, 43, 47, 45]}  # when the warps come to the code
_UNIT = {"C": ("integer", 2), "I": ("product", 2), "H": ("half", 2)}  # cycles of it

Code = list[tuple[str, int, bool]]


@cache
def _rows() -> list[tuple[Code, list[list[int]]]]:
    made = []
    for text, clocks in read("h200/orders.json.gz")["rows"]:
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
    for counts in product(range(9, 16), repeat=warps):
        if all(_as_measured(code, clocks, list(counts)) for code, clocks in fitted):
            return list(counts)
    return [0] * warps


def _began_alike(clocks: list[list[int]]) -> bool:
    """Whether the launches for each warp began alike: no two read at once, and the first begins when it does."""
    end = min(c[-1] for c in clocks)
    every = [t for c in clocks for t in c if t < end]
    return len(set(every)) == len(every) and min(every) == min(_BEGINS[len(clocks)])


@pytest.mark.parametrize("warps", [2, 3, 4])
def test_a_rule_says_every_issue_of_each_code(warps: int) -> None:
    rows = [(code, clocks) for code, clocks in _rows() if len(clocks) == warps and _began_alike(clocks)]
    assert len(rows) >= 29
    assert all(_as_measured(code, clocks, _counts(warps)) for code, clocks in rows)
