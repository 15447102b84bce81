"""The decoder against nvdisasm's own analysis, over a corpus of kernels times seven architectures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from warplens.program import toolchain
from warplens.program.control_flow import flow_graph
from warplens.program.cubin import parse_cubin
from warplens.program.decoding import decode_texts
from warplens.program.disassembly import control_of, parse_disassembly
from warplens.program.instruction import Control, Instruction, parse_operand
from warplens.program.load import without_padding
from warplens.program.program import Program
from warplens.program.register_use import accesses

from .corpus import CORPUS, TOGETHER, compiled, parts
from .oracle import Graph, blocks_and_edges, definitions_and_uses, joined, live_ranges

pytestmark = pytest.mark.cuda
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
NEXT_OF_KIN = ("sm_80", "sm_100")  # sm_86 and sm_89 have the instructions of the one, sm_120 those of the other
CASES = [
    pytest.param(
        sources,
        arch,
        id=f"{arch}-{which}",
        marks=[
            *[pytest.mark.slow][: which == "rest" or arch in NEXT_OF_KIN],
            *[TOGETHER][: arch == "sm_90"],
        ],
    )
    for arch in (*ARCHITECTURES, "sm_90a")
    for which, sources in zip(("always", "rest"), parts(arch), strict=True)
    if sources
]


def _explained(instruction: Instruction, wrong: set[str]) -> str:
    """Return why nvdisasm -plr and we differ on an instruction; an empty string is a disagreement."""
    if instruction.opcode == "CALL":
        return "it marks what a callee may clobber by the ABI; we mark what the call itself reads"
    if instruction.opcode in ("P2R", "R2P"):
        return "it does not track predicates moved as one register"
    if all(r.startswith("UR") and int(r[2:]) >= 63 for r in wrong):
        return "it knows no uniform register beyond UR62; sm_100 has more"
    if instruction.opcode == "LDGSTS" and all(r.startswith("P") for r in wrong):
        return "it marks the zero-fill predicate as written; a copy only reads it"
    if instruction.opcode == "TLD" and wrong == {"UR5"}:
        return "on sm_120 it counts one register of the texture handle for TLD but two for TEX"
    return ""


# Kernels of a source, and instructions without padding, at least, on every architecture: each source is held to them.
SIZES = {
    "apps": (14, 3870), "async_copy": (7, 670), "atomics": (12, 980), "calls_local": (16, 3160), "control": (15, 1740),
    "convert": (9, 290), "gemm": (8, 4180), "half_hdr": (12, 770), "integer": (18, 1410), "large": (3, 9360),
    "math": (16, 3370), "memory": (15, 670), "reduce_scan": (11, 1180), "stream": (18, 440), "templates": (17, 580),
    "tensor": (11, 1000), "transpose_stencil": (11, 960), "warp": (9, 390), "wgmma_sm90a": (3, 360),
    "wmma_groups_hdr": (6, 680),
}  # fmt: skip


@pytest.mark.parametrize("rest", [False, True])
def test_the_size_of_the_corpus(rest: bool) -> None:
    sources = [source for arch in ARCHITECTURES for part in parts(arch)[: 1 + rest] for source in part]
    assert sum(SIZES[stem][0] for stem in {source.stem for source in sources}) >= 60
    assert sum(SIZES[source.stem][1] for source in sources) >= 20_000
    assert len(ARCHITECTURES) == 7 and all(set(parts(arch)[0]) <= set(sources) for arch in ARCHITECTURES)
    assert not rest or len(sources) == 7 * sum("sm90a" not in source.stem for source in CORPUS)


@pytest.mark.parametrize(("sources", "arch"), CASES)
def test_operands_flow_and_scoreboards(sources: list[Path], arch: str, tmp_path: Path) -> None:
    file = compiled(sources, arch, tmp_path / "kernel.cubin")
    text = live_ranges(file)
    functions = parse_disassembly(text)
    marks, graph = definitions_and_uses(text), blocks_and_edges(file, functions)
    assert len(functions) >= sum(SIZES[source.stem][0] for source in sources)
    assert sum(len(f.instructions) for f in functions) >= sum(SIZES[source.stem][1] for source in sources)
    _check_reading(text, functions)
    for function in functions:
        program = without_padding(function, "corpus.cu")
        _check_operands(program, marks)
        _check_shapes(program)
        _check_flow(program, graph[function.name])
        assert not unguarded(program), program.name
        assert not [i for i in program.instructions if i.kind == "other"], "an opcode without a class"


def _check_reading(text: str, functions: list[Program]) -> None:
    """Rows read in pairs, and one by one: those that have live ranges behind them are no pairs."""
    plain, count = re.subn(r"(?m)(?<![ \t])[ \t]*+//[ \t|+].*$", "", text)
    assert count > len(text.splitlines()) / 2
    assert parse_disassembly(plain) == functions


def _check_shapes(program: Program) -> None:
    """What the rules say of the shapes of an instruction's operands, they say of the operands as written."""
    for instruction in program.instructions:
        texts = tuple(operand.text for operand in instruction.operands)
        shapes = tuple(parse_operand(text)[1] for text in texts)
        of = instruction.opcode, instruction.modifiers
        assert accesses(*of, shapes, 1) == accesses.__wrapped__(*of, texts, 1), instruction.text


