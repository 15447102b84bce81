"""How arithmetic reads its registers: the learned states against other code, and what an instruction is to them."""

from __future__ import annotations

from collections import Counter

import pytest

from warplens.frontend.decoding import decode_text
from warplens.kernel.instruction import Instruction, Operand
from warplens.simulate import layout as at
from warplens.simulate.reads import SOON, Reader, _lanes, first_state, lanes_input, read_states
from warplens.study.validation import read


def _waits(word: str) -> int:
    """Return the cycles that a lone warp's FFMAs wait for their operands, by both banks together."""
    table, total = read_states(), 0
    states = [first_state(late=False)] * 2
    for lanes in word.split():
        waits = []
        for bank, letter in enumerate("eo"):
            found = int(table[states[bank], lanes_input("".join("ne"[c == letter] for c in lanes), late=False)])
            states[bank] = found >> at.WAIT_BITS
            waits.append(found & at.WAIT_MASK)
        for bank in (0, 1):
            for _ in range(max(waits) - waits[bank]):
                states[bank] = int(table[states[bank], 0]) >> at.WAIT_BITS
        total += max(waits)
    return total


def test_random_code_waits_as_measured() -> None:
    """1000 words of up to 20 FFMAs with registers of both banks; single banks were learned (read_ports.py)."""
    rows = read("h200/read_ports.json.gz")["rows"]
    off = Counter(measured - _waits(word) for word, measured in rows)
    assert len(rows) == 1000 and sum(measured for _, measured in rows) > 1500
    assert off[0] >= 970 and set(off) <= {-1, 0, 1}


def test_an_operand_is_in_its_register_after_six_cycles() -> None:
    assert max(away for away, longer in read("h200/read_ports.json.gz")["distances"] if longer) == SOON


@pytest.mark.parametrize(
    ("word", "waits"),
    [("eee eee", 2), ("eeo eeo", 1), ("eeo eoe", 0), ("eee eoo", 0), ("eee ooo", 0), ("enn enn eee", 1),
     ("enn nen eee", 0)],
)  # fmt: skip
def test_two_operands_of_a_bank_wait_for_two_before_them_in_the_same_lanes(word: str, waits: int) -> None:
    assert _waits(word) == waits


def _instruction(text: str) -> Instruction:
    opcode, *operands = text.replace(",", "").split()
    made = tuple(Operand(o, "register", (o.removesuffix(".reuse"),)) for o in operands)
    reads = tuple(r for o in made[1:] for r in o.registers)
    return Instruction(text=text, opcode=opcode, kind="fp32", writes=made[0].registers, reads=reads, operands=made)


def test_an_instruction_reads_by_its_lanes() -> None:
    """Sums of two have their second operand in the third lane; what is kept for reuse, or made just before, differs."""
    code = ["FADD R5, R6, R7", "FFMA R8, R6.reuse, R9, R10", "FFMA R8, R6, R11, R12", "FADD R9, R6, R8", "MOV R4, R6"]
    reader = Reader()
    added, _, again, fresh, moved = (reader.reads(_instruction(text), 4.0, fixed=True) for text in code)
    assert added.other == (lanes_input("enn", late=False), lanes_input("nne", late=False))
    assert moved.other == (lanes_input("nen", late=False), 0)
    assert again.own[0] == lanes_input("nne", late=False) and again.other[0] == lanes_input("ene", late=False)
    assert fresh.soon[0] == lanes_input("end", late=False) and fresh.slack == 2.0
    assert fresh.other[0] == lanes_input("ene", late=False)


@pytest.mark.parametrize(
    ("text", "registers"),
    [("ISETP.GE.AND P0, PT, R2, R3, PT", ["R2", "R3"]), ("HSETP2.GT.AND P0, PT, R2, R3, PT", ["R2", "R3"]),
     ("FCHK P0, R2, R3", ["R2", "R3"]), ("R2P PR, R2, 0x7f", ["R2"]),
     ("LOP3.LUT P0, R4, R2, R3, RZ, 0xc0, !PT", ["R2", "R3"]),
     ("LOP3.LUT P0, RZ, R2, R3, RZ, 0xc0, !PT", ["R2", "R3"]), ("IADD3 R4, P0, R2, R3, RZ", ["R2", "R3"])],
)  # fmt: skip
def test_a_predicate_written_first_leaves_every_operand_its_lane(text: str, registers: list[str]) -> None:
    x = decode_text(text)
    assert x is not None
    assert [r for _, operand in _lanes(x.opcode, x.operands) for r in operand.registers] == registers
