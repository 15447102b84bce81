"""Parser of disassemblies: the text of a disassembler, or of a paper, to instructions, labels and branch targets.

nvdisasm        /*0010*/  @P0 BRA `(.L_x_1) ;        /* 0x... */      sections, labels, source lines
cuobjdump       /*0010*/  @P0 BRA 0x60 ;             /* 0x... */      `Function : name`, addresses
a paper         loop: FADD R1, R1, R2;  @P0 BRA loop                  with or without offsets

Behind an instruction may stand its two words of machine code, the upper one in the next row; the control field
is in it. Text without them has no control codes.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache

from msgspec.structs import replace

from warplens.core.errors import FileError
from warplens.program.cubin import plain
from warplens.program.decoding import INSTRUCTION, decode_texts
from warplens.program.encoding import Calls
from warplens.program.instruction import Control, Instruction, Operand
from warplens.program.program import Program

# What nvdisasm writes for an instruction since Volta, two whole rows of it: offset, text, low and high word.
_PAIR = re.compile(
    r"^ +/\*([0-9a-f]{4,8})\*/([ -:<-z|}~]*); +/\* 0x([0-9a-f]{16}) \*/\n +/\* 0x([0-9a-f]{16}) \*/\n", re.M
)
# Any other row: what it begins with, an offset, a source line, or a label.
_ROW = re.compile(r'\s*(?:/\*([0-9a-f]{4,8})\*/|//## File "(.*?)", line (\d+)( inlined)?|([\w.$]+):(?=\s|$))')
_OFFSET = re.compile(r"\s*/\*([0-9a-f]{4,8})\*/")
_WORD = re.compile(r"/\* 0x([0-9a-f]{16}) \*/")
_LABEL = re.compile(r"\s*([\w.$]+):(?:\s|$)")
_SECTION = re.compile(r'\s*\.section\s+"?\.text\.(.+?)"?,"|\s*Function : (\S.*)')
_TARGET = re.compile(r"\s*(?:\.target\s+|code for )(sm_\d+\w?)\b")
_COMMENT = re.compile(r"#.*|//.*|/\*[^*]*\*/")
# In bare code, the address that a branch or call goes to, or that a return is relative to.
_ADDRESS = re.compile(r"^(?:@\S+ )?(?:BRA|BSSY|CALL|LEPC|RET|WARPSYNC)\S* .*?(0x[0-9a-f]+)$")
_BRANCH_TARGETS = re.compile(r"BRANCH_TARGETS ([^\"]*)")
_WORDS_BYTES, _BARE_BYTES = 16, 8  # an instruction since Volta, and one of Kepler's
_CONTROL_DIGITS = 6  # of an upper word's sixteen: the control field and a bit behind it
_SPILL = '(*"SpillRefill"*)'  # from nvdisasm 13.4 on; a cubin has it among a kernel's resources
# Their last operand is an address in the code.
_JUMPS = frozenset((
    "BRA", "BRX", "BRXU", "BSSY", "CAL", "CALL", "JCAL", "JMP", "JMX", "JMXU", "LEPC", "PBK", "PCNT", "PRET", "SSY",
    "WARPSYNC",
))  # fmt: skip


def parse_disassembly(text: str) -> list[Program]:
    """Parse the text of a disassembler into programs without resources, one per code section."""
    found: list[_Reader] = [_Reader("listing", "")]
    *pairs, last = _PAIR.split(text)
    for rows, *pair in [*zip(*[iter(pairs)] * 5, strict=True), (last,)]:
        for row in rows.splitlines():
            if not row or found[-1].read(row):
                continue
            section, target = _SECTION.match(row), _TARGET.match(row)
            if section or target:
                name = (section.group(1) or section.group(2)) if section else "listing"
                found.append(_Reader(name, target.group(1) if target else found[-1].arch))
        if pair:
            offset, code, low, high = pair
            found[-1].add(int(offset, 16), code.strip(), low, high)
    decoded = decode_texts([row[1] for reader in found for row in reader.rows])
    programs = [reader.program(decoded) for reader in found]
    return [program for program in programs if program.instructions]


def parse_words(
    texts: list[str], code: bytes, name: str, arch: str, names: dict[int, str], lines: dict[int, Calls]
) -> Program:
    """Return a kernel of the texts of its machine words, given its symbols and source lines by their offsets.

    The result equals that of nvdisasm's text for the cubin, where addresses in the code are labels.
    """
    reader, numbers = _Reader(name, arch), dict[int, str]()
    words = code[::-1].hex()  # the last one first
    for i, text in enumerate(texts):
        offset, end = i * _WORDS_BYTES, len(words) - i * 2 * _WORDS_BYTES
        if offset in lines:
            reader.set_line(lines[offset])
        target = _ADDRESS.search(text)
        if target:
            at = int(target[1], 16)
            label = names.get(at) or numbers.setdefault(at, f".L_x_{len(numbers)}")
            text = f"{text[: target.start(1)]}`({label})"
        reader.add(offset, text, words[end - _WORDS_BYTES : end], words[end - 2 * _WORDS_BYTES : end - _WORDS_BYTES])
    reader.labels = {label: at for at, label in (numbers | names).items()} | {f".text.{plain(name)}": 0}
    return reader.program(decode_texts([row[1] for row in reader.rows]))


def parse_bare(text: str, file: str) -> Program:
    """Parse a paper's listing, one or more instructions a row, labels, no offsets; an error names the row."""
    reader = _Reader("listing", "")
    for number, row in enumerate(text.splitlines(), 1):
        first, *more = [part.strip(" \t{}") for part in _COMMENT.sub("", row).split(";")]
        # text in lower case behind an instruction is a mark, and left out
        for part in [first, *(part for part in more if INSTRUCTION.fullmatch(part))]:
            label = _LABEL.match(part)
            if label:
                reader.pending.append(label.group(1))
                part = part[label.end() :].strip()
            if INSTRUCTION.fullmatch(part):
                reader.add(len(reader.rows) * _BARE_BYTES, part)
            elif part:
                raise FileError(f"{file}: line {number}: not an instruction: {part[:60]!r}; {HINT}")
    program = reader.program(decode_texts([row[1] for row in reader.rows]))
    if all(i.kind == "other" for i in program.instructions):
        raise FileError(f"{file}: no instructions found; {HINT}")
    return program


