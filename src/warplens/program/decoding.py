"""The texts of instructions to instructions: guard, opcode, modifiers, class, operands, registers read and written.

The texts of a listing are taken together and their operands laid end to end, so that what does not depend on the
instruction is done once for all of them. What is known of a mnemonic, of an operand and of the shape of an
instruction is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain

from warplens.program.instruction import Instruction
from warplens.program.instruction_classes import classified
from warplens.program.listing import INSTRUCTION, flat, split_operands
from warplens.program.operands import parse_operand
from warplens.program.register_use import TEXTURE, accesses, by_mask, components, group

_PREDICATE = re.compile(r"\b(?:UP|P)\d+\b")
_MOST_OPERANDS = 32

# Guard, the predicates in it, opcode, modifiers, class.
_Head = tuple[str, tuple[str, ...], str, tuple[str, ...], str]


def decode_text(text: str) -> Instruction | None:
    """Return what an instruction's text says, wherever it stands; None for text that is no instruction."""
    return decode_texts([text]).get(text)


def decode_texts(texts: Iterable[str]) -> dict[str, Instruction]:
    """Return what the texts of instructions say, wherever they stand; what is no instruction is left out."""
    heads: dict[str, _Head] = {}
    rests: list[str] = []
    for text in dict.fromkeys(texts):
        head, _, rest = text.partition(" ")
        if head.startswith("@"):
            mnemonic, _, rest = rest.partition(" ")
            head = f"{head} {mnemonic}"
        known = _head(head)
        if known is None:  # other blanks, or no instruction
            match = INSTRUCTION.fullmatch(text)
            known = _head(text[: match.end(3)]) if match else None
            if match is None or known is None:
                continue
            rest = match.group(4) or ""
        heads[text] = known
        rests.append(rest.partition("(*")[0].strip() if "(*" in rest else rest)
    parts, counts = _operands(rests)
    return _put_together(heads, counts, parts)


@lru_cache(maxsize=16384)
def _head(text: str) -> _Head | None:
    """Return what stands before the operands; None where more than that is in the text."""
    match = INSTRUCTION.fullmatch(text)
    if match is None or match.group(4) is not None:
        return None
    guard, opcode, dotted, _ = match.groups()
    modifiers = tuple(dotted.split(".")[1:])
    predicates = tuple(_PREDICATE.findall(guard)) if guard else ()
    return f"@{guard}" if guard else "", predicates, opcode, modifiers, classified(opcode, modifiers)


def _operands(rests: list[str]) -> tuple[list[str], list[int]]:
    """Return the operands of all instructions, end to end, and how many each has."""
    together = ", ".join(filter(None, rests))
    if flat(together):  # as a disassembler writes them
        counts = [rest.count(", ") + 1 if rest else 0 for rest in rests]
        if max(counts, default=0) <= _MOST_OPERANDS:
            return together.split(", ") if together else [], counts
    each = [[part for part in split_operands(rest)[:_MOST_OPERANDS] if part] for rest in rests]
    return list(chain.from_iterable(each)), [len(parts) for parts in each]


def _put_together(heads: dict[str, _Head], counts: list[int], parts: list[str]) -> dict[str, Instruction]:
    """Make the instructions of their heads and of their operands, which are laid end to end."""
    found = [parse_operand(part) for part in parts]
    operands = tuple([operand for operand, _, _ in found])
    shapes = tuple([shape for _, shape, _ in found])
    registers = [names for _, _, names in found]
    made: dict[str, Instruction] = {}
    end = 0
    for (text, (guard, reads, opcode, modifiers, kind)), count in zip(heads.items(), counts, strict=True):
        first, end = end, end + count
        mine = operands[first:end]
        writes: tuple[str, ...] = ()
        read, written = accesses(opcode, modifiers, shapes[first:end], components(mine) if opcode in TEXTURE else 0)
        for place, widths in read:
            names = registers[first + place]
            reads += group(names, widths) if widths else names
        for place, widths in written:
            names = registers[first + place]
            writes += group(names, widths) if widths else names
        if opcode in ("P2R", "UP2UR"):
            reads += by_mask(mine)
        elif opcode in ("R2P", "UR2UP"):
            writes += by_mask(mine)
        if len(reads) > 1 and len(set(reads)) < len(reads):
            reads = tuple(dict.fromkeys(reads))
        if len(writes) > 1 and len(set(writes)) < len(writes):
            writes = tuple(dict.fromkeys(writes))
        made[text] = Instruction(text, opcode, kind, writes, reads, modifiers=modifiers, guard=guard, operands=mine)
    return made
