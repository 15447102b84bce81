"""ILP and MLP of machine code (Sim et al. 2012 §5.3): what may issue together, how many accesses before the first use.

Only the order of instructions and their registers count: no machine and no latency has a part in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from warplens.machine import KINDS
from warplens.program.control_flow import basic_blocks
from warplens.program.instruction import Instruction
from warplens.program.program import Program


def parallelism(code: Sequence[Instruction]) -> tuple[float, float]:
    """Return ILP (instructions over groups that can issue together) and MLP (accesses until the first use)."""
    groups, written = 1, set[str]()
    for instruction in code:
        if not written.isdisjoint(instruction.reads) or not written.isdisjoint(instruction.writes):
            groups += 1
            written = set()
        written.update(instruction.writes)
    memory = [i for i, x in enumerate(code) if KINDS[x.kind] == "memory system"]
    if not memory:
        return len(code) / groups, 1.0
    local, next_read, at = list[int](), dict[str, int](), len(memory)
    for i in range(len(code) - 1, memory[0] - 1, -1):
        if at and memory[at - 1] == i:
            at -= 1
            if code[i].writes:
                use = min(next_read.get(r, len(code)) for r in code[i].writes)
                local.append(bisect_left(memory, use) - at)
        next_read.update(dict.fromkeys(code[i].reads, i))
    return len(code) / groups, sum(local) / len(local) if local else 1.0


def mean_parallelism(program: Program, executed: Sequence[float]) -> tuple[float, float]:
    """Return ILP and MLP of a program, its basic blocks weighted by how often their instructions run."""
    total, ilp, mlp = 0.0, 0.0, 0.0
    for block in basic_blocks(program):
        weight = (block.last - block.first + 1) * executed[block.first]
        if weight:
            here = parallelism(program.instructions[block.first : block.last + 1])
            total, ilp, mlp = total + weight, ilp + weight * here[0], mlp + weight * here[1]
    return (ilp / total, mlp / total) if total else (0.0, 0.0)
