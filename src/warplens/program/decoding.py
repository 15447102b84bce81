"""Decoder of instruction texts: guard, opcode, modifiers, class, operands, registers read and written.

What is known of a mnemonic, of an operand and of the shape of an instruction is kept: equal ones are decoded once.

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


def decode_texts(texts: Iterable[str]) -> dict[str, Instruction]:
    """Return the instructions of some texts, at no place in a program; text that is no instruction is left out."""
    decoded = {text: _decoded(text) for text in dict.fromkeys(texts)}
    return {text: instruction for text, instruction in decoded.items() if instruction is not None}


def _decoded(text: str) -> Instruction | None:
    match = INSTRUCTION.fullmatch(text)
    if match is None:
        return None
    guard, opcode, dotted, rest = match.groups()
    predicates, modifiers, kind = _head(guard, opcode, dotted)
    parts = split_operands(rest.partition("(*")[0].strip()) if rest else []
    found = [parse_operand(part) for part in parts[:_MOST_OPERANDS] if part]
    operands, shapes, registers = tuple(zip(*found, strict=True)) if found else ((), (), ())
    read, written = accesses(opcode, modifiers, shapes, components(operands) if opcode in TEXTURE else 0)
    reads, writes = predicates, tuple[str, ...]()
    for position, widths in read:
        reads += group(registers[position], widths) if widths else registers[position]
    for position, widths in written:
        writes += group(registers[position], widths) if widths else registers[position]
    if opcode in ("P2R", "UP2UR"):
        reads += by_mask(operands)
    elif opcode in ("R2P", "UR2UP"):
        writes += by_mask(operands)
    guard = f"@{guard}" if guard else ""
    return Instruction(
        text, opcode, kind, _once(writes), _once(reads), modifiers=modifiers, guard=guard, operands=operands
    )


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    return names if len(names) < 2 or len(set(names)) == len(names) else tuple(dict.fromkeys(names))


@lru_cache(maxsize=16384)
def _head(guard: str | None, opcode: str, dotted: str) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Return the predicates in a guard, the modifiers and the class of an opcode."""
    modifiers = tuple(dotted.split(".")[1:])
    return tuple(_PREDICATE.findall(guard or "")), modifiers, classified(opcode, modifiers)


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
