"""Which instructions do what in a stretch of code: those that only compute addresses, those that only turn a loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warplens.kernel.instruction import Instruction
from warplens.kernel.profile import Segment
from warplens.machine import KINDS

ADDRESS_KINDS = frozenset(("int", "imul", "imul_wide", "uniform", "constant"))
_CONTROL_KINDS = frozenset(("branch", "exit", "barrier"))


def address_instructions(code: Sequence[Instruction]) -> set[int]:
    """Return the integer instructions whose results lead only to addresses, branches and guards.

    One pass from the end to the beginning: what is wanted as an address makes its producers address instructions.
    """
    addresses, values, found = set[str](), set[str](), set[int]()
    for i in range(len(code) - 1, -1, -1):
        x = code[i]
        for_address = bool(set(x.writes) & addresses) and not set(x.writes) & values
        addresses -= set(x.writes)
        values -= set(x.writes)
        if x.kind in _CONTROL_KINDS or (for_address and x.kind in ADDRESS_KINDS):
            found.add(i)
            addresses |= set(x.reads)
            continue
        if x.guard:
            addresses.add(x.guard.lstrip("@!"))
        pointers = {r for o in x.operands if o.kind == "memory" for r in (*o.registers, *o.descriptor)}
        pointers |= {f"R{int(r[1:]) + 1}" for r in pointers if r[:1] == "R" and r[1:].isdigit()}
        if KINDS[x.kind] in ("memory system", "shared memory"):
            addresses |= pointers
        values |= set(x.reads) - pointers
    return found


def indirect(code: Sequence[Instruction], executed: Sequence[float]) -> set[int]:
    """Return the accesses whose addresses are computed from values that are loaded as often: gathers and scatters.

    A pointer or the beginning of a row that is loaded once and then counted up does not make an access indirect.
    """
    loaded, found = dict[str, float](), set[int]()  # how often what a register depends on is loaded
    for i in (*range(len(code)), *range(len(code))):  # twice: a loop brings values from its end to its beginning
        x = code[i]
        if KINDS[x.kind] == "memory system":
            pointers = [r for o in x.operands if o.kind == "memory" for r in o.registers]
            if executed[i] and max((loaded.get(r, 0.0) for r in pointers), default=0.0) >= 0.5 * executed[i]:
                found.add(i)
        if x.opcode in ("LDG", "LD"):
            often = executed[i]
        else:
            often = max((loaded.get(r, 0.0) for r in x.reads), default=0.0) if x.kind in ADDRESS_KINDS else 0.0
        loaded |= dict.fromkeys(x.writes, often)
    return found


def from_data(code: Sequence[Instruction], executed: Sequence[float]) -> set[int]:
    """Return the instructions whose results depend on values that are loaded as often, through conditions too."""
    loaded, found = dict[str, float](), set[int]()
    for i in (*range(len(code)), *range(len(code))):
        x = code[i]
        often = max((loaded.get(r, 0.0) for r in (*x.reads, x.guard.lstrip("@!"))), default=0.0)
        if KINDS[x.kind] in ("memory system", "shared memory"):
            often = executed[i]
        elif executed[i] and often >= 0.5 * executed[i]:
            found.add(i)
        loaded |= dict.fromkeys(x.writes, often)
    return found


def loop_overhead(code: Sequence[Instruction], segment: Segment) -> set[int]:
    """Return what a turn of a loop spends on turning: the branch, its condition, counters that count on themselves."""
    inside = [i for first, stop in segment.runs for i in range(first, stop)]
    if not inside:
        return set()
    back = {i for i in inside if code[i].opcode in ("BRA", "UBRA") and i == max(inside)}
    guards = {code[i].guard.lstrip("@!") for i in back}
    found = set(back)
    for i in reversed(inside):
        x = code[i]
        if set(x.writes) & guards and x.opcode in ("ISETP", "UISETP"):
            found.add(i)
            guards |= set(x.reads)
        elif x.opcode in ("IADD3", "VIADD", "UIADD3", "IADD", "LEA") and set(x.writes) & set(x.reads):
            found.add(i)
    return found


def registers_written(code: Sequence[Instruction], indices: Iterable[int]) -> int:
    """Count the general registers that instructions write."""
    return len({r for i in indices for r in code[i].writes if r[:1] == "R" and r[1:].isdigit()})
