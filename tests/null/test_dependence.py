"""The dependence graph, ways and loop facts on small listings whose answers are worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.machine import load_machine
from warplens.program import load_program
from warplens.program.control_flow import Flow
from warplens.program.dataflow import Edge
from warplens.program.instruction import Instruction
from warplens.program.program import Program
from warplens.program.static_analysis import StaticAnalysis, static_analysis

LOOP = """
        /*0000*/ MOV R0, RZ ;
        /*0010*/ MOV R1, RZ ;
.L_x_1:
        /*0020*/ LDS R2, [R0] ;
        /*0030*/ FADD R1, R1, R2 ;
        /*0040*/ IADD3 R0, R0, 0x4, RZ ;
        /*0050*/ ISETP.NE.AND P0, PT, R0, 0x400, PT ;
        /*0060*/ @P0 BRA `(.L_x_1) ;
        /*0070*/ STS [R0], R1 ;
        /*0080*/ BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0090*/ LDS R3, [RZ] ;
        /*00a0*/ STG.E [R4.64], R3 ;
        /*00b0*/ EXIT ;
"""

DIAMOND = """
        /*0000*/ MOV R0, RZ ;
.L_x_1:
        /*0010*/ ISETP.GT.AND P1, PT, R0, R5, PT ;
        /*0020*/ @P1 BRA `(.L_x_2) ;
        /*0030*/ FMUL R2, R2, R3 ;
        /*0040*/ FMUL R2, R2, R3 ;
        /*0050*/ FMUL R2, R2, R3 ;
        /*0060*/ BRA `(.L_x_3) ;
.L_x_2:
        /*0070*/ FADD R2, R2, R3 ;
.L_x_3:
        /*0080*/ IADD3 R0, R0, 0x1, RZ ;
        /*0090*/ ISETP.NE.AND P0, PT, R0, 0x400, PT ;
        /*00a0*/ @P0 BRA `(.L_x_1) ;
        /*00b0*/ STG.E [R4.64], R2 ;
        /*00c0*/ EXIT ;
"""


def _analysed(text: str, folder: Path, gpu: str = "gtx980") -> tuple[Program, StaticAnalysis]:
    file = folder / "listing.sass"
    file.write_text(text)
    program = load_program(file)
    return program, static_analysis(program, load_machine(gpu))


def _named(program: Program, edges: list[Edge], kind: str) -> set[tuple[int, int, str, bool]]:
    at = [x.offset >> 4 for x in program.instructions]
    return {(at[e.producer], at[e.consumer], e.what, e.carried is not None) for e in edges if e.kind == kind}


def test_edges_of_a_loop(tmp_path: Path) -> None:
    program, a = _analysed(LOOP, tmp_path)
    assert _named(program, a.edges, "data") == {
        (0, 2, "R0", False), (4, 2, "R0", True),  # the address: from outside first, then around
        (1, 3, "R1", False), (3, 3, "R1", True), (2, 3, "R2", False),
        (0, 4, "R0", False), (4, 4, "R0", True), (4, 5, "R0", False),
        (4, 7, "R0", False), (3, 7, "R1", False), (9, 10, "R3", False),
    }  # fmt: skip
    assert _named(program, a.edges, "predicate") == {(5, 6, "P0", False)}


def test_recurrence_and_steady_state_from_the_machine_file(tmp_path: Path) -> None:
    # GTX 980: arithmetic 6 cycles. Around: FADD 6 on itself, IADD3 6 on itself.
    _, a = _analysed(LOOP, tmp_path)
    (loop,) = a.loops
    assert loop.recurrence_cycles == 6
    (way,) = loop.paths
    assert way.cycles == pytest.approx(sum(step.cycles for step in way.critical_path))
    # ISETP waits for IADD3 (6), BRA for ISETP (6): at least 12 cycles a turn, and 5 instructions
    assert way.cycles >= 12
    assert loop.classes == {"shared": 1, "fp32": 1, "int": 2, "branch": 1}


def test_two_ways_around_a_loop_of_several_blocks(tmp_path: Path) -> None:
    _, a = _analysed(DIAMOND, tmp_path)
    (loop,) = a.loops
    short, long = loop.paths
    assert len(short.blocks) == 3
    assert len(long.blocks) == 3
    assert short.blocks != long.blocks
    assert short.cycles < long.cycles
    assert loop.recurrence_cycles == 18  # three dependent FMUL at 6 cycles
    assert a.paths[0].cycles < a.paths[-1].cycles


def test_a_value_is_carried_by_the_loop_whose_back_edge_it_takes(tmp_path: Path) -> None:
    text = """
        /*0000*/ MOV R5, RZ ;
.L_x_1:
        /*0010*/ MOV R6, RZ ;
.L_x_2:
        /*0020*/ MUFU.RCP R5, R0 ;
        /*0030*/ MUFU.RCP R0, R5 ;
        /*0040*/ @P0 BRA `(.L_x_3) ;
        /*0050*/ MOV R0, R8 ;
        /*0060*/ BRA `(.L_x_2) ;
.L_x_3:
        /*0070*/ @P1 BRA `(.L_x_1) ;
        /*0080*/ EXIT ;
"""
    _, a = _analysed(text, tmp_path, "h200")
    outer, inner = a.flow.loops
    assert outer.depth < inner.depth
    carried = {(e.producer, e.consumer, e.carried) for e in a.edges if e.what == "R0" and e.carried is not None}
    assert carried == {(3, 2, 0), (5, 2, 1)}  # the inner loop overwrites R0 before it goes around
    assert a.loops[1].recurrence_cycles == 0
    for loop in a.loops:
        for way in loop.paths:
            assert sum(step.cycles for step in way.critical_path) == pytest.approx(way.cycles)


def test_a_guarded_write_leaves_the_old_value(tmp_path: Path) -> None:
    text = """
        /*0000*/ MOV R0, RZ ;
        /*0010*/ @P0 MOV R0, R1 ;
        /*0020*/ FADD R2, R0, R0 ;
        /*0030*/ EXIT ;
"""
    program, a = _analysed(text, tmp_path)
    assert {(p, c) for p, c, what, _ in _named(program, a.edges, "data") if what == "R0"} == {(0, 2), (1, 2)}


def producers_by_walking(code: list[Instruction], flow: Flow, at: int, register: str) -> set[int]:
    """Find who may have written a register by walking backwards along every path: slow, and written anew."""
    before: dict[int, list[int]] = {}
    for block in flow.blocks:
        for i in range(block.first, block.last):
            before.setdefault(i + 1, []).append(i)
        for s in block.successors:
            before.setdefault(flow.blocks[s].first, []).append(block.last)
    found: set[int] = set()
    seen: set[int] = set()
    stack = list(before.get(at, []))
    while stack:
        i = stack.pop()
        if i in seen:
            continue
        seen.add(i)
        if register in code[i].writes:
            found.add(i)
            if not code[i].guard:
                continue
        stack += before.get(i, [])
    return found


@pytest.mark.parametrize("text", [LOOP, DIAMOND], ids=["loop", "diamond"])
def test_edges_equal_a_walk_along_all_paths(text: str, tmp_path: Path) -> None:
    program, a = _analysed(text, tmp_path)
    for i, x in enumerate(program.instructions):
        for register in x.reads:
            ours = {e.producer for e in a.edges if e.consumer == i and e.what == register}
            assert ours == producers_by_walking(program.instructions, a.flow, i, register)
