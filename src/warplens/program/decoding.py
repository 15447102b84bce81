"""Decoder of instruction texts: guard, opcode, modifiers, class, operands, registers read and written.

The texts of a listing are decoded together, their operands joined end to end, so that what does not depend on the
instruction is done once for all of them. What is known of a mnemonic, of an operand and of the shape of an
instruction is kept.

To add the decoding of an instruction: its class in files/classes.toml, the rules of its registers in
files/operands.toml and `warplens.program.register_use`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain

from warplens.program.instruction import Instruction, classified, parse_operand
from warplens.program.listing import INSTRUCTION, flat, split_operands
from warplens.program.register_use import TEXTURE, accesses, by_mask, components, group

_PREDICATE = re.compile(r"\b(?:UP|P)\d+\b")
_MOST_OPERANDS = 32

# Guard, the predicates in it, opcode, modifiers, class.
_Head = tuple[str, tuple[str, ...], str, tuple[str, ...], str]


def decode_text(text: str) -> Instruction | None:
    """Return the instruction of a text, at no place in a program; None for text that is no instruction."""
    return decode_texts([text]).get(text)


def decode_texts(texts: Iterable[str]) -> dict[str, Instruction]:
    """Return the instructions of some texts, at no place in a program; text that is no instruction is left out."""
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
    return _instructions(heads, counts, parts)


@lru_cache(maxsize=16384)
def _head(text: str) -> _Head | None:
    """Return guard, opcode and modifiers of a text without operands; None where it has operands."""
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


def _instructions(heads: dict[str, _Head], counts: list[int], parts: list[str]) -> dict[str, Instruction]:
    """Return the instructions of some heads and of their operands, which are joined end to end."""
    found = [parse_operand(part) for part in parts]
    operands = tuple([operand for operand, _, _ in found])
    shapes = tuple([shape for _, shape, _ in found])
    registers = [names for _, _, names in found]
    decoded: dict[str, Instruction] = {}
    end = 0
    for (text, (guard, reads, opcode, modifiers, kind)), count in zip(heads.items(), counts, strict=True):
        first, end = end, end + count
        mine = operands[first:end]
        writes: tuple[str, ...] = ()
        read, written = accesses(opcode, modifiers, shapes[first:end], components(mine) if opcode in TEXTURE else 0)
        for position, widths in read:
            names = registers[first + position]
            reads += group(names, widths) if widths else names
        for position, widths in written:
            names = registers[first + position]
            writes += group(names, widths) if widths else names
        if opcode in ("P2R", "UP2UR"):
            reads += by_mask(mine)
        elif opcode in ("R2P", "UR2UP"):
            writes += by_mask(mine)
        if len(reads) > 1 and len(set(reads)) < len(reads):
            reads = tuple(dict.fromkeys(reads))
        if len(writes) > 1 and len(set(writes)) < len(writes):
            writes = tuple(dict.fromkeys(writes))
        decoded[text] = Instruction(text, opcode, kind, writes, reads, modifiers=modifiers, guard=guard, operands=mine)
    return decoded
