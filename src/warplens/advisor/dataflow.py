"""Data flow of a kernel's code: instructions for addresses, for loops, and those that depend on loaded data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from warplens.machine import KINDS
from warplens.program.dataflow import idles
from warplens.program.instruction import Instruction
from warplens.workload.profile import Segment

ADDRESS_KINDS = frozenset(("int", "imul", "imul_wide", "uniform", "constant"))
_COUNTS = ("IADD3", "VIADD", "UIADD3", "IADD", "LEA")
_IMMEDIATE = re.compile(r"-?0x[0-9a-f]+")
_WALK = 4  # accesses from one pointer, from which they read a row, not a record
_CONTROL_KINDS = frozenset(("branch", "exit", "barrier"))
_MEMORY = ("memory system", "shared memory")


def twice(code: Sequence[Instruction]) -> Iterator[tuple[int, Instruction]]:
    """Yield all instructions with their numbers, then once more: values are carried around loops."""
    return chain(enumerate(code), enumerate(code))


def inside(segment: Segment) -> list[int]:
    """Return the numbers of the instructions of a segment."""
    return [i for first, stop in segment.runs for i in range(first, stop)]


def control_flow(code: Sequence[Instruction]) -> set[int]:
    """Return the branches, exits and barriers."""
    return {i for i, x in enumerate(code) if x.kind in _CONTROL_KINDS}


def is_register(name: str) -> bool:
    """Return True for a general register."""
    return name[:1] == "R" and name[1:].isdigit()


def pointers(x: Instruction) -> list[str]:
    """Return the registers that the address of an access is written with."""
    return [r for o in x.operands if o.kind == "memory" for r in o.registers]


def addressing(x: Instruction) -> set[str]:
    """Return all registers of the address of an access: with descriptors, and the upper halves of 64-bit addresses."""
    found = {r for o in x.operands if o.kind == "memory" for r in (*o.registers, *o.descriptor)}
    return found | {f"R{int(r[1:]) + 1}" for r in found if is_register(r)}


def address_instructions(code: Sequence[Instruction]) -> set[int]:
    """Return the integer instructions whose results lead only to addresses, branches and guards.

    From the end to the beginning: a register needed as an address makes its producers address instructions. The end of
    a loop needs what its beginning needs, such as a pointer that is counted up: repeated until nothing is added.
    """
    at = {x.offset: i for i, x in reversed(list(enumerate(code)))}  # copies are appended, with equal offsets
    needed: dict[int, tuple[set[str], set[str]]] = {}  # before an instruction: as addresses, as values
    found, before = set[int](), -1
    while len(found) > before:
        before = len(found)
        addresses, values = set[str](), set[str]()
        for i in range(len(code) - 1, -1, -1):
            x = code[i]
            head = at.get(x.target, i + 1) if x.target is not None else i + 1
            if head <= i and head in needed:
                addresses, values = addresses | needed[head][0], values | needed[head][1]
            if _leads_to_address(x, addresses, values):
                found.add(i)
            needed[i] = set(addresses), set(values)
    return found


def freed(code: Sequence[Instruction], removed: set[int]) -> set[int]:
    """Return the address instructions that are unused once some accesses are gone."""
    nothing = Instruction("NOP", "NOP", "int")
    left = [replace(nothing, offset=x.offset) if i in removed else x for i, x in enumerate(code)]
    return address_instructions(code) - address_instructions(left)


def _leads_to_address(x: Instruction, addresses: set[str], values: set[str]) -> bool:
    """Return True if an instruction computes addresses or conditions; add its operands to the registers needed."""
    for_address, for_value = bool(set(x.writes) & addresses), bool(set(x.writes) & values)
    if x.kind in ADDRESS_KINDS and x.writes and not for_address and not for_value:
        return False  # not needed so far
    addresses -= set(x.writes)
    values -= set(x.writes)
    if x.kind in _CONTROL_KINDS or (for_address and not for_value and x.kind in ADDRESS_KINDS):
        addresses |= set(x.reads)
        return True
    address, guard = addressing(x), {x.guard.lstrip("@!")} if x.guard else set[str]()
    addresses |= guard | (address if KINDS[x.kind] in _MEMORY else set())
    values |= set(x.reads) - address - guard
    return False


def indirect(code: Sequence[Instruction], executed: Sequence[float]) -> set[int]:
    """Return the accesses whose addresses are computed from values that are loaded as often: gathers and scatters.

    A pointer or the beginning of a row that is loaded once and then counted up does not make an access indirect, nor
    does one from which a thread reads a row.
    """
    loaded, found = dict[str, float](), set[int]()  # how often a value that a register depends on is loaded
    for i, x in twice(code):
        if KINDS[x.kind] == "memory system":
            often = max((loaded.get(r, 0.0) for r in pointers(x)), default=0.0)
            if executed[i] and often >= 0.5 * executed[i]:
                found.add(i)
        if x.opcode in ("LDG", "LD"):
            often = executed[i]
        else:
            often = max((loaded.get(r, 0.0) for r in x.reads), default=0.0) if x.kind in ADDRESS_KINDS else 0.0
        loaded |= dict.fromkeys(x.writes, often)
    return found - _walks(code)


def _walks(code: Sequence[Instruction]) -> set[int]:
    """Return the accesses that share a pointer with others: those of a row."""
    written, groups = dict[str, int](), dict[tuple[str, int], set[int]]()
    for i, x in enumerate(code):
        if KINDS[x.kind] == "memory system":
            for pointer in pointers(x):
                groups.setdefault((pointer, written.get(pointer, -1)), set()).add(i)
        written |= dict.fromkeys(x.writes, i)
    return {i for group in groups.values() if len(group) >= _WALK for i in group}


def from_data(code: Sequence[Instruction], executed: Sequence[float]) -> set[int]:
    """Return the instructions whose results depend on values that are loaded as often, through conditions too.

    Values at the end of a loop are those at its beginning.
    """
    heads = {loop.stop - 1: loop.start for loop in loops_of(code)}
    left: dict[int, dict[str, float]] = {}
    loaded, found = dict[str, float](), set[int]()
    for i, x in twice(code):
        for r, often in left.get(i, {}).items():
            loaded[r] = max(often, loaded.get(r, 0.0))
        often = max((loaded.get(r, 0.0) for r in (*x.reads, x.guard.lstrip("@!"))), default=0.0)
        if KINDS[x.kind] in _MEMORY:
            often = executed[i]
        elif executed[i] and often >= 0.5 * executed[i]:
            found.add(i)
        loaded |= dict.fromkeys(x.writes, often)
        if i in heads:
            left[heads[i]] = dict(loaded)
    return found


def loops_of(code: Sequence[Instruction]) -> list[range]:
    """Return the loops of the code: from the target of a backward branch to the branch."""
    at = {x.offset: i for i, x in reversed(list(enumerate(code)))}  # copies are appended, with equal offsets
    heads = ((at.get(x.target, i + 1), i) for i, x in enumerate(code) if x.target is not None and x.opcode == "BRA")
    return [range(head, i + 1) for head, i in heads if head < i]  # a jump to itself fills the end of a kernel


def waiting(code: Sequence[Instruction]) -> set[int]:
    """Return the instructions that only wait: sleeps, and innermost loops on a clock or on other threads."""
    loops = loops_of(code)
    inner = [a for a in loops if not any(b != a and b.start >= a.start and b.stop <= a.stop for b in loops)]
    found = {i for loop in inner if idles([code[i] for i in loop]) for i in loop}
    return found | {i for i, x in enumerate(code) if x.opcode == "NANOSLEEP"}


def loop_condition(code: Sequence[Instruction], segment: Segment) -> set[int]:
    """Return the instructions that decide on another iteration: the branch, its condition, the counter in it."""
    numbers = inside(segment)
    found = {i for i in numbers if code[i].opcode in ("BRA", "UBRA") and i == max(numbers)}
    asked = {code[i].guard.lstrip("@!") for i in found}
    for i in reversed(numbers):
        x = code[i]
        if set(x.writes) & asked and x.opcode in ("ISETP", "UISETP"):
            found.add(i)
            asked |= set(x.reads)
        elif set(x.writes) & asked and x.opcode in _COUNTS and set(x.writes) & set(x.reads):
            found.add(i)
    return found


def iterations_at_once(code: Sequence[Instruction], segment: Segment) -> int:
    """Return how many iterations of the source one of the code has, by the step of its counter."""
    counted = (code[i].text for i in loop_condition(code, segment) if code[i].opcode in _COUNTS)
    steps = [abs(int(n, 16)) for text in counted for n in _IMMEDIATE.findall(text)]
    return max((n for n in steps if n in (2, 4, 8, 16)), default=1)


def loop_overhead(code: Sequence[Instruction], segment: Segment) -> set[int]:
    """Return the instructions of an iteration that only count and branch: its condition, and all counters."""
    counters = {i for i in inside(segment) if code[i].opcode in _COUNTS and set(code[i].writes) & set(code[i].reads)}
    return loop_condition(code, segment) | counters


def registers_written(code: Sequence[Instruction], indices: Iterable[int]) -> int:
    """Count the general registers that instructions write."""
    return len({r for i in indices for r in code[i].writes if is_register(r)})


def slowest(code: Sequence[Instruction]) -> set[int]:
    """Return the instructions that depend on the thread's index in the slowest dimension that a kernel reads."""
    text = "\n".join(x.text for x in code)
    along = next(d for d in "ZYX" if d == "X" or f"SR_CTAID.{d}" in text)
    names = f"SR_CTAID.{along}", f"SR_TID.{along}"

    def depends(x: Instruction, on: set[str]) -> bool:
        return any(name in x.text for name in names) or not on.isdisjoint((*x.reads, x.guard.lstrip("@!")))

    found = {i: depends(x, on) for i, x, on in _dependent(code, depends)}
    return {i for i, is_dependent in found.items() if is_dependent}


