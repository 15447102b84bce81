"""Disassembly text to instructions: the output of nvdisasm or cuobjdump, or a hand-written listing.

Control codes are not in the text; they are read from the machine code (`warplens.frontend.cubin`).
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from warplens.frontend.operands import parse_operand, reads_and_writes, split_operands
from warplens.kernel.instruction import Control, Instruction, Operand

_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_LABEL = re.compile(r"^([^\s/].*?):(?:\s|$)")
_SECTION = re.compile(r'^\s*\.section\s+"?\.text\.(.+?)"?,"')
_LINE = re.compile(r'^\s*//## File "(.*?)", line (\d+)')
_TARGETS = re.compile(r"BRANCH_TARGETS ([^\"]*)")
_GUARDED = re.compile(r"^(@!?U?P\w+)\s+")


class Function(Struct, frozen=True):
    """The instructions of one code section, with its labels and the targets of its branches."""

    name: str
    arch: str
    instructions: list[Instruction]
    labels: dict[str, int]
    jump_targets: dict[int, tuple[int, ...]]
    files: dict[int, str]


@lru_cache(maxsize=131072)
def decode_text(text: str) -> tuple[str, str, tuple[str, ...], tuple[Operand, ...], tuple[str, ...], tuple[str, ...]]:
    """Return (guard, opcode, modifiers, operands, reads, writes) of an instruction's text."""
    guard = ""
    match = _GUARDED.match(text)
    if match:
        guard, text = match.group(1), text[match.end() :]
    head, _, rest = text.partition(" ")
    opcode, *modifiers = head.split(".")
    rest = rest.partition("(*")[0].strip()
    operands = tuple(parse_operand(part) for part in split_operands(rest) if part)
    mods = tuple(modifiers)
    reads, writes = reads_and_writes(opcode, mods, operands, guard)
    return guard, opcode, mods, operands, reads, writes


def parse_disassembly(text: str) -> list[Function]:
    """Parse the output of `nvdisasm -c` (with or without -g) into functions, one per code section."""
    arch = ""
    functions: list[Function] = []
    rows: list[tuple[int, str, int | None]] = []
    labels: dict[str, int] = {}
    pending: list[str] = []
    files: dict[int, str] = {}
    name: str | None = None
    line: int | None = None
    for row in text.splitlines():
        found = _INSTRUCTION.match(row)
        if found:
            offset = int(found.group(1), 16)
            labels.update(dict.fromkeys(pending, offset))
            pending.clear()
            rows.append((offset, found.group(2), line))
            continue
        if row.startswith("\t.target") or row.lstrip().startswith(".target"):
            arch = row.split()[1].rstrip(",")
            continue
        where = _LINE.match(row)
        if where:
            line = int(where.group(2))
            files[line] = where.group(1)
            continue
        section = _SECTION.match(row)
        if section:
            if name is not None and rows:
                functions.append(_function(name, arch, rows, labels, files))
            name, rows, labels, pending, files, line = section.group(1), [], {}, [], {}, None
            continue
        label = _LABEL.match(row)
        if label:
            pending.append(label.group(1))
    if rows:
        functions.append(_function(name or "listing", arch, rows, labels, files))
    return functions


def _function(
    name: str, arch: str, rows: list[tuple[int, str, int | None]], labels: dict[str, int], files: dict[int, str]
) -> Function:
    instructions, jumps = [], {}
    for offset, text, line in rows:
        guard, opcode, modifiers, operands, reads, writes = decode_text(text)
        target = None
        if "`(" in text:
            label = text[text.rindex("`(") + 2 :].split(")")[0]
            target = labels.get(label)
        elif "BRANCH_TARGETS" in text:
            found = _TARGETS.search(text)
            if found:
                jumps[offset] = tuple(labels[t.strip()] for t in found.group(1).split(",") if t.strip() in labels)
        instructions.append(
            Instruction(
                text=text, opcode=opcode, kind="", writes=writes, reads=reads, modifiers=modifiers, guard=guard,
                operands=operands, offset=offset, target=target, line=line,
            )
        )  # fmt: skip
    return Function(name, arch, instructions, dict(labels), jumps, dict(files))


def control_of(high_word: int) -> Control:
    """Decode the control field from the upper 64 bits of an instruction."""
    write, read = high_word >> 46 & 7, high_word >> 49 & 7
    return Control(
        stall=high_word >> 41 & 15,
        yields=not high_word >> 45 & 1,
        write_scoreboard=None if write == 7 else write,
        read_scoreboard=None if read == 7 else read,
        wait_mask=high_word >> 52 & 63,
        reuse=high_word >> 58 & 15,
    )


def hidden_descriptor(arch: str, instruction: Instruction, low_word: int, high_word: int) -> tuple[str, ...]:
    """Return the uniform registers that an access reads on sm_80 to sm_89 and the text does not show.

    Global accesses with the uniform bit (0x800) take a memory descriptor from a pair of uniform registers;
    from sm_90 on the disassembler writes it as desc[UR4]. 63 is URZ.
    """
    if (
        not arch.startswith("sm_8")
        or not low_word & 0x800
        or "desc" in instruction.text
        or instruction.kind == "shared"
    ):
        return ()
    if not any(o.kind == "memory" and ".64" in o.text for o in instruction.operands):
        return ()
    first = (low_word >> 32 if instruction.opcode in ("LDG", "LD") else high_word) & 63
    return () if first == 63 else (f"UR{first}", f"UR{first + 1}")
