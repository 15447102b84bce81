"""The decoder against nvdisasm's own analysis, over a corpus of kernels times seven architectures."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from warplens.frontend import nvrtc, toolchain
from warplens.frontend.disassembly import control_of, parse_disassembly
from warplens.frontend.load import _assembled
from warplens.kernel.flow import flow_graph
from warplens.kernel.instruction import Instruction
from warplens.kernel.program import Program

from .oracle import blocks_and_edges, definitions_and_uses, live_ranges

pytestmark = pytest.mark.cuda
CORPUS = sorted((Path(__file__).parents[1] / "corpus").glob("*.cu"))
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
# A hundred kernels of each kind on every architecture; the others with `make test-all`.
ALWAYS = {"async_copy", "atomics", "control", "convert", "gemm", "half_hdr", "large", "math", "tensor", "warp"}
ALWAYS |= {"wgmma_sm90a"}


def _always(stem: str, arch: str) -> bool:
    return stem in ALWAYS and (stem != "large" or arch in ("sm_75", "sm_90", "sm_120"))


_ALL = [(s, arch) for s in CORPUS for arch in (("sm_90a",) if "sm90a" in s.stem else ARCHITECTURES)]
CASES = [
    pytest.param(source, arch, id=f"{source.stem}-{arch}", marks=() if _always(source.stem, arch) else pytest.mark.slow)
    for source, arch in _ALL
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


@pytest.mark.parametrize(("source", "arch"), CASES)
def test_operands_flow_and_scoreboards(source: Path, arch: str, tmp_path: Path) -> None:
    file = tmp_path / "kernel.cubin"
    includes = [f"-I{folder}" for folder in toolchain.include_folders()] if source.stem.endswith("_hdr") else []
    nvrtc.compile_source(source.read_text(), source.name, arch, includes, file)
    text = live_ranges(file)
    functions = parse_disassembly(text)
    marks, graph = definitions_and_uses(text), blocks_and_edges(file, functions)
    assert functions
    for function in functions:
        program = _assembled(function, source.name)
        _check_operands(program, marks)
        _check_flow(program, *graph[function.name])
        assert not unguarded(program.instructions), program.name
        assert not [i for i in program.instructions if i.kind == "other"], "an opcode without a class"


def _check_operands(program: Program, marks: dict[tuple[str, int], tuple[set[str], set[str]]]) -> None:
    for instruction in program.instructions:
        defined, used = marks[program.name, instruction.offset]
        writes = {r for r in instruction.writes if r[0] in "RPU"}
        reads = {r for r in instruction.reads if r[0] in "RPU"}
        wrong = (writes ^ defined) | (reads ^ used)
        assert not wrong or _explained(instruction, wrong), (program.name, instruction.text, sorted(wrong))


def _check_flow(program: Program, blocks: set[tuple[int, int]], edges: set[tuple[int, int]]) -> None:
    flow, code = flow_graph(program), program.instructions
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


def unguarded(code: list[Instruction]) -> list[Instruction]:
    """Return the instructions that read a register whose scoreboard they, in straight line, never waited for."""
    pending: dict[str, set[int]] = {}
    wrong = []
    for instruction in code:
        control = instruction.control
        assert control is not None
        pending = {r: boards for r, boards in pending.items() if not boards & set(control.waits)}
        if any(r in pending for r in instruction.reads) and instruction.kind != "shared":
            wrong.append(instruction)
        for register in instruction.writes:
            pending.pop(register, None)
            if control.write_scoreboard is not None:
                # the predicate of an ATOM says what memory it is and comes with the sources read
                early = (
                    {control.read_scoreboard} if register[0] == "P" and control.read_scoreboard is not None else set()
                )
                pending[register] = {control.write_scoreboard, *early}
        if instruction.opcode in ("BRA", "EXIT", "RET", "CALL", "BRX", "BSYNC", "DEPBAR", "WARPSYNC"):
            pending.clear()  # another path may come in, or the wait is elsewhere
    return wrong


def test_a_control_field_read_one_bit_off_is_noticed(tmp_path: Path) -> None:
    """The scoreboard check can fail: with the field shifted by one bit it does."""
    file = tmp_path / "kernel.cubin"
    source = next(s for s in CORPUS if s.stem == "stream")
    nvrtc.compile_source(source.read_text(), source.name, "sm_90", [], file)
    function = parse_disassembly(toolchain.run("nvdisasm", "-c", "-hex", file))[0]
    shifted = {offset: (low, high >> 1) for offset, (low, high) in function.words.items()}
    assert not unguarded(_assembled(function, "x").instructions)
    assert unguarded(_assembled(replace(function, words=shifted), "x").instructions)
    assert control_of(0x000FE20000000800).stall == 1  # LDC R1, c[0x0][0x28] as published by nvdisasm -hex
