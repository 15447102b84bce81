"""Decoder of instruction texts: guard, opcode, modifiers, class, operands, registers read and written.

The texts of a listing are decoded together, their operands joined end to end, so that what does not depend on the
instruction is done once for all of them. What is known of a mnemonic, of an operand and of the shape of an
instruction is kept.

A hand-written listing is SASS-like text, one instruction a line:

    @P0 BRA label            ; taken
        LD R1, [R1]          ; latency=512
        FADD R1, R1, R2
    label:
        BAR.RED.POPC

After a semicolon: `latency=N` overrides the machine's register latency, `class=NAME` the opcode's class, `taken` marks
a branch that is taken. Stores, branches and barriers write nothing. `#` and `//` start a comment, `name:` a label.

To add the decoding of an instruction: its class in files/classes.toml, the rules of its registers in
files/operands.toml and `warplens.program.register_use`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain

from msgspec.structs import replace

from warplens.core.errors import FileError, nearest
from warplens.machine import KINDS
from warplens.program.instruction import Instruction, classified, parse_operand
from warplens.program.register_use import TEXTURE, accesses, by_mask, components, group

_PREDICATE = re.compile(r"\b(?:UP|P)\d+\b")
_FLAT = re.compile(r"[^\[\](){}]*(?:[\[({][^\[\](){},]*[\])}][^\[\](){}]*)*")  # no comma or bracket within brackets
# guard, opcode, modifiers, operands
INSTRUCTION = re.compile(r"(?:@(!?U?P\w+)\s+)?([A-Z][A-Z0-9_]*)((?:\.[\w?]+)*)(?:\s+(.*))?")
_MOST_OPERANDS = 32

# Guard, the predicates in it, opcode, modifiers, class.
_Head = tuple[str, tuple[str, ...], str, tuple[str, ...], str]


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


def parse_listing(text: str, file: str = "listing") -> list[Instruction]:
    """Parse a hand-written listing; an error names the line."""
    rows = list[tuple[int, str, str]]()
    for number, line in enumerate(text.splitlines(), 1):
        code, _, marks = re.sub(r"#.*|//.*", "", line).partition(";")
        code = re.sub(r"^\s*[\w.]+:", "", code).strip()
        if code:
            rows.append((number, code, marks))
        elif marks.strip():
            raise FileError(f"{file}: line {number}: {marks.strip()!r} stands behind no instruction")
    if not rows:
        raise FileError(f"{file}: a listing without instructions")
    decoded = decode_texts(code for _, code, _ in rows)
    instructions = list[Instruction]()
    for number, code, marks in rows:
        if code not in decoded:
            raise FileError(f"{file}: line {number}: not an instruction: {code[:80]!r}")
        instructions.append(replace(_marked(decoded[code], marks, f"{file}: line {number}"), line=number))
    return instructions


def _marked(x: Instruction, marks: str, where: str) -> Instruction:
    """Return an instruction of a hand-written listing with what its marks say; it keeps registers, not operands."""
    kind, latency, taken = x.kind, None, False
    for mark in marks.split():
        key, _, value = mark.partition("=")
        if key == "latency":
            try:
                latency = float(value)
            except ValueError:
                raise FileError(f"{where}: latency must be a number, not {value!r}") from None
            if not 0 < latency <= 1e6:
                raise FileError(f"{where}: latency must be above 0 and at most 1e6 cycles, not {value}")
        elif key == "class":
            if value not in KINDS:
                raise FileError(f"{where}: unknown class {value!r}{nearest(value, KINDS)}")
            kind = value
        elif mark in ("taken", "not-taken"):
            taken = mark == "taken"
        else:
            raise FileError(f"{where}: unknown mark {mark!r} (latency=, class=, taken, not-taken)")
    if x.kind == "other" and "class=" not in marks:
        name = x.opcode
        raise FileError(f"{where}: unknown opcode {name!r}; give its class behind it, as in `{name} ... ; class=int`")
    writes, reads = x.writes, x.reads
    if kind in ("store", "branch", "barrier", "exit"):
        writes, reads = (), (*writes, *reads)
    return replace(x, kind=kind, writes=writes, reads=reads, operands=(), latency_cycles=latency, taken=taken)


def flat(text: str) -> bool:
    """Return whether operands are divided by a comma and a blank, as a disassembler writes them, and only so."""
    even = "  " not in text and " ," not in text and text.isprintable() and text.count(", ") == text.count(",")
    return even and text == text.strip(", ") and _FLAT.fullmatch(text) is not None


def split_operands(text: str) -> list[str]:
    """Split operands at the commas outside brackets and parentheses."""
    if ("[" not in text and "(" not in text and "{" not in text) or _FLAT.fullmatch(text):
        return [part.strip() for part in text.split(",")] if text else []
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        if character in "[({":
            depth += 1
        elif character in "])}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]
