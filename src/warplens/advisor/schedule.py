"""Changed code in the order a compiler would give it: what others wait for longest comes first.

A remedy that drops or adds instructions leaves the rest in the order, with the stall counts and the waits, that the
compiler chose for the code before. Between two places that nothing may pass (branches, barriers, stores) a list
scheduler orders them anew by what they need of one another, with the latencies of the machine file. Registers are taken
to be enough.
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
_LONGEST = 400  # instructions of a stretch that is ordered anew
_MOST_STALL = 15  # cycles that a control code can name
_DEFAULT_CYCLES = 4.0


class Scheduler:
    """Orders runs of one kernel on one machine; a stretch that comes again is ordered once."""

    def __init__(self, code: Sequence[Instruction], machine: Machine) -> None:
        """Take the code that copies are of."""
        self.code, self.machine = code, machine
        self.late = {w for x in code if x.kind in _LATE for w in x.writes}
        self.done: dict[Run, list[Copy]] = {}

    def ordered(self, run: Run) -> list[Run]:
        """Return a straight run in the order in which results are needed: its stretches up to what none may pass."""
        made, part = list[Run](), list[Copy]()
        for copy in run:
            if self.code[copy.origin].kind in _FENCES or copy.becomes in ("STS", "BAR"):
                made.append((*self._part(tuple(part)), copy))
                part = []
            else:
                part.append(copy)
        return [*made, tuple(self._part(tuple(part)))]

    def _part(self, part: Run) -> list[Copy]:
        if part not in self.done:
            short = len(part) <= _LONGEST
            self.done[part] = _ordered(part, self.code, self.machine, self.late) if short else list(part)
        return self.done[part]


def _ordered(part: Sequence[Copy], code: Sequence[Instruction], machine: Machine, late: set[str]) -> list[Copy]:
    as_it_was = all(c == Copy(part[0].origin + k) for k, c in enumerate(part))
    if len(part) < 2 or as_it_was or any(code[c.origin].control is None for c in part):
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
    board, at, made = dict[int, int](), dict[int, float](), list[Copy]()
    for k in order:
        fixed = [at[n] + cycles[n] for n in needs[k] if not _varies(part[n], code)]
        at[k] = max(fixed, default=0.0) if not at else max([1 + at[[*at][-1]], *fixed])
    asked = set[int]().union(*needs)
    end = max((at[k] + cycles[k] for k in order if k not in asked and not _varies(part[k], code)), default=0.0)
    for place, k in enumerate(order):
        following = order[place + 1] if place + 1 < len(order) else None
        until = end if following is None else at[following]
        stall = max(1, min(_MOST_STALL, round(until - at[k])))
        mask = _outer(k, part, code, late)
        for n in needs[k] & board.keys():
            mask |= 1 << board[n]
        if _varies(part[k], code):
            control = code[part[k].origin].control
            board[k] = (control.write_scoreboard if control is not None else None) or 0
        made.append(replace(part[k], stall=stall, mask=mask, board=board.get(k, -1)))
    return made


def _outer(k: int, part: Sequence[Copy], code: Sequence[Instruction], late: set[str]) -> int:
    """Return the scoreboards to wait for because of results from elsewhere: as those who read them first did."""
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
    """Return, for each instruction, those whose results it reads."""
    last, found = dict[str, int](), list[set[int]]()
    for k, copy in enumerate(part):
        x = code[copy.origin]
        wanted = (*x.reads, x.guard.lstrip("@!"), *(x.writes if x.guard else ()))
        found.append({last[r] for r in wanted if r in last})
        last.update(dict.fromkeys(x.writes, k))
    return found


def _varies(copy: Copy, code: Sequence[Instruction]) -> bool:
    """Whether a result comes by a scoreboard."""
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
