"""Which instructions do what in a stretch of code: those that only compute addresses, those that only turn a loop."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from warplens.machine import KINDS
from warplens.program.instruction import Instruction
from warplens.program.waiting import idles
from warplens.workload.profile import Segment

ADDRESS_KINDS = frozenset(("int", "imul", "imul_wide", "uniform", "constant"))
_COUNTS = ("IADD3", "VIADD", "UIADD3", "IADD", "LEA")
_IMMEDIATE = re.compile(r"-?0x[0-9a-f]+")
_WALK = 4  # accesses from one pointer, from which it is no record that is read there but a row
_CONTROL_KINDS = frozenset(("branch", "exit", "barrier"))


def address_instructions(code: Sequence[Instruction]) -> set[int]:
    """Return the integer instructions whose results lead only to addresses, branches and guards.

    From the end to the beginning: what is wanted as an address makes its producers address instructions. At the end of
    a loop is wanted what its beginning wants, such as a pointer that is counted up: again, until nothing is added.
    """
    at = {x.offset: i for i, x in reversed(list(enumerate(code)))}  # copies lie behind, and have the same offset
    wanted: dict[int, tuple[set[str], set[str]]] = {}  # in front of an instruction: as addresses, as values
    found, before = set[int](), -1
    while len(found) > before:
        before = len(found)
        addresses, values = set[str](), set[str]()
        for i in range(len(code) - 1, -1, -1):
            x = code[i]
            head = at.get(x.target, i + 1) if x.target is not None else i + 1
            if head <= i and head in wanted:
                addresses, values = addresses | wanted[head][0], values | wanted[head][1]
            if _leads_to_address(x, addresses, values):
                found.add(i)
            wanted[i] = set(addresses), set(values)
    return found


def freed(code: Sequence[Instruction], gone: set[int]) -> set[int]:
    """Return the address instructions that nobody needs once some accesses are gone."""
    nothing = Instruction("NOP", "NOP", "int")
    left = [replace(nothing, offset=x.offset) if i in gone else x for i, x in enumerate(code)]
    return address_instructions(code) - address_instructions(left)


def carried(code: Sequence[Instruction], work: set[int], loop: set[int]) -> int:
    """Count the registers that the work of a turn finds: sums of turns before, and what a thread has for itself."""
    written, found = set[str](), set[str]()
    for i in sorted(loop):
        found |= {r for r in code[i].reads if i in work and r[:1] == "R" and r[1:].isdigit()} - written
        written |= set(code[i].writes)
    return len(found)


def _leads_to_address(x: Instruction, addresses: set[str], values: set[str]) -> bool:
    """Whether an instruction computes addresses or conditions; what it wants is added to what is wanted behind it."""
    for_address, for_value = bool(set(x.writes) & addresses), bool(set(x.writes) & values)
    if x.kind in ADDRESS_KINDS and x.writes and not for_address and not for_value:
        return False  # nobody has asked for it yet
    addresses -= set(x.writes)
    values -= set(x.writes)
    if x.kind in _CONTROL_KINDS or (for_address and not for_value and x.kind in ADDRESS_KINDS):
        addresses |= set(x.reads)
        return True
    guard = {x.guard.lstrip("@!")} if x.guard else set[str]()
    addresses |= guard
    pointers = {r for o in x.operands if o.kind == "memory" for r in (*o.registers, *o.descriptor)}
    pointers |= {f"R{int(r[1:]) + 1}" for r in pointers if r[:1] == "R" and r[1:].isdigit()}
    if KINDS[x.kind] in ("memory system", "shared memory"):
        addresses |= pointers
    values |= set(x.reads) - pointers - guard
    return False


def indirect(code: Sequence[Instruction], executed: Sequence[float]) -> set[int]:
    """Return the accesses whose addresses are computed from values that are loaded as often: gathers and scatters.

    A pointer or the beginning of a row that is loaded once and then counted up does not make an access indirect, nor
    one from which a thread reads on in a row.
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
    return found - _walks(code)


def _walks(code: Sequence[Instruction]) -> set[int]:
    """Return the accesses that share a pointer with others: a thread that reads on from there."""
    written, groups = dict[str, int](), dict[tuple[str, int], set[int]]()
    for i, x in enumerate(code):
        if KINDS[x.kind] == "memory system":
            for pointer in (r for o in x.operands if o.kind == "memory" for r in o.registers):
                groups.setdefault((pointer, written.get(pointer, -1)), set()).add(i)
        written |= dict.fromkeys(x.writes, i)
    return {i for group in groups.values() if len(group) >= _WALK for i in group}


def from_data(code: Sequence[Instruction], executed: Sequence[float]) -> set[int]:
    """Return the instructions whose results depend on values that are loaded as often, through conditions too.

    The beginning of a loop finds what its end has left.
    """
    heads = {loop.stop - 1: loop.start for loop in loops_of(code)}
    left: dict[int, dict[str, float]] = {}
    loaded, found = dict[str, float](), set[int]()
    for i in (*range(len(code)), *range(len(code))):
        x = code[i]
        for r, often in left.get(i, {}).items():
            loaded[r] = max(often, loaded.get(r, 0.0))
        often = max((loaded.get(r, 0.0) for r in (*x.reads, x.guard.lstrip("@!"))), default=0.0)
        if KINDS[x.kind] in ("memory system", "shared memory"):
            often = executed[i]
        elif executed[i] and often >= 0.5 * executed[i]:
            found.add(i)
        loaded |= dict.fromkeys(x.writes, often)
        if i in heads:
            left[heads[i]] = dict(loaded)
    return found


