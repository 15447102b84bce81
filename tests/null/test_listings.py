"""Listings as files, no tool needed: a disassembler's text, a paper's, and text that is neither."""

from __future__ import annotations

import time
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from warplens.core.errors import WarplensError
from warplens.machine import KINDS, load_machine
from warplens.program import instruction as classes
from warplens.program import list_kernels, load_program
from warplens.program.control_flow import flow_graph
from warplens.program.program import Program
from warplens.program.static_analysis import static_analysis

KEPLER = """
	code for sm_35
		Function : _Z4axpyPff
	.headerflags    @"EF_CUDA_SM35 EF_CUDA_PTX_SM(EF_CUDA_SM35)"
                                                                   /* 0x08b0a0a0a0a08cc0 */
        /*0008*/                MOV R1, c[0x0][0x44];              /* 0x64c03c00089c0006 */
        /*0010*/                S2R R0, SR_CTAID.X;                /* 0x86400000129c0002 */
        /*0018*/       {        IADD R2, R0, 0x1;                  /* 0xc0c00000009c0009 */
        /*0020*/                LD.E R3, [R4]        }
                                                                   /* 0xc4800000001c100c */
        /*0028*/                FADD R3, R3, R2;                   /* 0xe2c00000011c0c0e */
        /*0030*/                ISETP.GE.AND P0, PT, R0, R2, PT;   /* 0x5b681c00281c001e */
        /*0038*/            @P0 BRA 0x18;                          /* 0x12007ffff000000c */
                                                                   /* 0x08b0a0a0a0a08cc0 */
        /*0048*/                ST.E [R4], R3;                     /* 0xe4800000001c100c */
        /*0050*/                EXIT;                              /* 0x18000000001c003c */
"""
PAPER = """
# the inner loop of listing 3.5
      MOV R2, 0x10;
loop: LD R1, [R1]          ; latency=512
      FADD R1, R1, R2; FMUL R3, R1, R1     // two in a row
      FROB.X R9, R3, [R6+0x10]             /* nobody knows it */
      ISETP.LT P0, R1, R2
  @P0 BRA loop
      ST [R4], R3
      EXIT
"""
HOPPER = """
	code for sm_90
		Function : plain
        /*0000*/              LDC R1, c[0x0][0x28] ;             /* 0x00000a00ff017b82 */
                                                                 /* 0x000fe20000000800 */
        /*0010*/         @!P0 BRA 0x10 ;                         /* 0xfffffffc00fc8947 */
                                                                 /* 0x000fc0000383ffff */
        /*0020*/              EXIT ;                             /* 0x000000000000794d */
"""


def _loaded(tmp_path: Path, text: str, name: str = "k.txt") -> Program:
    path = tmp_path / name
    path.write_text(text)
    return load_program(path)


def test_kepler_text_with_offsets_and_addresses(tmp_path: Path) -> None:
    program = _loaded(tmp_path, KEPLER, "k.sass")
    assert program.demangled == "axpy(float*, float)" and program.arch == "sm_35"
    assert [i.opcode for i in program.instructions][2:5] == ["IADD", "LD", "FADD"]
    assert program.instructions[6].target == 0x18 and len(flow_graph(program).loops) == 1
    assert program.instructions[3].reads == ("R4", "R5")  # .E: an address of 64 bits
    assert not any(i.control for i in program.instructions)  # its control words are another matter
    assert list_kernels(tmp_path / "k.sass") == ["axpy(float*, float)"]


def test_a_papers_listing_without_offsets(tmp_path: Path) -> None:
    program = _loaded(tmp_path, PAPER)
    assert len(program.instructions) == 9 and [i.offset for i in program.instructions[:3]] == [0, 8, 16]
    (loop,) = flow_graph(program).loops
    assert program.instructions[6].target == 8 and len(loop.blocks) == 1
    compare = program.instructions[5]
    assert (compare.writes, compare.reads) == (("P0",), ("R1", "R2"))  # one predicate, unlike machine code
    static_analysis(program, load_machine("gtx680"))