def _check_operands(program: Program, marks: dict[tuple[str, int], tuple[set[str], set[str]]]) -> None:
    for instruction in program.instructions:
        defined, used = marks[program.name, instruction.offset]
        writes = {r for r in instruction.writes if r[0] in "RPU"}
        reads = {r for r in instruction.reads if r[0] in "RPU"}
        wrong = (writes ^ defined) | (reads ^ used)
        assert not wrong or _explained(instruction, wrong), (program.name, instruction.text, sorted(wrong))


def _check_flow(program: Program, theirs: Graph) -> None:
    flow, code = flow_graph(program), program.instructions
    blocks, edges = joined(theirs, {code[b.first].offset for b in flow.blocks})
    known = {offset for first, last in blocks for offset in range(first, last + 16, 16)}
    ours = {(code[b.first].offset, code[b.last].offset) for b in flow.blocks if code[b.first].offset in known}
    arrows = {(code[b.first].offset, code[flow.blocks[s].first].offset) for b in flow.blocks for s in b.successors}
    arrows = {(a, b) for a, b in arrows if a in known and b in known}
    assert ours == blocks, program.name
    assert not arrows - edges, program.name
    for first, _ in edges - arrows:  # it draws a call inside the section, such as a recursion, as an edge
        block = next(b for b in flow.blocks if code[b.first].offset == first)
        # and on some architectures goes on behind a trap
        assert code[block.last].opcode in ("CALL", "BPT"), (program.name, hex(first))


@pytest.mark.parametrize(
    ("edges", "kept"),
    [
        ({(0, 32)}, {(0, 48)}),
        ({(0, 32), (32, 32)}, {(0, 16), (32, 48)}),  # something else comes there
        ({(0, 32), (0, 0)}, {(0, 16), (32, 48)}),  # the block above goes elsewhere too
        (set(), {(0, 16), (32, 48)}),  # it never goes on there
    ],
)
def test_only_straight_cuts_are_joined(edges: set[tuple[int, int]], kept: set[tuple[int, int]]) -> None:
    blocks = {(0, 16), (32, 48)}
    assert joined((blocks, edges), {0}) == (kept, edges if kept == blocks else set())
    assert joined((blocks, edges), {0, 32}) == (blocks, edges)  # we begin a block there too


def test_what_comes_after_two_straight_cuts_comes_after_their_block() -> None:
    graph = {(0, 0), (16, 16), (32, 32), (48, 48)}, {(0, 16), (16, 32), (32, 0), (32, 48)}
    assert joined(graph, {0, 48}) == ({(0, 32), (48, 48)}, {(0, 0), (0, 48)})


Pending = set[tuple[str, frozenset[int]]]  # a register, and the scoreboards of which one must be waited for