HINT = "a listing has lines like `/*0010*/ FADD R1, R1, R2 ;` or `FADD R1, R1, R2`"


# An instruction as it was read: offset, text, source line, and the low and high words of machine code in hexadecimal.
_Row = tuple[int, str, int | None, str, str]


class _Reader:
    """One code section while it is read, row by row."""

    def __init__(self, name: str, arch: str) -> None:
        self.name, self.arch = name, arch
        self.rows: list[_Row] = []
        self.labels: dict[str, int] = {}
        self.pending: list[str] = []
        self.file = ""
        self._line: int | None = None
        self._calls: list[tuple[str, int]] = []  # where the code of a row is from, innermost first
        self._last = -1
        self._waits = False  # for the upper word, in the next row

    def read(self, row: str) -> bool:
        """Read a row; return whether it belongs to the section."""
        found = _ROW.match(row)
        offset, file, line, inlined, label = found.groups() if found else (None, None, None, None, None)
        if found and label:
            self.pending.append(label)
            found = _OFFSET.match(row, found.end())
            offset = found.group(1) if found else None
        if found and offset:
            self._instruction(int(offset, 16), row[found.end() :])
            return True
        word = _WORD.search(row) if self._waits or not (label or line) else None
        if word and self._waits:
            self.rows[-1] = (*self.rows[-1][:4], word.group(1))
            self._waits = False
        elif line:
            self._calls.append((file or "", int(line[:9])))
            if not inlined:
                self.set_line(tuple(self._calls))
                self._calls.clear()
        return bool(label or line or word)

    def set_line(self, calls: Calls) -> None:
        """Set the source line of the code that follows: of the calls in the outermost one's file, the innermost."""
        file = calls[-1][0]
        self._line = next(number for name, number in calls if name == file)
        self.file = self.file or file

    def _instruction(self, offset: int, row: str) -> None:
        code, ended, behind = row.partition(";")
        if not ended:  # the second of two that issue together
            code, _, behind = row.partition("/*")
            code, behind = code.rstrip().removesuffix("}"), "/*" + behind
        word = _WORD.search(behind)
        self.add(offset, code.strip().removeprefix("{").strip(), word.group(1) if word else "")

    def add(self, offset: int, text: str, low: str = "", high: str = "") -> None:
        """Add an instruction with its words; the labels before it are its own."""
        self._waits = False
        if offset <= self._last:
            return
        if "(*" in text:  # a note, in a column of its own
            text = " ".join(text.replace(_SPILL, "").split())
        if self.pending:
            self.labels.update(dict.fromkeys(self.pending, offset))
            self.pending.clear()
        if offset % _WORDS_BYTES:
            low = high = ""
        elif low and not high:
            self._waits = True
        self._last = offset
        self.rows.append((offset, text, self._line, low, high))

    def program(self, decoded: dict[str, Instruction]) -> Program:
        """Return the program, given the instructions of its texts."""
        instructions: list[Instruction] = []
        jumps: dict[int, tuple[int, ...]] = {}
        hides_descriptors = self.arch.startswith("sm_8")
        for offset, text, line, low, high in self.rows:
            found = decoded.get(text)
            if found is None:
                continue
            target, control = None, control_of(high[:_CONTROL_DIGITS]) if high else None
            if found.opcode in _JUMPS:
                target = self._target(found.opcode, text, found.operands)
                if named := _BRANCH_TARGETS.search(text):
                    names = [name.strip() for name in named.group(1).split(",")]
                    jumps[offset] = tuple(self.labels[name] for name in names if name in self.labels)
            placed = replace(found, offset=offset, line=line, target=target, control=control)
            if hides_descriptors and high and ".64" in text:
                hidden = hidden_descriptor(found, int(low, 16), int(high, 16))
                if hidden:
                    placed = replace(placed, reads=tuple(dict.fromkeys(found.reads + hidden)))
            instructions.append(placed)
        return Program(
            self.name, self.name, self.arch, instructions, labels=self.labels, jump_targets=jumps, source_file=self.file
        )

    @cached_property
    def _offsets(self) -> set[int]:
        return {row[0] for row in self.rows}

    def _target(self, opcode: str, text: str, operands: tuple[Operand, ...]) -> int | None:
        """Return the address that an instruction names: a label's, or one with an instruction at it."""
        if "`(" in text:
            return self.labels.get(text[text.rindex("`(") + 2 :].split(")")[0])
        if not operands or (opcode == "WARPSYNC" and len(operands) < 2):
            return None  # WARPSYNC with one operand has a mask
        last = operands[-1]
        if last.value is not None and last.text.startswith("0x"):
            return int(last.value) if last.value in self._offsets else None
        return self.labels.get(last.text)


