"""Blocks that take their work from a counter: `while ((i = atomicAdd(next, 1)) < n)`.

Each of a few blocks that run alone finds all of the work left and does it: what they do says nothing of the grid.
"""

from __future__ import annotations

from collections.abc import Sequence

from warplens.kernel.flow import flow_graph
from warplens.kernel.instruction import Instruction
from warplens.kernel.program import Program

_COUNTS = ("ADD", "INC", "DEC")
_WAYS = ("BRA", "EXIT", "BREAK", "BRX")


def counter(program: Program) -> Instruction | None:
    """Return the atomic addition, within a loop, whose result decides whether the loop goes on; None without one."""
    code = program.instructions
    found = [i for i, x in enumerate(code) if x.opcode in ("ATOM", "ATOMG") and x.writes and _counts(x)]
    if not found:
        return None
    flow = flow_graph(program)
    for loop in flow.loops:
        blocks = [flow.blocks[k] for k in sorted(loop.blocks)]
        inside = [i for block in blocks for i in range(block.first, block.last + 1)]
        for i in found:
            if i in inside and _decides(code[i], [code[k] for k in inside]):
                return code[i]
    return None


def _counts(x: Instruction) -> bool:
    return any(m in _COUNTS for m in x.modifiers)


def _decides(source: Instruction, loop: Sequence[Instruction]) -> bool:
    """Whether what an instruction writes reaches the guard of a branch of its loop, through shared memory too."""
    known, shared = set[str](), False
    for x in (*loop, *loop):
        if x.opcode in _WAYS and known & set(x.reads):
            return True
        from_shared = shared and x.opcode in ("LDS", "LDSM")
        if x is source or from_shared or known & set(x.reads):
            known |= set(x.writes)
            shared |= x.opcode == "STS"
        elif not x.guard:
            known -= set(x.writes)
    return False
