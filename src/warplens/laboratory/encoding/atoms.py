"""The text of an instruction cut into atoms: names, modifiers, registers, numbers, signs, blanks."""

import re
from difflib import SequenceMatcher
from typing import NamedTuple

# An immediate, with the blank that nvdisasm writes behind one that has a name: +INF, -0.0.
_FLOAT = (
    r"(?<=, )(?:-?\d+(?:\.\d+)?(?:e[+-]\d+)?(?![\w.])|[+-](?:INF|QNAN|SNAN)(?: (?=,))?)(?= ?(?:,|$))"
    r"|(?<=, )-0\.0 (?=,)"
)
_IS_FLOAT = re.compile(r"[+-](?:INF|QNAN|SNAN) ?|-0\.0 |-?\d+(?:\.\d+)?(?:e[+-]\d+)?")
_ATOM = re.compile(rf"{_FLOAT}|-?0x[0-9a-f]+|\.?[A-Za-z0-9_]+|\s+|.")
_REGISTER = re.compile(r"(UR|R|UP|P|B|SB)(\d+)")
_HEXADECIMAL = re.compile(r"-?0x[0-9a-f]+")
_LAST = {"RZ": ("R", 255), "URZ": ("UR", 63), "PT": ("P", 7), "UPT": ("UP", 7)}


class Edit(NamedTuple):
    """Atoms from `first` to before `last` that become others."""

    first: int
    last: int
    new: list[str]

    def of(self, position: int) -> bool:
        """Return True if it changes the atom at a position, and no other."""
        return (self.first, self.last) == (position, position + 1)


def cut(text: str) -> list[str]:
    """Return the atoms of a text; joined, they are the text."""
    return _ATOM.findall(text)


def number(atom: str) -> tuple[str, int] | None:
    """Return what an atom counts (registers of a kind, or `0x`) and its value; nothing if it is no number."""
    if found := _REGISTER.fullmatch(atom):
        return found[1], int(found[2])
    if _HEXADECIMAL.fullmatch(atom):
        return "0x", int(atom, 16)
    return _LAST.get(atom)


def is_float(atom: str) -> bool:
    """Return True if an atom is a floating-point number."""
    return bool(_IS_FLOAT.fullmatch(atom))


def edits(old: list[str], new: list[str]) -> list[Edit]:
    """Return what turns atoms into others; equal ones at both ends are never part of it."""
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    behind = 0
    while behind < min(len(old), len(new)) - first and old[-1 - behind] == new[-1 - behind]:
        behind += 1
    before, after = old[first : len(old) - behind], new[first : len(new) - behind]
    if not before and not after:
        return []
    if len(before) <= 1 or not after:
        return [Edit(first, len(old) - behind, after)]
    steps = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [Edit(first + i, first + j, after[k:m]) for kind, i, j, k, m in steps if kind != "equal"]