@lru_cache(maxsize=65536)
def control_of(digits: str) -> Control:
    """Decode the control field from the first six hexadecimal digits of an instruction's upper word."""
    field = int(digits, 16) >> 1 & 0x1FFFFF
    write, read = field >> 5 & 7, field >> 8 & 7
    return Control(
        stall=field & 15,
        yields=not field >> 4 & 1,
        write_scoreboard=None if write == 7 else write,
        read_scoreboard=None if read == 7 else read,
        wait_mask=field >> 11 & 63,
        reuse=field >> 17 & 15,
    )


def hidden_descriptor(instruction: Instruction, low_word: int, high_word: int) -> tuple[str, ...]:
    """Return the uniform registers that an access reads on sm_80 to sm_89 and the text does not show.

    Global accesses with the uniform bit (0x800) take a memory descriptor from a pair of uniform registers;
    from sm_90 on the disassembler writes it as desc[UR4]. 63 is URZ.
    """
    if not low_word & 0x800 or "desc" in instruction.text or instruction.kind == "shared":
        return ()
    if not any(o.kind == "memory" and ".64" in o.text for o in instruction.operands):
        return ()
    first = (low_word >> 32 if instruction.opcode in ("LDG", "LD") else high_word) & 63
    return () if first == 63 else (f"UR{first}", f"UR{first + 1}")
