"""How arithmetic reads and writes its registers, against random code by hand on an H200; what an instruction reads."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from warplens.machine import load_machine
from warplens.papers.validation.stored import data_file, read
from warplens.program.decoding import decode_texts
from warplens.program.instruction import Control, Instruction, Operand
from warplens.simulator import layout as at
from warplens.simulator.code import WarpPath
from warplens.simulator.from_program import from_program
from warplens.simulator.operands import Reader, _lanes
from warplens.simulator.run import Options, run
from warplens.simulator.units import Units, units

_NAMES = {
    "MMA": "HFMA2.MMA", "WIDE": "IMAD.WIDE.U32", "HIGH": "IMAD.HI.U32", "LOP3": "LOP3.LUT", "FADD.U": "FADD",
    "FFMA.U": "FFMA", "CLOCK": "CS2R.32", "USHF": "USHF.L.W.U32.HI", "ULOP3": "ULOP3.LUT", "MUFU": "MUFU.RSQ",
}  # fmt: skip
_LANES = {"MUFU": (1,), "LDS": (0,)}
# What part of the words of a family takes exactly what was measured; the others are off by a cycle or two.
EXACT = {
    "plain": 1.0, "kept": 1.0, "late": 1.0, "late kept": 1.0, "fresh": 0.99, "fresh kept": 0.97, "late fresh": 0.99,
    "late fresh kept": 0.97, "sums": 0.99, "logic": 0.99, "whole": 0.99, "half": 0.99, "half, single": 0.98,
    "double": 1.0, "double, single": 0.98, "wide": 0.99, "wide, single": 0.99, "uniform": 1.0, "MUFU": 0.99,
    "MUFU, one bank": 0.98, "LDS": 1.0, "LDS, one bank": 1.0, "away FFMA": 1.0, "away LOP3": 1.0, "away IMAD": 1.0,
    "away HFMA2": 1.0, "away MMA": 1.0, "away DADD": 1.0, "away WIDE": 0.94,
}  # fmt: skip


@cache
def _h200() -> Units:
    return units(load_machine("h200"))


@cache
def _words() -> Any:
    """The script that made the words makes them again."""
    folder = str(data_file("experiments/register_ports/read_words.py").parent)
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("read_words")
    finally:
        sys.path.remove(folder)


@cache
def _made() -> dict[str, list[Any]]:
    made: dict[str, list[Any]] = _words().words()
    return made


def _text(slot: Any) -> str:
    what, registers, _, _, reuse = slot
    if what in ("NOP", "CLOCK"):
        return "NOP" if what == "NOP" else f"CS2R.32 R{registers[0]}, SR_CLOCKLO"
    lanes, shown = _LANES.get(what) or _words().LANES.get(what, (0, 1, 2)), list[str]()
    for k, r in enumerate(registers):
        uniform = what in _words().UNIFORM or (what.endswith(".U") and k == 2)
        name = ("URZ" if r == 63 else f"UR{r}") if uniform else "RZ" if r == 255 else f"R{r}"
        shown.append(name + ".reuse" * bool(k and not uniform and reuse >> lanes[k - 1] & 1))
    if what == "LDS":
        shown[1] = f"[{shown[1]}]"
    if what == "USHF":
        shown.insert(2, "0x5")
    tail = {"LOP3": ", 0xc0, !PT", "ULOP3": ", 0xc0, !UPT"}.get(what, "")
    return f"{_NAMES.get(what, what)} {', '.join(shown)}{tail}"


def _cycles(code: list[Any], made: Units | None = None) -> int:
    """Return what a lone warp takes for a word, between two looks at the clock that are 65 cycles longer apart."""
    late = [("NOP", (), 1, False, 0)] * 3  # the clock is read three stages behind the issue
    slots = [("CLOCK", (2,), 1, False, 0), *[("NOP", (), 8, False, 0)] * 8, *code, *late, ("CLOCK", (3,), 11, False, 0)]
    texts = [_text(slot) for slot in slots]
    known = decode_texts(texts)
    program = [
        replace(known[text], control=Control(slot[2], slot[3], None, None, 0, slot[4]))
        for text, slot in zip(texts, slots, strict=True)
    ]
    made = made or _h200()
    laid = from_program(program, made, paths=[WarpPath([([(0, len(program))], 1)])], blocks=[[0]])
    events = run(laid, made, Options(events=2000), resident=1, blocks=1).events
    issued = {int(row[3]): int(row[0]) for row in events if row[1] == at.ISSUED}
    return issued[len(program) - 1] - issued[0] - 65 - len(late)


def _off(family: str, every: int) -> Counter[int]:
    measured = read("experiments/register_ports/read_words.json.gz")["cycles"][family]
    words = _made()[family]
    assert len(words) == len(measured)
    return Counter(
        _cycles(word) - cycles
        for word, cycles in list(zip(words, measured, strict=True))[:: min(every, len(words) // 20)]
    )


@pytest.mark.parametrize("family", EXACT)
def test_random_code_takes_what_was_measured(family: str) -> None:
    """Every twelfth word, of which single ones weigh more; `test-all` takes all of them."""
    off = _off(family, 12)
    assert off[0] >= (EXACT[family] - 0.04 * (EXACT[family] < 1.0)) * off.total() and off.total() >= 20


@pytest.mark.slow
@pytest.mark.parametrize("family", EXACT)
def test_all_random_code(family: str) -> None:
    off = _off(family, 1)
    assert off[0] >= EXACT[family] * off.total()


def test_without_ports_few_words_take_what_was_measured() -> None:
    """What is explained: with stall counts and units alone, on a machine whose file has no register banks."""
    machine = load_machine("h200")
    without = units(replace(machine, sm=replace(machine.sm, register_banks=None)))
    measured = read("experiments/register_ports/read_words.json.gz")["cycles"]["double, single"]
    right = [_cycles(w, without) == cycles for w, cycles in zip(_made()["double, single"][:60], measured, strict=False)]
    assert sum(right) < 0.5 * len(right)


def _instruction(text: str, reuse: int = 0) -> Instruction:
    opcode, *operands = text.replace(",", "").split()
    made = tuple(Operand(o, "register", (o.removesuffix(".reuse"),)) for o in operands)
    reads = tuple(r for o in made[1:] for r in o.registers)
    control = Control(1, False, None, None, 0, reuse)
    return Instruction(
        text=text, opcode=opcode, kind="fp32", writes=made[0].registers, reads=reads, operands=made, control=control
    )


def _entries(word: int) -> list[tuple[int, int, int, int]]:
    """Return the registers of a word: number, lanes, instructions since it was made, lanes that keep it."""
    found, word = [], word & at.SEVERAL - 1
    while word:
        found.append((word & 255, word >> at.LANES_AT & 7, word >> at.BACK_AT & 7, word >> at.KEEPS_AT & 7))
        word >>= at.READ_BITS
    return found


def test_an_instruction_reads_by_its_lanes() -> None:
    """Sums of two have their second operand in the third lane; what is kept, and how long ago it was made, is noted."""
    code = [("FADD R5, R6, R7", 0), ("FFMA R8, R6.reuse, R9, R10", 1), ("FFMA R8, R6, R11, R11", 0),
            ("FADD R9, R6, R8", 0), ("MOV R4, R6", 0)]  # fmt: skip
    reader = Reader()
    added, kept, twice, fresh, moved = (reader.reads(_instruction(*x), fixed=True) for x in code)
    assert (_entries(added.even), _entries(added.odd)) == ([(6, 1, 0, 0)], [(7, 4, 0, 0)])
    assert _entries(kept.even) == [(6, 1, 0, 1), (10, 4, 0, 0)]
    assert _entries(twice.odd) == [(11, 6, 0, 0)]
    assert _entries(fresh.even) == [(6, 1, 0, 0), (8, 4, 1, 0)]
    assert _entries(moved.even) == [(6, 2, 0, 0)]
    assert (added.writes, kept.writes) == (2, 1)


@pytest.mark.parametrize(
    ("text", "registers"),
    [("ISETP.GE.AND P0, PT, R2, R3, PT", ["R2", "R3"]), ("HSETP2.GT.AND P0, PT, R2, R3, PT", ["R2", "R3"]),
     ("FCHK P0, R2, R3", ["R2", "R3"]), ("R2P PR, R2, 0x7f", ["R2"]),
     ("LOP3.LUT P0, R4, R2, R3, RZ, 0xc0, !PT", ["R2", "R3"]),
     ("LOP3.LUT P0, RZ, R2, R3, RZ, 0xc0, !PT", ["R2", "R3"]), ("IADD3 R4, P0, R2, R3, RZ", ["R2", "R3"])],
)  # fmt: skip
def test_a_predicate_written_first_leaves_every_operand_its_lane(text: str, registers: list[str]) -> None:
    x = decode_texts([text]).get(text)
    assert x is not None
    assert [r for _, operand in _lanes(x.opcode, x.operands) for r in operand.registers] == registers


def test_parts_of_an_issue_slot_are_held_at_the_port() -> None:
    """Stages take whole cycles: with eight and a half slots a run did not end."""
    values = {"instructions__imul_wide__issue_slots": 8.5, "instructions__imul_wide__extra_stall_cycles": 9.0}
    made = units(load_machine("h200").with_values(**values))
    texts = ["IMAD.WIDE R4, R2, R3, R6", "IMAD.WIDE.U32 R8, R4, R3, R6", "IMAD.WIDE R10, R8, R2, R4", "EXIT"]
    known = decode_texts(texts)
    code = [replace(known[text], control=Control(2, False, None, None, 0, 0)) for text in texts]
    laid = from_program(code, made, paths=[WarpPath([([(0, 3)], 20), ([(3, 4)], 1)])], blocks=[[0] * 16] * 4)
    done = run(laid, made, Options(), resident=4, blocks=4)
    assert done.issued == 64 * 61 and done.end_cycle < 40_000
