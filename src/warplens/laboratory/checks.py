"""Compilation of measuring kernels, and a check of their machine code by our own front end.

A kernel that fails is named with what was wanted and what was found. Nothing here needs a GPU.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from warplens.core.errors import WarplensError
from warplens.laboratory.patches import patched
from warplens.laboratory.source import Kernel, source_of
from warplens.program import Options, load_programs
from warplens.program.compile import compile_file
from warplens.program.control_flow import flow_graph
from warplens.program.instruction import Instruction
from warplens.program.program import Program
from warplens.program.toolchain import wheels_if_there

# Accesses to memory that no kernel makes in its timed loop unless it says so.
_MEMORY = re.compile(r"(LD|ST|LDG|STG|LDL|STL|ATOM|ATOMG|RED|REDG|LDGSTS)(\.|$)")
_LOCAL = ("LDL", "STL")
_REGISTER = re.compile(r"\bR\d+\b")


class CheckError(WarplensError):
    """Machine code that is not what a measurement means: kernel, wanted, found."""


def compiled(kernels: list[Kernel], arch: str) -> tuple[bytes, list[str]]:
    """Compile kernels of one architecture into a cubin; return it with the tools that made it."""
    targets = {kernel.target(arch) for kernel in kernels}
    if len(targets) != 1:
        raise CheckError(f"kernels for several architectures in one file: {', '.join(sorted(targets))}")
    with tempfile.TemporaryDirectory(prefix="warplens-") as folder:
        file = Path(folder) / f"{kernels[0].name}.cu"
        file.write_text(source_of(kernels))
        result = compile_file(file, Options(arch=targets.pop(), toolkit=wheels_if_there()), Path(folder))
        return patched(kernels, result.cubin.read_bytes()), result.tools


def checked(kernels: list[Kernel], cubin: bytes) -> dict[str, Program]:
    """Load every kernel of a cubin and check it; return the programs by name."""
    with tempfile.TemporaryDirectory(prefix="warplens-") as folder:
        file = Path(folder) / "kernels.cubin"
        file.write_bytes(cubin)
        programs = load_programs(file)
    for kernel in kernels:
        if kernel.name not in programs:
            raise CheckError(f"{kernel.name}: wanted in the cubin, found {', '.join(list(programs)[:5])}")
        check(kernel, programs[kernel.name])
    return programs


def check(kernel: Kernel, program: Program) -> None:
    """Raise a `CheckError` where the machine code of a kernel is not as it expects."""
    name, code = f"{kernel.name} for {program.arch}", program.instructions
    spilled = [i.name for i in code if i.opcode in _LOCAL] or (
        ["a stack frame"] if program.resources.frame_bytes else []
    )
    if spilled and not kernel.expect.local:
        raise CheckError(f"{name}: wanted no local memory, found {spilled[0]}")
    timed = timed_loop(kernel, program)
    found = Counter(dict.fromkeys(kernel.expect.inside, 0))
    others: Counter[str] = Counter()
    for instruction in timed:
        pattern = next((p for p in kernel.expect.inside if re.fullmatch(p, instruction.name)), None)
        if pattern is None:
            others[instruction.name] += 1
        else:
            found[pattern] += 1
    for pattern, wanted in kernel.expect.inside.items():
        if not wanted <= found[pattern] <= wanted + kernel.expect.over:
            raise CheckError(
                f"{name}: wanted {wanted} of {pattern} in the timed loop, found {found[pattern]} among {_listed(timed)}"
            )
    stray = [n for n in others if _MEMORY.match(n)]
    if stray and not kernel.expect.stray_memory:
        raise CheckError(f"{name}: wanted no other memory access in the timed loop, found {stray[0]}")
    if others.total() > kernel.expect.others_at_most:
        most = ", ".join(f"{count} {n}" for n, count in others.most_common(6))
        raise CheckError(f"{name}: wanted at most {kernel.expect.others_at_most} further instructions, found {most}")
    if not kernel.expect.conflicts:
        clashes = [i.text for i in bank_conflicts(timed) if any(re.fullmatch(p, i.name) for p in kernel.expect.inside)]
        if len(clashes) > kernel.facts.get("chains", 1):  # where the loop begins anew, no chain's operands are kept
            found_ones = f"{len(clashes)}, such as {clashes[0]}"
            raise CheckError(f"{name}: wanted no conflicts of register banks in the timed loop, found {found_ones}")


def bank_conflicts(code: Iterable[Instruction]) -> Iterator[Instruction]:
    """Yield the instructions that read more registers of one bank, even or odd, than they would have to.

    What the instruction before kept for reuse at the same place is not read again. Of operands of 64 bits and more half
    lies in each bank.
    """
    kept = set[tuple[int, str]]()
    for instruction in code:
        read = {int(r[1:]) for r in instruction.reads if _REGISTER.fullmatch(r)}
        placed = [(n, _REGISTER.search(o.text)) for n, o in enumerate(instruction.operands)]
        for n, found in placed:
            if found and (n, found[0]) in kept and (number := int(found[0][1:])) ^ 1 not in read:
                read.discard(number)
        odd = sum(number % 2 for number in read)
        if max(odd, len(read) - odd) > (len(read) + 1) // 2:
            yield instruction
        kept = {(n, found[0]) for n, found in placed if found and ".reuse" in instruction.operands[n].text}


def timed_loop(kernel: Kernel, program: Program) -> list[Instruction]:
    """Return the instructions of the timed loop: the innermost one that holds most of what was meant."""
    code = program.instructions
    if not kernel.expect.loop:
        return code
    flow, best, most = flow_graph(program), list[Instruction](), 0
    outer = {loop.parent for loop in flow.loops}
    for loop in (one for n, one in enumerate(flow.loops) if n not in outer):
        body = [i for b in loop.blocks for i in code[flow.blocks[b].first : flow.blocks[b].last + 1]]
        meant = sum(any(re.fullmatch(p, i.name) for p in kernel.expect.inside) for i in body)
        if meant > most:
            best, most = body, meant
    if not best:
        raise CheckError(
            f"{kernel.name} for {program.arch}: wanted a loop with {' and '.join(kernel.expect.inside)}, found none"
        )
    return best


def _listed(code: list[Instruction]) -> str:
    return ", ".join(f"{count} {name}" for name, count in Counter(i.name for i in code).most_common(6))
