"""Text to registers, by the shapes of operands; rows to instructions, in pairs and one by one."""

from __future__ import annotations

import re

import pytest

from warplens.program.decoding import decode_texts
from warplens.program.disassembly import parse_disassembly
from warplens.program.instruction import parse_operand
from warplens.program.register_use import accesses

# text, reads, writes
INSTRUCTIONS = [
    ("FFMA R5, R0, -R5, |R82|.reuse", "R0 R5 R82", "R5"),
    ("FADD.FTZ R1, -|R2|, 1.5", "R2", "R1"),
    ("FMUL R1, R1, -1.4012984643248170709e-45", "R1", "R1"),
    ("FADD R1, R2, +INF", "R2", "R1"),
    ("HFMA2 R1, R2.H0_H0, 0.5, 0.5, R3.H1_H1", "R2 R3", "R1"),
    ("IMAD.WIDE R2, R17, 0x4, R2", "R17 R2 R3", "R2 R3"),
    ("DFMA R2, R4, R4, -R2", "R4 R5 R2 R3", "R2 R3"),
    ("LDG.E.128.CONSTANT R4, desc[UR4][R2.64+0x10]", "UR4 UR5 R2 R3", "R4 R5 R6 R7"),
    ("LDG.E R4, [R2.64+UR4+0x10]", "R2 R3 UR4 UR5", "R4"),
    ("LDG.E R4, [R2]", "R2 R3", "R4"),
    ("LDG.E R4, [R2.U32+UR4]", "R2 UR4 UR5", "R4"),
    ("STG.E.64 desc[UR6][R10.64+-0x8], R12", "UR6 UR7 R10 R11 R12 R13", ""),
    ("LDS.64 R4, [R8+UR4+0x10]", "R8 UR4", "R4 R5"),
    ("LDS R4, [R8.X4+0x10]", "R8", "R4"),
    ("FADD R1, R2, -c[0x0][R4+0x10]", "R2 R4", "R1"),
    ("MOV R1, c[0x0][0x28]", "", "R1"),
    ("FADD R1, R2, |c[0x3][0x10]|", "R2", "R1"),
    ("FMUL R1, R2, cx[UR4][0x10]", "R2 UR4 UR5", "R1"),
    ("@!P0 BRA `(.L_x_1)", "P0", ""),
    ("@!UP1 UIADD3 UR4, UP0, UR4, 0x1, URZ", "UP1 UR4", "UR4 UP0"),
    ("ISETP.GE.U32.AND P0, PT, R4, RZ, !P1", "R4 P1", "P0"),
    ("P2R R3, PR, RZ, 0x5", "P0 P2", "R3"),
    ("R2P PR, R3.B1, 0x3", "R3", "P0 P1"),
    ("UP2UR UR9, UPR, URZ, 0x42", "UP1 UP6", "UR9"),
    ("UR2UP UPR, UR3, 0x3", "UR3", "UP0 UP1"),
    ("TEX.LL R4, R2, R8, R10, 0x0, 2D, 0x7", "R8 R9 R10", "R4 R2 R3"),
    ("TEX.LL R4, R2, R8, R10, 0x0, 2D, 0xf", "R8 R9 R10", "R4 R5 R2 R3"),
    ("HMMA.16816.F32 R8, R4, R2, R8", "R4 R5 R6 R7 R2 R3 R8 R9 R10 R11", "R8 R9 R10 R11"),
    ("HGMMA.64x16x16.F32 R24, gdesc[UR8], R24", "UR8 UR9 UR10 UR11 " + " ".join(f"R{i}" for i in range(24, 32)),
     " ".join(f"R{i}" for i in range(24, 32))),
    ("BRX R2 -0x350 (*\"BRANCH_TARGETS .L_x_1,.L_x_2\"*)", "R2 R3", ""),
    ("RET.REL.NODEC R20 `(f)", "R20 R21", ""),
    ("DEPBAR.LE SB0, 0x1", "SB0", ""),
    ("S2R R0, SR_TID.X", "", "R0"),
    ("FADD R001, R2, R12345", "R2", "R001"),
    ("FADD", "", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reads", "writes"), INSTRUCTIONS)
def test_what_is_read_and_written(text: str, reads: str, writes: str) -> None:
    found = decode_texts([text]).get(text)
    assert found is not None
    assert (found.reads, found.writes) == (tuple(reads.split()), tuple(writes.split()))
    assert len(set(found.reads)) == len(found.reads)


@pytest.mark.parametrize(("text", "reads", "writes"), INSTRUCTIONS)
def test_other_numbers_in_the_same_shape(text: str, reads: str, writes: str) -> None:
    """Registers counted up by 8 and other offsets, with what the first text left in the caches."""
    if "PR" in text or "R12345" in text:
        return  # the predicates of a mask have fixed numbers; a number of five digits is no register

    def moved(text: str) -> str:
        return re.sub(r"(?<![A-Za-z0-9_.$])((?:UR|UP|SB|R|P|B))(\d+)\b", lambda m: f"{m[1]}{int(m[2]) + 8}", text)

    decode_texts([text]).get(text)
    sibling = moved(text)
    if "+0x10]" in sibling:
        sibling = sibling.replace("+0x10]", "+-0xfe0]")
    found = decode_texts([sibling]).get(sibling)
    assert found is not None and found.text == sibling
    assert (found.reads, found.writes) == (tuple(moved(reads).split()), tuple(moved(writes).split()))
    assert all(operand.text in sibling for operand in found.operands)


@pytest.mark.parametrize(("text", "reads", "writes"), INSTRUCTIONS)
def test_the_rules_see_in_a_shape_what_they_see_in_the_operand(text: str, reads: str, writes: str) -> None:
    found = decode_texts([text]).get(text)
    assert found is not None
    texts = tuple(operand.text for operand in found.operands)
    shapes = tuple(parse_operand(one)[1] for one in texts)
    assert [parse_operand(shape)[1] for shape in shapes] == list(shapes)
    assert accesses(found.opcode, found.modifiers, shapes, 2) == accesses(found.opcode, found.modifiers, texts, 2)


@pytest.mark.parametrize(
    "odd",
    [
        "FADD R1,R2, R3",
        "FADD  R1,  R2 , R3",
        "FADD\tR1, R2,\tR3",
        "@P0  FADD R1, R2, R3",
        "FADD , R2, R3",
        "FADD R1, R2, ",
        "FADD R1, , R3",
        "TEX R4, [R2, R3], R8",
        "LDS R4, [R8], R2]",
        "LDS R4, [R8",
        "~~~",
        "",
        f"FADD {'R1, ' * 40}R2",
        INSTRUCTIONS[0][0],
    ],
)
def test_texts_together_and_one_by_one(odd: str) -> None:
    """Operands laid end to end are divided as those of one text are, also where one text is not written evenly."""
    texts = [*(text for text, _, _ in INSTRUCTIONS), odd, "EXIT"]
    found = decode_texts(texts)
    assert list(found) == [text for text in dict.fromkeys(texts) if decode_texts([text]).get(text) is not None]
    assert all(instruction == decode_texts([text]).get(text) for text, instruction in found.items())


def test_operands_that_are_not_written_evenly() -> None:
    for text in ("FADD R1,R2, R3", "FADD  R1 ,  R2 , R3", "FADD\tR1, , R2,\tR3", "FADD , R1, R2, R3, "):
        found = decode_texts([text]).get(text)
        assert found is not None and (found.writes, found.reads) == (("R1",), ("R2", "R3")), text
        assert [operand.text for operand in found.operands] == ["R1", "R2", "R3"]


@pytest.mark.parametrize(
    "text", ["[R4+R6.X4]", "desc[UR4][R4.64+0x10]", "c[0x2][R4+0x10]", "-|R4|", "!UP3", "0x10", "2D"]
)
def test_an_operand_keeps_its_own_text(text: str) -> None:
    parse_operand.cache_clear()
    alone = parse_operand(text)
    assert alone[0].text == text
    parse_operand(re.sub(r"0x10", "0x44", text))
    assert parse_operand(text) == alone


WORDS = "/* 0x00000a00ff017b82 */\n                      /* 0x000fe20000000800 */"
ROWS = [
    f"        /*0000*/  LDC R1, c[0x0][0x28] ;  {WORDS}\n        /*0010*/  EXIT ;  {WORDS}\n",
    f"        /*0000*/  NOP;  {WORDS}\n        /*0010*/  EXIT;  {WORDS}",  # the last row has no end
    f"        /*0000*/  MOV R1, 0x1 ;  {WORDS}\n        /*0000*/  MOV R2, 0x1 ;  {WORDS}\n",  # an offset twice
    f"        /*0010*/  MOV R1, 0x1 ;  {WORDS}\n        /*0008*/  MOV R2, 0x1 ;  {WORDS}\n",  # and one that is back
    f"        /*0008*/  MOV R1, 0x1 ;  {WORDS}\n",  # an offset that has no words
    f"        /*0010*/  MOV R1, 0x1 ;  {WORDS[:24]}\n        /*0020*/  EXIT ;  {WORDS}\n",  # the upper word is missing
    f"        /*0010*/  MOV R1, 0x1 ;\n  {WORDS}\n",  # the lower one is in the row behind
    f".L_x_0:\n        /*0010*/  MOV R1, 0x1 ;  {WORDS}\n.L_x_1:\n        /*0020*/  BRA `(.L_x_0) ;  {WORDS}\n",
    f".L_x_0: /*0010*/  MOV R1, 0x1 ;  {WORDS}\n",
    f'\t.section\t.text.one,"ax"\n /*0000*/ EXIT ;  {WORDS}\n\t.section\t.text.two,"ax"\n /*0000*/ EXIT ; {WORDS}\n',
    f'\t//## File "a;b.cu", line 7\n        /*0000*/  EXIT ;  {WORDS}\n',
    f"        /*0000*/  {{ MOV R1, 0x1 ;  {WORDS}\n        /*0010*/  EXIT }}  {WORDS}\n",
    f"        /*0000*/  MOV R1, 0x1 ; /* a; \"b\" */ {WORDS}\n",
    f"        /*0000*/  MOV R\u0661, R\u00e9 ;  {WORDS}\n        /*0010*/  EXIT ;  {WORDS}\n",
    f"        /*0000*/  FADD R1{' ' * 50000}, R2, R3 ;  {WORDS}\n",
    f"        /*0000*/  FADD {'R1, ' * 20000} ;  {WORDS}\n",
    f"        /*0000*/  BRA `({'x' * 60000}) ;  {WORDS}\n",
    " " * 60000 + "/*" * 30000,
    f"        /*0000*/ ;  {WORDS}\n        /*0010*/  ~~~ ;  {WORDS}\n        /*0020*/  EXIT ;  {WORDS}\n",
]  # fmt: skip


@pytest.mark.parametrize("rows", ROWS, ids=range(len(ROWS)))
@pytest.mark.parametrize("arch", ["sm_75", "sm_86", "sm_90"])
def test_rows_in_pairs_and_one_by_one(rows: str, arch: str) -> None:
    """A row that ends in CR and LF is read by itself, never as one of a pair: both readings agree."""
    text = f"\tcode for {arch}\n\t\tFunction : f\n{rows}"
    assert parse_disassembly(text) == parse_disassembly(text.replace("\n", "\r\n"))


def test_pairs_are_read_as_pairs() -> None:
    first, second = parse_disassembly(ROWS[0])[0].instructions
    assert first.control is not None and first.control.stall == 1 and second.control is not None
    (only,) = parse_disassembly(ROWS[4])[0].instructions
    assert only.control is None  # 0x8: an instruction of 8 bytes
    missing, other = parse_disassembly(ROWS[5])[0].instructions
    assert missing.control is None and other.control is not None
    labelled = parse_disassembly(ROWS[7])[0]
    assert labelled.labels == {".L_x_0": 0x10, ".L_x_1": 0x20} and labelled.instructions[1].target == 0x10
    assert [f.name for f in parse_disassembly(ROWS[9])] == ["one", "two"]
    assert parse_disassembly(ROWS[10])[0].instructions[0].line == 7
