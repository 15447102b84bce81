"""A form that is being learned: narrowed down until nvdisasm writes its words in the same way."""

from collections import Counter, defaultdict
from collections.abc import Generator
from typing import TypeVar

from warplens.program.encoding import CONTROL, Choice, Float, Form, Number, Part, ready

T = TypeVar("T")
# A part of the learning that asks for the texts of words, again and again, and returns something in the end.
Asking = Generator[list[int], list[str | None], T]

KEPT = (1 << 128) - 1 - CONTROL  # what texts depend on
TARGET = Number("0x", [(16, 8), (34, 48)], 2, True)  # the distance to a branch target, where one is named
_FLOAT_BITS = 32  # at most, in an instruction
_SHORT = 8  # bits of a register's or predicate's field: all ones may be RZ or PT
_MOST_EXCEPTIONS, _MOST_OF_MASK = 60, 4  # values that are excluded: in all, and of the same bits


def part_mask(part: Number | Float) -> int:
    """Return the bits of a field."""
    pieces = part.pieces if isinstance(part, Number) else [(part.start, min(part.size, _FLOAT_BITS))]
    return sum((1 << length) - 1 << start for start, length in pieces)


def bits_of(mask: int) -> list[int]:
    """Return the positions of bits, lowest first."""
    return [bit for bit in range(128) if mask >> bit & 1]


def spread(mask: int) -> list[int]:
    """Return all values of some bits, in the order of a table."""
    values = [0]
    for bit in bits_of(mask):
        values += [value | 1 << bit for value in values]
    return values


def write_part(part: Part, word: int) -> str | None:
    """Return what is written for one part of a word, by what writes all words."""
    return ready(Form("0", "0", [part]), []).written(word)


class Draft:
    """A form of a word: its parts, the tables they name, bits that do not matter, and what is written otherwise.

    `fields` are the bits of its numbers, `choices` those of its tables with the values that have a text.
    """

    def __init__(self, word: int, parts: list[Part], tables: list[list[str | None]], free: int) -> None:
        self.word, self.parts, self.tables, self.free = word, parts, tables, free
        self.fields = [part_mask(part) for part in parts if isinstance(part, Number | Float)]
        self.choices = dict[int, list[int]]()
        for part in parts:
            if isinstance(part, Choice):
                mask = sum(1 << bit for bit in part.bits)
                texts = zip(spread(mask), tables[part.table], strict=True)
                self.choices[mask] = [value for value, text in texts if text is not None]
        self._mask = KEPT & ~(sum(self.fields) | sum(self.choices) | free)
        self._but = defaultdict[int, set[int]](set)
        self._excluded = Counter[int]()
        self._make_ready()

    def _make_ready(self) -> None:
        self._ready = ready(self.form(self.parts), self.tables)

    def form(self, parts: list[Part]) -> Form:
        """Return the form as it is now, with these parts."""
        but = {f"{mask:x}": [f"{value:x}" for value in sorted(values)] for mask, values in self._but.items()}
        return Form(f"{self._mask:x}", f"{self.word & self._mask:x}", parts, but)

    def written(self, word: int) -> str | None:
        """Return the text of a word; nothing if it does not have this form."""
        return self._ready.written(word) if word & self._mask == self.word & self._mask else None

    def differs(self, word: int, text: str | None) -> bool:
        """Return True if it writes a word, and otherwise than this."""
        return self.written(word) not in (None, text)

    def pin(self, mask: int) -> None:
        """Keep bits as they are in the word."""
        self._mask |= mask
        self.free &= ~mask
        self.fields = [field for field in self.fields if not field & mask]
        self.choices = {bits: values for bits, values in self.choices.items() if not bits & mask}
        self._make_ready()

    def exclude(self, mask: int, value: int) -> None:
        """Leave out words with a value in some bits."""
        self._but[mask].add(value)
        self._make_ready()

    def narrow(self, word: int, changed: list[int]) -> None:
        """Leave out a word that is written otherwise, and its like; it differs from the form's own in these parts."""
        free = sum(bits for bits in changed if bits & self.free)
        short = [bits for bits in changed if bits in self.fields and bits.bit_count() <= _SHORT]
        ours = [bits for bits in short if self.word & bits == bits]  # RZ or PT
        if free:
            self.pin(free)
        elif ours and all(bits in self.fields for bits in changed):
            self.pin(sum(ours))
        else:
            theirs = next((bits for bits in short if word & bits == bits), sum(changed))
            self.exclude(theirs, word & theirs)
            self._excluded[theirs] += 1
            choices = [bits for bits in changed if bits in self.choices]
            many = self._excluded[theirs] > _MOST_OF_MASK or sum(map(len, self._but.values())) > _MOST_EXCEPTIONS
            if many or len(choices) == len(changed):
                self.pin(choices[-1] if choices else changed[0])
