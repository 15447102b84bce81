"""What the end of a loop costs where two warps come to it: a rule of how instructions are fetched behind a branch.

It says nearly every clock of data/h200/loop_ends.json.gz; the engine does not have it yet. A taken branch asks for its
target three cycles behind its issue, which can issue seven later, and uses the port again two and five cycles after it
asked. What issues the last instruction of a line of eight asks for the next line. A branch whose cycle another warp's
branch uses, or in which any warp asks for a next line, asks again three cycles later, once; so does what asks for a
line in the cycle before another's branch uses the port, which then meets its own branch, if that was the last of its
line. A target that is granted three cycles behind another comes a cycle later.
"""

from __future__ import annotations

from collections import defaultdict

from warplens.study.validation import read

from .by_hand import script

_BEGINS, _COUNTS = {1: [39], 2: [45, 43]}, {1: [13], 2: [13, 11]}  # as in test_orders
_LINE, _FIRST = 8, 3  # instructions of a line, and the place of the code's first one in it, from the end
_ASKS, _COMES, _AGAIN, _USES = 3, 7, 3, (0, 2, 5)  # cycles
_NEXT_LINE = 13  # cycles from a branch until the line behind that of its target is there
_LATE, _MOST = 5, 15  # of the order of warps

Code = list[tuple[str, int, bool]]


def _code(cycles: int, stall: int) -> tuple[Code, int]:
    """Return the kinds, stalls and yields of the loop, and how many instructions the jump leaves out."""
    kinds = {"CLOCK": "C", "FADD": "F", "NOP": "N", "PART": "S", "JUMP": "J"}
    slots = script("loop_ends").body(cycles, stall, list(range(4, 94)))
    made = [(kinds[what], wait, y) for what, _, wait, y, _ in slots]
    return [*made, ("V", 5, True), ("S", 13, True), ("B", 5, False)], sum(kind == "N" for kind, *_ in made)


class _Fetch:
    """The port: when branches use it, and whose, and when a warp asks for its next line."""

    def __init__(self) -> None:
        self.used, self.lines, self.granted = dict[int, int](), defaultdict[int, set[int]](set), dict[int, int]()
        self.asking = dict[int, tuple[int, bool]]()  # of a warp: when, and whether again

    def step(self, now: int, ready: list[int]) -> None:
        """Serve what asks in a cycle."""
        for w, (when, again) in sorted(self.asking.items(), key=lambda item: (-item[1][1], -item[0])):
            if when != now:
                continue
            taken = self.used.get(now, w) != w
            if (taken or self.lines[now]) and not again:
                self.asking[w] = now + _AGAIN, True
                continue
            for cycles in _USES:
                self.used.setdefault(now + cycles, w)
            ready[w] = now + _COMES + (self.granted.get(now - _AGAIN, w) != w)
            self.granted[now] = w
            del self.asking[w]
        for w in self.lines[now - 1]:
            if self.used.get(now, w) != w:
                self.lines[now - 1 + _AGAIN].add(w)


def _clocks(code: Code, left_out: int, jumps: list[bool], turns: int) -> list[list[int]]:
    """Return what each warp reads of the clock in so many turns: by the rule of test_orders, and this one."""
    n = len(jumps)
    ready, at, used, yielded, last = list(_BEGINS[n]), [0] * n, list(_COUNTS[n]), [True] * n, -1
    reads, turn, fetch, issued = [list[int]() for _ in jumps], [0] * n, _Fetch(), list[tuple[int, int]]()
    now, free, halves, lines = min(ready), 0, [0, 0], dict[int, tuple[int, int]]()
    while min(turn) < turns:
        while issued and issued[0][0] + _LATE <= now:
            _, w = issued.pop(0)
            used = [k >> 1 for k in used] if used[w] == _MOST else [k + (i == w) for i, k in enumerate(used)]
        room = {"C": free <= now, "S": free <= now, "V": halves[1] <= now, "F": min(halves) <= now}
        can = [w for w in range(n) if ready[w] <= now and room.get(code[at[w]][0], True)]
        if can:
            w = min(can, key=lambda w: (w != last or yielded[w], yielded[w], used[w], -w))
            (kind, stall, y), here = code[at[w]], at[w]
            if kind == "C":
                reads[w].append(now)
            if kind in "CS":
                free = now + 2
            elif kind in "FV":
                halves[kind == "V" or halves[0] > now] = now + 2
            issued.append((now, w))
            jumped = kind == "B" or (kind == "J" and jumps[w])
            at[w] = 0 if kind == "B" else here + 1 + left_out * jumped
            turn[w] += kind == "B"
            if (here + _FIRST) % _LINE == _LINE - 1:
                fetch.lines[now].add(w)
            last, yielded[w] = w, y
            ready[w] = now + max(stall, 1 + y)
            line = (at[w] + _FIRST) // _LINE
            if jumped:
                fetch.asking[w], ready[w] = (now + _ASKS, False), 1 << 30
                lines[w] = line + 1, now + _NEXT_LINE
            elif w in lines and line == lines[w][0]:
                ready[w] = max(ready[w], lines[w][1])
        fetch.step(now, ready)
        now += 1
    return reads


def test_a_rule_says_the_clocks_of_two_warps_at_a_loop_s_end() -> None:
    right = {1: 0, 2: 0}
    for (warps, cycles, first, stall), turns in zip(
        script("loop_ends").cases(), read("h200/loop_ends.json.gz")["clocks"], strict=True
    ):
        code, left_out = _code(cycles, stall)
        jumps = [(w > 0) != first for w in range(warps)] if warps > 1 else [False]
        found = _clocks(code, left_out, jumps, len(turns))
        measured = [[clock for each in turns for clock in each[w]] for w in range(warps)]
        right[warps] += [reads[: len(m)] for reads, m in zip(found, measured, strict=True)] == measured
    assert right == {1: 6, 2: 361}  # of 6 and 378; without the port 6 and 165