def unguarded(program: Program) -> list[Instruction]:
    """Return the instructions that, on some way through the program, read what they did not wait for."""
    flow, code = flow_graph(program), program.instructions
    entering: list[Pending] = [set() for _ in flow.blocks]
    todo, wrong = list(flow.blocks), dict[int, Instruction]()
    while todo:
        block = todo.pop()
        pending = entering[block.index]
        for at in range(block.first, block.last + 1):
            pending = {(r, boards) for r, boards in pending if not boards & _waited(code[at])}
            if any(r in code[at].reads for r, _ in pending):
                wrong[at] = code[at]
            pending = {(r, boards) for r, boards in pending if r not in code[at].writes} | _started(code[at])
        for successor in block.successors:
            if not pending <= entering[successor]:
                entering[successor] |= pending
                todo.append(flow.blocks[successor])
    return list(wrong.values())


def _waited(instruction: Instruction) -> set[int]:
    """Return the scoreboards that an instruction waits for.

    DEPBAR.LE SB5, 0x2 waits until two are left to come, which are the last that were started; a set has no order, so
    that here it counts as a wait for all.
    """
    assert instruction.control is not None
    named = [o.registers[0] for o in instruction.operands if o.kind == "scoreboard"]
    return {*instruction.control.waits, *(int(name[2:]) for name in named if instruction.opcode == "DEPBAR")}


def _started(instruction: Instruction) -> Pending:
    control = instruction.control
    if control is None or control.write_scoreboard is None:
        return set()
    # the predicate of an ATOM says what memory it is and comes with the sources read
    early = {control.read_scoreboard} - {None}
    return {(r, frozenset({control.write_scoreboard, *(early if r[0] == "P" else ())})) for r in instruction.writes}


def test_a_control_field_read_one_bit_off_is_noticed(tmp_path: Path) -> None:
    """The scoreboard check can fail: with the field shifted by one bit it does."""
    file = compiled([s for s in CORPUS if s.stem == "stream"], "sm_90", tmp_path / "kernel.cubin")
    text = toolchain.run("nvdisasm", "-c", "-hex", file)
    upper = re.compile(r"(?m)^( +/\* 0x)([0-9a-f]{16})(?= \*/$)")
    shifted = upper.sub(lambda found: f"{found[1]}{int(found[2], 16) >> 1:016x}", text)
    assert not unguarded(without_padding(parse_disassembly(text)[0], "x"))
    assert unguarded(without_padding(parse_disassembly(shifted)[0], "x"))
    assert control_of("000fe2").stall == 1  # LDC R1, c[0x0][0x28] as published by nvdisasm -hex


@pytest.mark.parametrize(("waits", "wrong"), [(0, 1), (1, 0), (2, 1)])
def test_a_wait_behind_a_branch(waits: int, wrong: int) -> None:
    """A load in a loop, read at its top on the next round, in another block: only its scoreboard helps."""
    free = Control(1, False, None, None, 0, 0)
    code = [
        ("LDS R2, [R1]", 0, replace(free, write_scoreboard=0)),
        ("BRA 0x20", 16, replace(free, wait_mask=1)),
        ("FADD R3, R3, R2", 32, replace(free, wait_mask=waits)),
        ("LDS R2, [R3]", 48, replace(free, write_scoreboard=0)),
        ("@P0 BRA 0x20", 64, free),
        ("EXIT", 80, free),
    ]
    made = [(decode_texts([text]).get(text), offset, control) for text, offset, control in code]
    targets = {16: 32, 64: 32}
    rows = [replace(i, offset=at, control=c, target=targets.get(at)) for i, at, c in made if i is not None]
    assert len(unguarded(Program("f", "f", "sm_90", rows))) == wrong


@pytest.mark.parametrize("arch", ["sm_90", *(pytest.param(a, marks=pytest.mark.slow) for a in ("sm_75", "sm_120"))])
def test_only_computed_branches_need_nvdisasms_analysis(arch: str, tmp_path: Path) -> None:
    sources = [source for source in CORPUS if source.stem in ("calls_local", "control")]
    file = compiled(sources, arch, tmp_path / "corpus.cubin")
    cubin = parse_cubin(file.read_bytes(), "corpus")
    texts = [toolchain.run("nvdisasm", "-c", "-g", "-hex", *more, str(file)) for more in ((), ("-ndf",))]
    whole, plain = ({f.name: f for f in parse_disassembly(text)} for text in texts)
    computing = {name for name in cubin.kernels() if cubin.computes_branches(name)}
    assert {name for name in whole if whole[name] != plain[name]} == computing
    assert computing == {"switch_jump_table"} < set(whole)
