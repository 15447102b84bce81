"""List scheduler for changed code: the order a compiler would give it, the longest chain of dependences first.

A remedy that drops or adds instructions leaves the rest in the order, with the stall counts and the waits, that the
compiler chose for the code before. Between two fences (branches, barriers, stores) the scheduler orders instructions
anew by their dependences, with the latencies of the machine file. Registers are assumed to suffice.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from warplens.advisor.rewrite import Copy, Run
from warplens.core.errors import MissingField
from warplens.machine import KINDS, Machine
from warplens.program.instruction import Instruction

_FENCES = frozenset(("branch", "exit", "barrier", "store"))
_LATE = frozenset(("load", "shared", "sfu", "convert"))  # kinds whose results come by scoreboard
_LONGEST = 400  # instructions between fences that are ordered anew
_MOST_STALL = 15  # cycles that a control code can name
_DEFAULT_CYCLES = 4.0


class Scheduler:
    """Orders runs of one kernel on one machine; equal parts are ordered once."""

    def __init__(self, code: Sequence[Instruction], machine: Machine) -> None:
        """Take the original code of the copies."""
        self.code, self.machine = code, machine
        self.late = {w for x in code if x.kind in _LATE for w in x.writes}
        self.done: dict[Run, list[Copy]] = {}

    def ordered(self, run: Run) -> list[Run]:
        """Return the parts of a straight run between fences, each in the order in which results are needed."""
        parts, part = list[Run](), list[Copy]()
        for copy in run:
            if self.code[copy.origin].kind in _FENCES or copy.becomes in ("STS", "BAR"):
                parts.append((*self._part(tuple(part)), copy))
                part = []
            else:
                part.append(copy)
        return [*parts, tuple(self._part(tuple(part)))]

    def _part(self, part: Run) -> list[Copy]:
        if part not in self.done:
            short = len(part) <= _LONGEST
            self.done[part] = _ordered(part, self.code, self.machine, self.late) if short else list(part)
        return self.done[part]


def _ordered(part: Sequence[Copy], code: Sequence[Instruction], machine: Machine, late: set[str]) -> list[Copy]:
    """Return a part in its new order; unchanged code keeps the compiler's."""
    unchanged = all(c == Copy(part[0].origin + k) for k, c in enumerate(part))
    if len(part) < 2 or unchanged or any(code[c.origin].control is None for c in part):
        return list(part)
    needs = _needs(part, code)
    cycles = [_latency(c, code[c.origin], machine) for c in part]
    urgent = [0.0] * len(part)  # cycles from an instruction to the end of the last that needs it
    for k in range(len(part) - 1, -1, -1):
        urgent[k] += cycles[k]
        for n in needs[k]:
            urgent[n] = max(urgent[n], urgent[k])
    begun, left, now, order = dict[int, float](), list(range(len(part))), 0.0, list[int]()
    while left:
        ready = {
            k: max((begun[n] + cycles[n] for n in needs[k]), default=0.0) for k in left if needs[k] <= begun.keys()
        }
        now = max(now, min(ready.values()))
        chosen = max((k for k in ready if ready[k] <= now), key=lambda k: (urgent[k], -k))
        begun[chosen] = now
        order.append(chosen)
        left.remove(chosen)
        now += 1
    return _controlled(part, code, order, needs, cycles, late)


def _controlled(
    part: Sequence[Copy],
    code: Sequence[Instruction],
    order: Sequence[int],
    needs: list[set[int]],
    cycles: list[float],
    late: set[str],
) -> list[Copy]:
    """Give instructions in this order their stall counts and scoreboards."""
    board, at, controlled = dict[int, int](), dict[int, float](), list[Copy]()
    for k in order:
        fixed = [at[n] + cycles[n] for n in needs[k] if not _varies(part[n], code)]
        at[k] = max(fixed, default=0.0) if not at else max([1 + at[[*at][-1]], *fixed])
    needed = set[int]().union(*needs)
    end = max((at[k] + cycles[k] for k in order if k not in needed and not _varies(part[k], code)), default=0.0)
    for k, following in zip(order, [*order[1:], None], strict=True):
        until = end if following is None else at[following]
        stall = max(1, min(_MOST_STALL, round(until - at[k])))
        mask = _outer(k, part, code, late)
        for n in needs[k] & board.keys():
            mask |= 1 << board[n]
        if _varies(part[k], code):
            control = code[part[k].origin].control
            board[k] = (control.write_scoreboard if control is not None else None) or 0
        controlled.append(replace(part[k], stall=stall, mask=mask, board=board.get(k, -1)))
    return controlled


def _outer(k: int, part: Sequence[Copy], code: Sequence[Instruction], late: set[str]) -> int:
    """Return the scoreboards to wait for because of results from outside the part, as their first readers did."""
    foreign, mask, own = {*code[part[k].origin].reads} & late, 0, 0
    for c in part[:k] if foreign else ():
        foreign -= {*code[c.origin].writes}
    if not foreign:
        return 0
    for c in part[: k + 1]:
        x = code[c.origin]
        if x.control is not None and c.waits and foreign & {*x.reads}:
            mask |= (x.control.wait_mask if c.mask is None else c.mask) & ~own
        if x.control is not None and x.control.write_scoreboard is not None:
            own |= 1 << x.control.write_scoreboard
    return mask


def _needs(part: Sequence[Copy], code: Sequence[Instruction]) -> list[set[int]]:
    """Return, for each instruction, the numbers of those whose results it reads."""
    last, found = dict[str, int](), list[set[int]]()
    for k, copy in enumerate(part):
        x = code[copy.origin]
        operands = (*x.reads, x.guard.lstrip("@!"), *(x.writes if x.guard else ()))
        found.append({last[r] for r in operands if r in last})
        last.update(dict.fromkeys(x.writes, k))
    return found


def _varies(copy: Copy, code: Sequence[Instruction]) -> bool:
    """Return True if a result comes by a scoreboard."""
    x = code[copy.origin]
    loads = KINDS[x.kind] in ("memory system", "shared memory") or copy.becomes == "LDS"
    return loads or (x.control is not None and x.control.write_scoreboard is not None)


def _latency(copy: Copy, x: Instruction, machine: Machine) -> float:
    if copy.becomes == "LDS":
        return machine.latency_cycles("shared")
    if x.kind == "load":
        return machine.cache.l1_latency_cycles or machine.latency_cycles("shared")
    if x.writes and all(w.startswith("P") for w in x.writes):
        return _DEFAULT_CYCLES + 1
    try:
        return machine.latency_cycles(x.kind)
    except MissingField:
        return _DEFAULT_CYCLES
