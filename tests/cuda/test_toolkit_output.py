"""Cubins and listings as other toolkits write them: read, left to nvdisasm, or refused in one line."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from warplens.cli import main
from warplens.core.errors import FileError
from warplens.program import Options, load_program, toolchain
from warplens.program.compile import compile_file
from warplens.program.cubin import Cubin, parse_cubin
from warplens.program.encoding import UnknownTable, source_lines
from warplens.program.program import Program

pytestmark = [pytest.mark.cuda, pytest.mark.xdist_group("emulator")]

SOURCE = """
extern "C" __global__ void kernel(int n, float* p) {
  float a[128];
  for (int i = 0; i < 128; i++)
    a[i] = p[i];
  p[threadIdx.x] = a[n & 127] + a[threadIdx.x & 127];
}
"""
LAUNCH = """
file = "k.cu"
grid = 4
block = 32
arg = [{ name = "n", type = "i32", value = 3 }, { name = "p", type = "f32*", count = 1024 }]
"""
NO_BOUND, LEAST_STACK, SYMBOL_AND_NUMBER = b"\xff" * 4, 0x12, "<BBHII"
UNKNOWN_KIND, UNKNOWN_CODE = 0x7000_0999, 0xEE
NEEDED = (".shstrtab", ".strtab", ".symtab", ".text.kernel", ".nv.info", ".nv.info.kernel", ".nv.constant0.kernel")


@pytest.fixture
def cubin(tmp_path: Path) -> Cubin:
    (tmp_path / "k.cu").write_text(SOURCE)
    made = compile_file(tmp_path / "k.cu", Options("sm_90"), tmp_path)
    return parse_cubin(made.cubin.read_bytes(), "k.cubin")


def patched(cubin: Cubin, at: int, data: bytes) -> Cubin:
    return parse_cubin(cubin.elf[:at] + data + cubin.elf[at + len(data) :], "k.cubin")


def loaded(cubin: Cubin, folder: Path) -> Program:
    (folder / "k.cubin").write_bytes(cubin.elf)
    return load_program(folder / "k.cubin", "kernel")


def attributes(cubin: Cubin, section: str) -> Iterator[tuple[int, int]]:
    """Yield the place in the file and the code of each attribute: a byte of form, one of code, a value or a size."""
    at = cubin.sections[section].start
    while at < cubin.sections[section].start + cubin.sections[section].size:
        form, code, size = struct.unpack_from("<BBH", cubin.elf, at)
        yield at, code
        at += 4 + (size if form == 4 else 0)


def test_of_a_stack_without_a_bound_the_kernels_own_frame_counts(cubin: Cubin) -> None:
    frame = cubin.resources("kernel").frame_bytes
    assert frame >= 128 * 4  # the array
    (place,) = [at for at, code in attributes(cubin, ".nv.info") if code == LEAST_STACK]
    assert struct.unpack_from(SYMBOL_AND_NUMBER, cubin.elf, place)[4] == frame
    assert patched(cubin, place + 8, NO_BOUND).resources("kernel").frame_bytes == frame


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5, 9, 0xFFFF])
def test_a_line_table_of_another_version_is_left_to_nvdisasm(version: int, cubin: Cubin, tmp_path: Path) -> None:
    known, table = loaded(cubin, tmp_path), cubin.sections[".debug_line"].start
    changed = patched(cubin, table + 4, struct.pack("<H", version))
    symbol = changed.symbol("kernel")
    assert symbol is not None
    if version in (2, 3):  # of one form
        assert source_lines(changed, symbol) == source_lines(cubin, symbol)
        assert loaded(changed, tmp_path) == known
        return
    with pytest.raises(UnknownTable):
        source_lines(changed, symbol)
    slower = loaded(changed, tmp_path)
    assert slower.tools == [*known.tools, toolchain.found("nvdisasm").version]
    lineless = [replace(i, line=None) for i in known.instructions]
    assert [replace(i, line=None) for i in slower.instructions] == lineless


def test_sections_of_an_unknown_kind_are_passed_over(cubin: Cubin, tmp_path: Path) -> None:
    known, others = loaded(cubin, tmp_path), [s for n, s in cubin.sections.items() if n and n not in NEEDED]
    headers, (size,) = struct.unpack_from("<Q", cubin.elf, 40)[0], struct.unpack_from("<H", cubin.elf, 58)
    assert len(others) > 5
    for section in others:
        changed = patched(cubin, headers + section.index * size + 4, struct.pack("<I", UNKNOWN_KIND))
        assert changed.sections != cubin.sections
        assert loaded(changed, tmp_path) == known


@pytest.mark.parametrize("section", [".nv.info", ".nv.info.kernel"])
def test_unknown_attributes_are_passed_over(section: str, cubin: Cubin, tmp_path: Path) -> None:
    known = loaded(cubin, tmp_path)
    for place, _ in attributes(cubin, section):
        made = loaded(patched(cubin, place + 1, bytes([UNKNOWN_CODE])), tmp_path)
        assert replace(made, resources=known.resources) == known


def test_rows_that_nvdisasm_did_not_write_so_far_are_passed_over(
    cubin: Cubin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warplens.program.load.writer", lambda _: None)
    known, run = loaded(cubin, tmp_path), toolchain.run
    rows = "\t.novelty 3, %s\n.L_x_99:\n//## Column 7 of 9\n"

    def newer(*given: str, **options: object) -> str:
        return run(*given, **options).replace("        /*0", f"{rows}        /*0")  # type: ignore[arg-type]

    monkeypatch.setattr(toolchain, "run", newer)
    assert loaded(cubin, tmp_path) == known
    monkeypatch.setattr(toolchain, "run", lambda *_, **__: '<code name="kernel"><op at="0">EXIT</op></code>\n')
    with pytest.raises(FileError, match=r"k\.cubin: nvdisasm found no code for 'kernel'"):
        loaded(cubin, tmp_path)


def test_a_newer_toolkit_is_a_note_of_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.cu").write_text(SOURCE)
    (tmp_path / "k.toml").write_text(LAUNCH)
    commands = (["show", "k.cu"], ["show", "k.cu", "--launch", "k.toml"], ["analyze", "--launch", "k.toml", "--fast"])
    monkeypatch.chdir(tmp_path)
    for newest, notes in ((toolchain.NEWEST_TESTED, 0), ((1, 0), 1)):
        monkeypatch.setattr(toolchain, "NEWEST_TESTED", newest)
        for command in commands:
            assert main(command) == 0
            out, err = capsys.readouterr()
            assert not err and " ".join(out.split()).count("warplens was tested up to 1.0") == notes


def test_the_newest_tools_are_named() -> None:
    assert toolchain.untested(["NVRTC 13.5", "ptxas 13.4.92", "nvdisasm 13.5.37", "nvcc 12.9.1", "Triton 99.0"]) == []
    assert toolchain.untested(["NVRTC 13.6", "nvdisasm 14.0.1", "ptxas 13.5.99"]) == [
        "machine code by NVRTC 13.6, nvdisasm 14.0.1; warplens was tested up to 13.5"
    ]