def test_an_unknown_opcode_is_kept_and_read_by_the_default_rule(tmp_path: Path) -> None:
    program = _loaded(tmp_path, PAPER)
    frob = program.instructions[4]
    assert (frob.kind, frob.writes, frob.reads) == ("other", ("R9",), ("R3", "R6"))
    assert [x.opcode for x in program.instructions if x.kind == "other"] == ["FROB"]
    strange = "/*0000*/ ZAP.???7 R4, P1, R2, c[0x0][R8], 0x5 ; \n/*0010*/ EXIT ;"
    zap = _loaded(tmp_path, strange).instructions[0]
    assert zap.writes == ("R4", "P1") and zap.reads == ("R2", "R8") and zap.modifiers == ("???7",)


def test_control_codes_come_from_the_words_behind(tmp_path: Path) -> None:
    first, second, third = _loaded(tmp_path, HOPPER).instructions
    assert first.control is not None and (first.control.stall, first.control.write_scoreboard) == (1, None)
    assert second.control is not None and second.target == 0x10
    assert third.control is None  # its upper word is missing


def test_two_architectures_in_one_listing(tmp_path: Path) -> None:
    path = tmp_path / "two.sass"
    path.write_text(HOPPER + HOPPER.replace("sm_90", "sm_80").replace("BRA 0x10", "BRA 0x0"))
    assert list_kernels(path) == ["plain"]
    assert load_program(path).arch == "sm_90"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no instructions found"),
        ("\n \n# a comment\n", "no instructions found"),
        ("Dear all,\nFADD is an instruction.", "line 1: not an instruction: 'Dear all,'"),
        ("FADD R1, R1, R2\nand so on", "line 2: not an instruction: 'and so on'"),
        ("HELLO\nWORLD", "no instructions found"),
        ("/*0000*/ ;\n/*0010*/ ~~~ ;", "line 2: not an instruction: '~~~'"),
        ("\x1b[31mred", "not an instruction: '\\x1b[31mred'"),
    ],
)
def test_nonsense_costs_one_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(WarplensError) as caught:
        _loaded(tmp_path, text)
    assert message in str(caught.value) and str(caught.value).isprintable()


@pytest.mark.parametrize(
    "row",
    [
        "FADD " + "R1, " * 30000, "FADD R1" + ".a" * 50000, "LDG R1, [" + "R1+" * 30000 + "R2]", "BRA `(" + "x" * 99999,
        "FADD R1" + " " * 100000, "a: " * 30000, "/*" * 50000, "MOV R" + "9" * 5000, "MOV R1, 0x" + "f" * 5000,
        "MOV R1, " + "9" * 5000, "TEX", "TEX R1", "P2R R1, PR, RZ, inf", "R2P PR, R1, nan", "HGMMA.axbxc R1",
        "HGMMA.64x999x16.F32 R1, R2", "ISETP", "@P0", "@P0 ", "[[[[", "IMAD.WIDE", "SULD.D.3D R1, [R2]", "F2F.F64 R1",
        "DMMA.16x8x16 R1, R2",
    ],
)  # fmt: skip
def test_strange_rows_neither_break_nor_stall_the_reader(row: str, tmp_path: Path) -> None:
    start = time.process_time()
    for text in (f"/*0000*/ {row} ;\n/*0010*/ EXIT ;", f"{row}\nEXIT"):
        try:
            static_analysis(_loaded(tmp_path, text), load_machine("h200"))
        except WarplensError as error:
            assert "\n" not in str(error)
    assert time.process_time() - start < 2


def test_one_table_of_opcodes() -> None:
    table = tomllib.loads((Path(classes.__file__).parent / "files" / "classes.toml").read_text())["classes"]
    assert set(table) <= set(KINDS)
    counts = Counter(opcode for opcodes in table.values() for opcode in opcodes)
    assert set(counts.values()) == {1}
    assert classes.classified("HFMA2", ("MMA", "X")) == "half" and classes.classified("FMAD") == "fp32"
    assert classes.classified("NONESUCH", ("A",)) == "other"
