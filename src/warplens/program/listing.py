"""Hand-written listings: SASS-like text, one instruction a line, to instructions with their registers.

    @P0 BRA label            ; taken
        LD R1, [R1]          ; latency=512
        FADD R1, R1, R2
    label:
        BAR.RED.POPC

The first operand is written, the others are read; stores, branches and barriers write nothing. A guard is
read. After a semicolon: `latency=N` overrides the machine's register latency, `class=NAME` the opcode's
class, `taken` marks a branch that is taken. `#` and `//` start a comment, `name:` a label.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from warplens.core.errors import FileError, nearest
from warplens.machine import KINDS
from warplens.program.instruction import Instruction, access_bytes, classified

_REGISTER = re.compile(r"\b(?:UR|UP|R|P)\d+\b")
_WRITES_NOTHING = {"store", "branch", "barrier", "exit"}
_FLAT = re.compile(r"[^\[\](){}]*(?:[\[({][^\[\](){},]*[\])}][^\[\](){}]*)*")  # no comma or bracket within brackets
# guard, opcode, modifiers, operands
INSTRUCTION = re.compile(r"(?:@(!?U?P\w+)\s+)?([A-Z][A-Z0-9_]*)((?:\.[\w?]+)*)(?:\s+(.*))?")


def parse_listing(text: str, file: str = "listing") -> list[Instruction]:
    """Parse a listing; an error names the line."""
    instructions = []
    for number, line in enumerate(text.splitlines(), 1):
        code, _, marks = re.sub(r"#.*|//.*", "", line).partition(";")
        code = re.sub(r"^\s*[\w.]+:", "", code).strip()
        if not code:
            if marks.strip():
                raise FileError(f"{file}: line {number}: {marks.strip()!r} stands behind no instruction")
            continue
        instructions.append(replace(_instruction(code, marks, f"{file}: line {number}"), line=number))
    if not instructions:
        raise FileError(f"{file}: a listing without instructions")
    return instructions


def _instruction(code: str, marks: str, where: str) -> Instruction:
    match = INSTRUCTION.fullmatch(code)
    if not match:
        raise FileError(f"{where}: not an instruction: {code[:80]!r}")
    guard, base, dotted, operands = match.groups()
    modifiers = tuple(dotted.split(".")[1:])
    known = classified(base, modifiers)
    kind = None if known == "other" else known
    latency: float | None = None
    taken = False
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
    if kind is None:
        raise FileError(f"{where}: unknown opcode {base!r}; give its class behind it, as in `{base} ... ; class=int`")
    parts = [part for part in split_operands(operands or "") if part]
    stores = kind in _WRITES_NOTHING or base.startswith(("ST", "RED"))
    written = [] if stores else parts[:1]
    writes = tuple(_REGISTER.findall(written[0])) if written else ()
    read = " ".join([guard or "", *parts[len(written) :]])
    instruction = Instruction(
        text=code,
        opcode=base,
        modifiers=modifiers,
        guard=f"@{guard}" if guard else "",
        kind=kind,
        writes=writes,
        reads=tuple(_REGISTER.findall(read)),
        latency_cycles=latency,
        taken=taken,
    )
    return _grouped(instruction, parts) if KINDS[kind] in ("memory system", "shared memory") else instruction


def _grouped(x: Instruction, parts: Sequence[str]) -> Instruction:
    """Return an access with all registers of its data: of 64 bits the next one too, of 128 the next three."""

    def behind(first: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"R{int(r[1:]) + k}" for r in first for k in range(1, access_bytes(x) // 4))

    data = [p for p in parts if re.fullmatch(r"R\d+", p)]
    written = data[:1] if x.writes and parts[0] in data[:1] else []
    read = data[len(written) :] if not x.writes or x.opcode.startswith("ATOM") else []
    return replace(x, writes=x.writes + behind(written), reads=x.reads + behind(read))


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