def loops_of(code: Sequence[Instruction]) -> list[range]:
    """Return the loops of the code: from where a branch goes back to, to the branch."""
    at = {x.offset: i for i, x in reversed(list(enumerate(code)))}  # copies lie behind, and have the same offset
    heads = ((at.get(x.target, i + 1), i) for i, x in enumerate(code) if x.target is not None and x.opcode == "BRA")
    return [range(head, i + 1) for head, i in heads if head < i]  # what jumps to itself fills the end of a kernel


def waiting(code: Sequence[Instruction]) -> set[int]:
    """Return what only waits: sleeps, and innermost loops that go round by a clock or until others are there."""
    loops = loops_of(code)
    inner = [a for a in loops if not any(b != a and b.start >= a.start and b.stop <= a.stop for b in loops)]
    found = {i for loop in inner if idles([code[i] for i in loop]) for i in loop}
    return found | {i for i, x in enumerate(code) if x.opcode == "NANOSLEEP"}


def loop_condition(code: Sequence[Instruction], segment: Segment) -> set[int]:
    """Return what decides on another turn of a loop: the branch, its condition, the counter that this asks."""
    inside = [i for first, stop in segment.runs for i in range(first, stop)]
    if not inside:
        return set()
    found = {i for i in inside if code[i].opcode in ("BRA", "UBRA") and i == max(inside)}
    asked = {code[i].guard.lstrip("@!") for i in found}
    for i in reversed(inside):
        x = code[i]
        if set(x.writes) & asked and x.opcode in ("ISETP", "UISETP"):
            found.add(i)
            asked |= set(x.reads)
        elif set(x.writes) & asked and x.opcode in _COUNTS and set(x.writes) & set(x.reads):
            found.add(i)
    return found


def turns_at_once(code: Sequence[Instruction], segment: Segment) -> int:
    """Return how many turns of the source one of the code has, by what its counter adds."""
    counted = (code[i].text for i in loop_condition(code, segment) if code[i].opcode in _COUNTS)
    steps = [abs(int(n, 16)) for text in counted for n in _IMMEDIATE.findall(text)]
    return max((n for n in steps if n in (2, 4, 8, 16)), default=1)


def loop_overhead(code: Sequence[Instruction], segment: Segment) -> set[int]:
    """Return what a turn of a loop spends on turning: what decides on it, and all that counts on itself."""
    inside = [i for first, stop in segment.runs for i in range(first, stop)]
    counters = {i for i in inside if code[i].opcode in _COUNTS and set(code[i].writes) & set(code[i].reads)}
    return loop_condition(code, segment) | counters


def registers_written(code: Sequence[Instruction], indices: Iterable[int]) -> int:
    """Count the general registers that instructions write."""
    return len({r for i in indices for r in code[i].writes if r[:1] == "R" and r[1:].isdigit()})


def slowest(code: Sequence[Instruction]) -> set[int]:
    """Return what depends on the thread's place along the slowest of the dimensions that a kernel asks for."""
    text = "\n".join(x.text for x in code)
    along = next(d for d in "ZYX" if d == "X" or f"SR_CTAID.{d}" in text)
    return _from(code, (f"SR_CTAID.{along}", f"SR_TID.{along}"))


def _from(code: Sequence[Instruction], names: tuple[str, ...]) -> set[int]:
    """Return the instructions whose result, or whether they are done, depends on these registers."""
    along, found = set[str](), set[int]()
    for i in (*range(len(code)), *range(len(code))):  # twice: a loop brings values from its end to its beginning
        x = code[i]
        if any(name in x.text for name in names) or {*x.reads, x.guard.lstrip("@!")} & along:
            found.add(i)
            along |= set(x.writes)
        else:
            found.discard(i)
            along -= set(x.writes)
    return found


def same_for_rows(code: Sequence[Instruction]) -> set[int]:
    """Return the accesses whose address does not depend on the thread's x: neighbouring threads ask for the same."""
    return _same(code, ("SR_TID.X", "SR_LANEID"))


def same_for_all(code: Sequence[Instruction]) -> set[int]:
    """Return the accesses whose address does not depend on the thread, by its number or by what it has loaded."""
    return _same(code, ("SR_TID", "SR_LANEID", "LDG", "LDS"))


def _same(code: Sequence[Instruction], names: tuple[str, ...]) -> set[int]:
    along, found = set[str](), set[int]()
    for i in (*range(len(code)), *range(len(code))):  # twice: a loop brings values from its end to its beginning
        x = code[i]
        pointers = {r for o in x.operands if o.kind == "memory" for r in o.registers}
        if pointers and not pointers & along:
            found.add(i)
        elif pointers:
            found.discard(i)
        if any(name in x.text for name in names) or (set(x.reads) & along and x.kind in ADDRESS_KINDS):
            along |= set(x.writes)
        else:
            along -= set(x.writes)
    return found