def same_for_rows(code: Sequence[Instruction]) -> set[int]:
    """Return the accesses whose address does not depend on the thread's x: the same for neighbouring threads."""
    return _same(code, ("SR_TID.X", "SR_LANEID"))


def same_for_all(code: Sequence[Instruction]) -> set[int]:
    """Return the accesses whose address depends neither on the thread's index nor on loaded values."""
    return _same(code, ("SR_TID", "SR_LANEID", "LDG", "LDS"))


def _same(code: Sequence[Instruction], names: tuple[str, ...]) -> set[int]:
    """Return the accesses whose address does not depend on instructions with these names."""

    def depends(x: Instruction, on: set[str]) -> bool:
        return any(name in x.text for name in names) or (x.kind in ADDRESS_KINDS and not on.isdisjoint(x.reads))

    found = {i: on.isdisjoint(pointers(x)) for i, x, on in _dependent(code, depends) if pointers(x)}
    return {i for i, is_same in found.items() if is_same}


def _dependent(
    code: Sequence[Instruction], depends: Callable[[Instruction, set[str]], bool]
) -> Iterator[tuple[int, Instruction, set[str]]]:
    """Yield all instructions twice, each with the registers that hold results of dependent ones before it."""
    on = set[str]()
    for i, x in twice(code):
        yield i, x, on
        if depends(x, on):
            on.update(x.writes)
        else:
            on.difference_update(x.writes)
