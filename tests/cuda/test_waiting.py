"""The disassembler that is started before the code is there: what it says is what it says of the whole cubin."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from pathlib import Path

import pytest

from warplens.errors import WarplensError
from warplens.frontend import Options, load_program, toolchain
from warplens.frontend.cubin import parse_cubin
from warplens.frontend.lines import UnknownTable, source_lines
from warplens.frontend.waiting import Disassembler, waiting

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE = """
__device__ __forceinline__ float called(float x) {
  return x > 3.f ? x * 2.f : sinf(x);
}
extern "C" __global__ void before(float* p) { if (p[1] > 0) p[0] = 1; }
extern "C" __global__ void kernel(float* p, int n) {
  float s = 0;
  for (int i = 0; i < n; i++)
    s += called(p[i]) / p[threadIdx.x];
  p[threadIdx.x] = s;
}
"""


def asked_once(disassembler: Disassembler, answers: list[str | None]) -> Disassembler:
    def ask(code: bytes) -> str | None:
        answers.append(disassembler(code))
        return answers[-1]

    return ask


def children(name: str) -> list[Path]:
    """Return the processes of a name that this one has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            _, called, rest = stat.read_text().replace("(", ")").split(")", 2)
            found += [stat] if called == name and int(rest.split()[1]) == os.getpid() else []
    return found


def same(path: Path, kernel: str | None, arch: str) -> bool:
    answers = list[str | None]()
    with waiting(arch) as disassembler:
        early = load_program(path, kernel, Options(arch), asked_once(disassembler, answers))
    assert [bool(answer) for answer in answers] == [True]
    return early == load_program(path, kernel, Options(arch))


@pytest.mark.parametrize("arch", ["sm_90", "sm_80"])
def test_inlined_lines_calls_and_labels_are_those_of_the_cubin(tmp_path: Path, arch: str) -> None:
    (tmp_path / "k.cu").write_text(SOURCE)
    assert same(tmp_path / "k.cu", "kernel", arch)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.cu")), ids=lambda path: path.stem)
def test_every_example_is_the_same(path: Path) -> None:
    from warplens.frontend import list_kernels

    for kernel in list_kernels(path, Options("sm_90")):
        assert same(path, kernel, "sm_90")


def test_it_waits_for_code_that_takes_longer_than_its_tables() -> None:
    with waiting("sm_90") as disassembler:
        time.sleep(1.0)  # it opens its file meanwhile, and a signal tells us so
        text = disassembler(bytes.fromhex("4d790000000000000000800300ea0f00"))
    assert text is not None and " EXIT ;" in text


def test_without_leases_or_the_tool_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "fcntl", refused)
        with waiting("sm_90") as disassembler:
            assert disassembler(bytes(16)) is None
    with waiting("sm_1") as disassembler:  # it ends at once
        assert disassembler(bytes(16)) is None
    monkeypatch.setattr(toolchain, "tool", refused)
    with waiting("sm_90") as disassembler:
        assert disassembler(bytes(16)) is None


def test_what_is_not_asked_goes_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    start = time.monotonic()
    with pytest.raises(WarplensError, match="of the body"), waiting("sm_90"):
        assert list(tmp_path.iterdir()) and children("nvdisasm")
        raise WarplensError("of the body")
    assert not list(tmp_path.iterdir())
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    assert time.monotonic() - start < 10
    assert not children("nvdisasm")


def test_code_that_is_no_code_is_refused_as_usual() -> None:
    with waiting("sm_90") as disassembler:
        assert disassembler(b"\xff" * 32) is None


def test_a_damaged_line_table_is_not_believed(tmp_path: Path) -> None:
    from warplens.frontend.compile import compile_file

    (tmp_path / "k.cu").write_text(SOURCE)
    made, _ = compile_file(tmp_path / "k.cu", Options("sm_90"), tmp_path)
    data = made.read_bytes()
    cubin = parse_cubin(data, "k")
    symbol, table = cubin.symbol("kernel"), cubin.sections[".debug_line"]
    assert symbol is not None and source_lines(cubin, symbol)
    for at in range(table.start, table.start + table.size):
        for value in (0, 0x7F, 0xFF):
            try:
                source_lines(parse_cubin(data[:at] + bytes([value]) + data[at + 1 :], "k"), symbol)
            except UnknownTable:
                continue
