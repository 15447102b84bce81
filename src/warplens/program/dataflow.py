"""Data flow of a program: dependences, live registers, and loops that wait.

An instruction depends on those whose results it uses, of registers (`data`) or of predicates (`predicate`, also as a
guard). Definitions that reach a use along the flow graph are its producers. An edge is `carried` by a loop when the
definition reaches the use only by going around that loop. A use has at most its 64 nearest producers: code with a
thousand conditional writes to a register stays linear.

A loop that waits is one that other warps, other blocks or a clock end. A few blocks that are emulated alone do not tell
how many iterations it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Literal

from msgspec import Struct

from warplens.program.control_flow import Block, Flow, back_edges, flow_graph
from warplens.program.instruction import Instruction
from warplens.program.program import Program

_MOST_PRODUCERS = 64


class Edge(Struct, frozen=True):
    """`consumer` needs `producer` (indices of instructions) for `what`; around which loop (index), if around one."""

    producer: int
    consumer: int
    kind: Literal["data", "predicate"]
    what: str
    carried: int | None = None


def dependences(program: Program, flow: Flow) -> list[Edge]:
    """Return all edges of a program, by consumer."""
    return list(_Reaching(program.instructions, flow).edges())


class _Reaching:
    """Reaching definitions: sets of definitions as the bits of a whole number, one pass per block to a fixed point."""

    def __init__(self, code: list[Instruction], flow: Flow) -> None:
        self.code, self.flow = code, flow
        self.producers = [i for i, x in enumerate(code) for _ in x.writes]
        self.of: dict[str, int] = {}  # register -> its definitions
        for number, what in enumerate(what for x in code for what in x.writes):
            self.of[what] = self.of.get(what, 0) | 1 << number
        # instruction -> the number of its first definition
        self.first = list(accumulate((len(x.writes) for x in code), initial=0))

    def edges(self) -> Iterator[Edge]:
        blocks, back = self.flow.blocks, back_edges(self.flow)
        defined, kept = [0] * len(blocks), [-1] * len(blocks)  # kept: which of all definitions pass through a block
        for block in blocks:
            for i in range(block.first, block.last + 1):
                defined[block.index] = self._after(i, defined[block.index])
                kept[block.index] = self._kept(i, kept[block.index])
        edges = [(block.index, successor) for block in blocks for successor in block.successors]
        onward = [edge for edge in edges if edge not in back]
        forward = self._spread([0] * len(blocks), defined, kept, onward)
        whole = self._spread([0] * len(blocks), defined, kept, edges)
        carried = list[list[int]]()
        for loop in self.flow.loops:
            start, inside = [0] * len(blocks), set(loop.blocks)
            for source in loop.back_edge_sources:
                start[loop.header] |= defined[source] | whole[source] & kept[source]
            own = sum(self._definitions(blocks[b]) for b in loop.blocks)  # those from outside are not carried by it
            within = [(a, b) for a, b in onward if a in inside and b in inside]
            carried.append([bits & own for bits in self._spread(start, [0] * len(blocks), kept, within)])
        for block in blocks:
            loops = {n: bits for n, at in enumerate(carried) if (bits := at[block.index])}
            yield from self._in_block(block, forward[block.index], loops)

    def _spread(self, start: list[int], defined: list[int], kept: list[int], edges: list[tuple[int, int]]) -> list[int]:
        """Return the definitions that reach the start of every block from some, along these edges."""
        at, changed = list(start), True
        while changed:
            changed = False
            for a, b in edges:
                if new := (defined[a] | at[a] & kept[a]) & ~at[b]:
                    at[b] |= new
                    changed = True
        return at

    def _definitions(self, block: Block) -> int:
        """Return the definitions in a block."""
        return (1 << self.first[block.last + 1]) - (1 << self.first[block.first])

    def _kept(self, i: int, reaching: int) -> int:
        if not self.code[i].guard:  # a guarded write may leave the old value
            for what in self.code[i].writes:
                reaching &= ~self.of[what]
        return reaching

    def _after(self, i: int, reaching: int) -> int:
        return self._kept(i, reaching) | (1 << self.first[i + 1]) - (1 << self.first[i])

    def _in_block(self, block: Block, forward: int, carried: dict[int, int]) -> Iterator[Edge]:
        for i in range(block.first, block.last + 1):
            for what in dict.fromkeys(self.code[i].reads):
                here = self.of.get(what, 0)
                kind: Literal["data", "predicate"] = "predicate" if what.startswith(("P", "UP")) else "data"
                for loop, bits in ((None, forward), *carried.items()) if here else ():
                    for producer in self._instructions(bits & here):
                        yield Edge(producer, i, kind, what, loop)
            forward = self._after(i, forward)
            carried = {loop: left for loop, bits in carried.items() if (left := self._kept(i, bits))}

    def _instructions(self, bits: int) -> Iterator[int]:
        for _ in range(_MOST_PRODUCERS):
            if not bits:
                return
            number = bits.bit_length() - 1  # the nearest first
            yield self.producers[number]
            bits ^= 1 << number


def live_registers(code: Sequence[Instruction], blocks: Sequence[Block]) -> list[int]:
    """Return how many general registers hold a value still needed, before each instruction."""
    general = [(0 if x.guard else _mask(x.writes), _mask(x.reads)) for x in code]  # a guarded write may keep the old
    entry = [0] * len(blocks)
    counts = [0] * len(code)
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            live = 0
            for successor in block.successors:
                live |= entry[successor]
            for i in range(block.last, block.first - 1, -1):
                written, read = general[i]
                live = live & ~written | read
                counts[i] = live.bit_count()
            if live != entry[block.index]:
                entry[block.index] = live
                changed = True
    return counts


def _mask(registers: tuple[str, ...]) -> int:
    """Return the general registers among some as the bits of a whole number."""
    return sum(1 << n for n in {int(name[1:]) for name in registers if name[0] == "R" and name[1:].isdigit()})


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
