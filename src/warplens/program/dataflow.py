"""Dependence graph: the instructions that each instruction needs, inside an iteration and around a loop.

Everything an instruction uses or changes is a resource: a register, a predicate, a scoreboard, the order of
accesses to a memory space. Definitions that reach a use along the flow graph are its producers. Kinds of edges:

data        a general or uniform register
predicate   a predicate register, also as a guard
scoreboard  a wait for what an instruction released: its result, or its sources read
memory      loads and stores of one space in program order (a load does not wait for a load); addresses are not compared
barrier     accesses before a barrier and after it

Memory and barrier edges are those inside a block, and around a loop from a block to itself: between blocks the order
is that of the flow. An edge is `carried` by a loop when the definition reaches the use only by going around that loop.
A use has at most its 64 nearest producers: code with a thousand conditional writes to a register stays linear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from warplens.program.control_flow import Block, Flow, Loop, back_edges, flow_graph
from warplens.program.instruction import Instruction
from warplens.program.program import Program

EdgeKind = Literal["data", "predicate", "scoreboard", "memory", "barrier"]
_SPACES = ("global", "shared", "local")
_MOST_PRODUCERS = 64
_BARRIERS = frozenset(("BAR", "BARRIER", "MEMBAR", "WARPSYNC"))
_STORING = frozenset(
    ("ST", "STG", "STS", "STL", "RED", "REDG", "REDS", "ATOM", "ATOMG", "ATOMS", "STSM", "LDGSTS", "UBLKCP")
)
_SPACE_OF = {
    "LDG": ("global",), "STG": ("global",), "RED": ("global",), "REDG": ("global",), "ATOMG": ("global",),
    "LDS": ("shared",), "STS": ("shared",), "ATOMS": ("shared",), "REDS": ("shared",), "LDSM": ("shared",),
    "STSM": ("shared",), "LDL": ("local",), "STL": ("local",), "LDGSTS": ("global", "shared"),
    "LD": _SPACES, "ST": _SPACES, "ATOM": ("global", "shared"), "UBLKCP": ("global", "shared"),
}  # fmt: skip


class Edge(Struct, frozen=True):
    """`consumer` needs `producer` (indices of instructions) for `what`; around which loop (index), if around one."""

    producer: int
    consumer: int
    kind: EdgeKind
    what: str
    carried: int | None = None


class _Effects(Struct, frozen=True):
    """The resources that an instruction uses, those whose definitions it ends, and those that it defines."""

    uses: tuple[str, ...]
    kills: tuple[str, ...]
    defines: tuple[str, ...]


def dependences(program: Program, flow: Flow) -> list[Edge]:
    """Return all edges of a program, by consumer."""
    return list(_Reaching(program.instructions, flow).edges())


def _effects(x: Instruction) -> _Effects:
    uses, defines = list(x.reads), list(x.writes)
    kills = [] if x.guard else list(x.writes)  # a guarded write may leave the old value
    if x.control is not None:
        waits = [f"SB{board}" for board in x.control.waits]
        uses += waits
        kills += waits
        boards = {x.control.write_scoreboard, x.control.read_scoreboard} - {None}
        defines += [f"SB{board}" for board in sorted(b for b in boards if b is not None)]
    if x.opcode == "DEPBAR":  # waits until so many are left: the scoreboard stays in use
        uses += [o.text for o in x.operands if o.kind == "scoreboard"]
    if x.opcode in _BARRIERS:
        order = [f"{what} {space}" for what in ("load", "store") for space in _SPACES]
        return _Effects((*uses, *order), (*kills, *order), (*defines, *order))
    for space in _SPACE_OF.get(x.opcode, ()):
        uses.append(f"store {space}")
        if x.opcode in _STORING:
            uses.append(f"load {space}")
            kills += [] if x.guard else [f"store {space}", f"load {space}"]
            defines.append(f"store {space}")
        else:
            defines.append(f"load {space}")
    return _Effects(tuple(uses), tuple(kills), tuple(defines))


class _Reaching:
    """Reaching definitions: sets of definitions as the bits of a whole number, one pass per block to a fixed point."""

    def __init__(self, code: list[Instruction], flow: Flow) -> None:
        self.code, self.flow = code, flow
        self.effects = [_effects(x) for x in code]
        self.definitions = [(i, what) for i, e in enumerate(self.effects) for what in e.defines]
        self.of: dict[str, int] = {}  # resource -> its definitions
        self.first: list[int] = []  # instruction -> number of its first definition
        for number, (_, what) in enumerate(self.definitions):
            self.of[what] = self.of.get(what, 0) | 1 << number
        total = 0
        for e in self.effects:
            self.first.append(total)
            total += len(e.defines)
        self.memory = 0  # all definitions of a memory order
        for what, bits in self.of.items():
            if " " in what:
                self.memory |= bits

    def edges(self) -> Iterator[Edge]:
        blocks = self.flow.blocks
        defined = [self._through(block, 0) for block in blocks]
        kept = [self._through(block, -1) for block in blocks]  # which of all definitions pass through the block
        back = back_edges(self.flow)
        forward = self._solve(defined, kept, back)
        whole = self._solve(defined, kept, set())
        out = [defined[b.index] | whole[b.index] & kept[b.index] for b in blocks]
        carried = [self._around(loop, out, kept, back) for loop in self.flow.loops]
        for block in blocks:
            own, at = self._definitions(block), block.index
            loops = {n: c[at] & (own | ~self.memory) for n, c in enumerate(carried) if c.get(at)}
            yield from self._in_block(block, forward[at] & ~self.memory, loops)

    def _around(self, loop: Loop, out: list[int], kept: list[int], back: set[tuple[int, int]]) -> dict[int, int]:
        """Return the definitions that reach the start of each block of a loop by going around that loop."""
        inside = set(loop.blocks)
        at = {loop.header: 0}
        for source in loop.back_edge_sources:
            at[loop.header] |= out[source]
        changed = True
        while changed:
            changed = False
            for b in loop.blocks:
                passing = at.get(b, 0) & kept[b]
                for s in self.flow.blocks[b].successors if passing else ():
                    if s in inside and (b, s) not in back and passing & ~at.get(s, 0):
                        at[s] = at.get(s, 0) | passing
                        changed = True
        own = 0  # definitions inside the loop: those from outside are not carried by it
        for b in loop.blocks:
            own |= self._definitions(self.flow.blocks[b])
        return {b: bits & own for b, bits in at.items()}

    def _definitions(self, block: Block) -> int:
        """Return the definitions in a block."""
        end = self.first[block.last] + len(self.effects[block.last].defines)
        return (1 << end) - (1 << self.first[block.first])

    def _through(self, block: Block, reaching: int) -> int:
        """Return the definitions that reach the end of a block when `reaching` reach its start (-1: all)."""
        for i in range(block.first, block.last + 1):
            reaching = self._after(i, reaching) if reaching >= 0 else self._killed(i, reaching)
        return reaching

    def _killed(self, i: int, reaching: int) -> int:
        for what in self.effects[i].kills:
            reaching &= ~self.of.get(what, 0)
        return reaching

    def _after(self, i: int, reaching: int) -> int:
        count = len(self.effects[i].defines)
        return self._killed(i, reaching) | ((1 << count) - 1) << self.first[i]

    def _solve(self, defined: list[int], kept: list[int], without: set[tuple[int, int]]) -> list[int]:
        """Return the definitions that reach the start of every block along all edges but those `without`."""
        blocks = self.flow.blocks
        at = [0] * len(blocks)
        changed = True
        while changed:
            changed = False
            for block in blocks:
                out = defined[block.index] | at[block.index] & kept[block.index]
                for successor in block.successors:
                    if (block.index, successor) not in without and out & ~at[successor]:
                        at[successor] |= out
                        changed = True
        return at

    def _in_block(self, block: Block, forward: int, carried: dict[int, int]) -> Iterator[Edge]:
        for i in range(block.first, block.last + 1):
            for what in dict.fromkeys(self.effects[i].uses):
                here = self.of.get(what, 0)
                if not here:
                    continue
                for producer in self._instructions(forward & here):
                    yield self._edge(producer, i, what, None)
                for loop, bits in carried.items():
                    for producer in self._instructions(bits & here):
                        yield self._edge(producer, i, what, loop)
            forward = self._after(i, forward)
            carried = {loop: left for loop, bits in carried.items() if (left := self._killed(i, bits))}

    def _instructions(self, bits: int) -> Iterator[int]:
        for _ in range(_MOST_PRODUCERS):
            if not bits:
                return
            number = bits.bit_length() - 1  # the nearest first
            yield self.definitions[number][0]
            bits ^= 1 << number

    def _edge(self, producer: int, consumer: int, what: str, loop: int | None) -> Edge:
        kind: EdgeKind = "predicate" if what[0] == "P" or what[:2] == "UP" else "data"
        if what.startswith("SB"):
            kind = "scoreboard"
        elif " " in what:
            ordered = self.code[producer].opcode in _BARRIERS or self.code[consumer].opcode in _BARRIERS
            kind = "barrier" if ordered else "memory"
        return Edge(producer, consumer, kind, what, loop)


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
