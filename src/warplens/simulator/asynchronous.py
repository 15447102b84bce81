"""What runs beside its warp: copies to shared memory and products of warp groups, and the waits for groups of them.

    LDGSTS ... LDGDEPBAR     copies, then the end of a group of them     DEPBAR.LE SB0, n     n groups may be left
    HGMMA ... HGMMA gsb0     products, the last one ends the group       WARPGROUP.DEPBAR.LE gsb0, n

The time when the last copy (or product) is done is kept in a slot; the end of a group moves what is in the slots along
by one, so that a wait for all but n groups is a wait for the n-th slot behind.
"""

from __future__ import annotations

import re

from msgspec import Struct

from warplens.program.instruction import Instruction

GROUPS = 8  # groups that may be left: compilers keep fewer stages
_FIRST = {"copies": 9, "products": 10 + GROUPS}  # slots behind those of scoreboards and barriers
_LEFT = re.compile(r"(?:SB\d|gsb0), (0x[0-9a-f]+|\d+)")


class Asynchronous(Struct, frozen=True):
    """Slots that an instruction's result releases, that take over what the slot before them has, and that it awaits."""

    values: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()
    waits: tuple[int, ...] = ()


NONE = Asynchronous()


def asynchronous(x: Instruction, copies: bool) -> Asynchronous:
    """Say what an instruction has to do with groups; `copies`: whether its program makes any asynchronously."""
    if x.opcode == "LDGSTS":
        return Asynchronous(values=(_FIRST["copies"],))
    if x.opcode == "LDGDEPBAR":
        return Asynchronous(moved=_along("copies"))
    if x.opcode.endswith("GMMA"):
        return Asynchronous(values=(_FIRST["products"],), moved=_along("products") if "gsb0" in x.text else ())
    if x.opcode == "WARPGROUP" and "DEPBAR" in x.modifiers:
        return Asynchronous(waits=_await("products", x))
    if x.opcode == "DEPBAR" and copies:
        return Asynchronous(waits=_await("copies", x))
    return NONE


def _along(what: str) -> tuple[int, ...]:
    first = _FIRST[what]
    return tuple(range(first + GROUPS, first, -1))


def _await(what: str, x: Instruction) -> tuple[int, ...]:
    found = _LEFT.search(x.text)
    left = int(found.group(1), 0) if found else 0
    return (_FIRST[what] + 1 + left,) if left < GROUPS else ()
