"""Waiting loops: branches and loops that other warps, other blocks or a clock decide.

A few blocks that are emulated alone do not tell how many iterations such a loop takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warplens.program.control_flow import flow_graph
from warplens.program.instruction import Instruction
from warplens.program.program import Program

_COUNTS = ("ADD", "INC", "DEC")
_LEAVING = ("BRA", "EXIT", "BREAK", "BRX")
_ATOMICS = ("ATOM", "ATOMG")
_CLOCKS = ("SR_CLOCK", "SR_GLOBALTIMER")


def counter(program: Program) -> Instruction | None:
    """Return the atomic addition, within a loop, whose result decides whether the loop goes on; None without one.

    Blocks take their work from it: `while ((i = atomicAdd(next, 1)) < n)`. Each of a few blocks that run alone finds
    all of the work left and does it.
    """
    adds = (x for x in program.instructions if x.opcode in _ATOMICS and x.writes and _counts(x))
    return next((x for x, loop in _in_loops(program, [*adds]) if _decides(x, loop)), None)


def spins(program: Program) -> list[Instruction]:
    """Return the accesses to one address that a loop repeats until others have written there.

    These are loads that bypass L1 (volatile ones, and those that acquire) and atomics that do not count, at an address
    that the loop does not change: flags, locks, barriers of a grid, sums by compare-and-swap.
    """
    asks = [x for x in program.instructions if x.writes and (_bypasses(x) or (x.opcode in _ATOMICS and not _counts(x)))]
    return [x for x, loop in _in_loops(program, asks) if _stays(x, loop) and _decides(x, loop)]


def clocked(program: Program) -> tuple[list[Instruction], list[Instruction]]:
    """Return the reads of a clock on which a branch depends; in a second list, those only in waits for an mbarrier."""
    code = program.instructions
    reads = [x for x in code if _reads_clock(x) and _decides(x, code)]
    smallest = dict[int, list[Instruction]]()  # loop around each question for the phase of an mbarrier
    for x, loop in _in_loops(program, [x for x in code if reads and _tries(x)]):
        smallest[x.offset] = min(loop, smallest.get(x.offset, loop), key=len)
    waits = {id(y) for loop in smallest.values() for y in loop if y.opcode in _LEAVING}
    others = [x for x in code if id(x) not in waits]
    asked = [x for x in reads if _decides(x, others)]
    return asked, [x for x in reads if not any(x is y for y in asked)]


def idles(loop: Sequence[Instruction]) -> bool:
    """Return whether a loop only waits: for a clock, for an mbarrier, or until others have written."""
    asks = [x for x in loop if _reads_clock(x) or _tries(x) or (x.writes and _bypasses(x) and _stays(x, loop))]
    return any(_decides(x, loop) for x in asks)


def _reads_clock(x: Instruction) -> bool:
    return any(o.kind == "special" and o.text.startswith(_CLOCKS) for o in x.operands)


def _tries(x: Instruction) -> bool:
    """Return whether an instruction asks for the phase of an mbarrier."""
    return x.opcode == "SYNCS" and "PHASECHK" in x.modifiers


def _in_loops(program: Program, found: list[Instruction]) -> Iterator[tuple[Instruction, list[Instruction]]]:
    """Yield these instructions, each with the code of every loop that it is in."""
    if not found:
        return
    flow, code = flow_graph(program), program.instructions
    for loop in flow.loops:
        blocks = [flow.blocks[k] for k in sorted(loop.blocks)]
        inside = [code[i] for block in blocks for i in range(block.first, block.last + 1)]
        yield from ((x, inside) for x in found if any(x is y for y in inside))


def _counts(x: Instruction) -> bool:
    return any(m in _COUNTS for m in x.modifiers)


def _bypasses(x: Instruction) -> bool:
    return x.opcode in ("LD", "LDG") and "STRONG" in x.modifiers


def _stays(x: Instruction, loop: Sequence[Instruction]) -> bool:
    """Return whether the address of an access is the same in each iteration of a loop."""
    address = {r for o in x.operands if o.kind == "memory" for r in o.registers}
    written = {r for y in loop for r in y.writes}
    return all(written.isdisjoint(y.reads) for y in loop if address & set(y.writes))


def _decides(source: Instruction, code: Sequence[Instruction]) -> bool:
    """Return whether a result reaches the guard of a branch of this code, through shared memory too."""
    known, shared = set[str](), False
    for x in (*code, *code):
        if x.opcode in _LEAVING and known & set(x.reads):
            return True
        from_shared = shared and x.opcode in ("LDS", "LDSM")
        if x is source or from_shared or known & set(x.reads):
            known |= set(x.writes)
            shared |= x.opcode == "STS"
        elif not x.guard:
            known -= set(x.writes)
    return False
