"""Sources without end: what they include is looked at first, and compilers have limits, which are said as ours."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from warplens.core import processes
from warplens.core.errors import WarplensError
from warplens.core.files import LARGEST_TEXT_BYTES
from warplens.program import Options, load_program, toolchain

pytestmark = pytest.mark.cuda
KERNEL = "__global__ void k(int *p) { *p = 1; }\n"
# With `vector`, NVRTC refuses the source and nvcc compiles it. A name that a macro holds is none that we can tell.
HOST, COMPUTED = "#include <vector>\n", "#define NAME {}\n#include NAME\n"
BOMB = "#define A0 x+\n" + "".join(f"#define A{i + 1} {f'A{i} ' * 8}\n" for i in range(12))
BOMB += "__global__ void k(int *p) { int x = *p; *p = A12 0; }\n"  # 8 to the power of 12 additions
NEEDS_NVCC = pytest.mark.skipif(shutil.which("gcc") is None, reason="nvcc needs a host compiler")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "include").mkdir()
    os.mkfifo(tmp_path / "include" / "f.cu")
    os.mkfifo(tmp_path / "f.cu")
    return tmp_path


def said(text: str, **options: object) -> str:
    """Return what is said of a source."""
    Path("k.cu").write_text(text)
    with pytest.raises(WarplensError) as caught:
        load_program("k.cu", options=Options(**options))  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize(
    ("named", "includes"),
    [('"f.cu"', []), ("<f.cu>", ["include"]), ('"include/../f.cu"', []), ('"/dev/zero"', []), ('"link.h"', [])],
)
def test_an_include_is_a_plain_file(named: str, includes: list[str]) -> None:
    Path("link.h").symlink_to("/dev/zero")
    assert said(f"#include {named}\n{KERNEL}", includes=includes) == f"k.cu: #include {named}: not a plain file"


def test_an_include_of_an_include_is_looked_at_also_behind_one_that_cannot_be_told(folder: Path) -> None:
    (folder / "by.h").write_text('#include "f.cu"\n')
    (folder / "empty.h").write_text("// caf\xe9\n", encoding="latin-1")
    text = COMPUTED.format('"empty.h"') + '#include "by.h"\n' + KERNEL
    assert said(text).endswith('by.h: #include "f.cu": not a plain file')
    (folder / "k.cu").write_text(COMPUTED.format('"empty.h"') + '#include "empty.h"\n' + KERNEL)
    assert load_program("k.cu").name == "_Z1kPi"


def test_an_include_has_a_largest_size(folder: Path) -> None:
    with (folder / "large.h").open("wb") as stream:
        stream.truncate(LARGEST_TEXT_BYTES + 1)
    assert said('#include "large.h"\n' + KERNEL) == 'k.cu: #include "large.h": larger than 64 MiB'


def test_an_include_whose_name_no_file_can_have_is_the_compiler_s_to_refuse() -> None:
    assert "refused it:\nk.cu" in said(f'#include "{"x" * 300}.h"\n' + KERNEL)


@pytest.mark.parametrize("host", ["", pytest.param(HOST, marks=NEEDS_NVCC)])
def test_a_compiler_that_waits_is_ended(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setattr(processes, "IDLE_SECONDS", 0.5)
    message = said(host + COMPUTED.format('"f.cu"') + KERNEL, toolkit="wheels")
    who = "nvcc" if host else "NVRTC"
    assert message.startswith(f"k.cu: {who} used no processor time for 0.5 s: it waits, as for a pipe")


@NEEDS_NVCC
def test_nvcc_has_a_limit_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "COMPILER_BYTES", 1 << 29)
    message = said(HOST + COMPUTED.format('"/dev/zero"') + KERNEL)
    assert message == "k.cu: nvcc needed more than 0.5 GiB of memory; compile it yourself and give the cubin"


@NEEDS_NVCC
def test_the_time_that_nvcc_has_is_said_as_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "COMPILER_SECONDS", 1.0)
    message = said(HOST + BOMB)
    assert message == ("k.cu: nvcc did not finish within 1 s of processor time; compile it yourself and give the cubin")


def test_a_limit_is_said_in_words() -> None:
    limits = 5.0, 1 << 30
    code, _, err = processes.execute([sys.executable, "-c", "bytearray(3 << 30)"], *limits)
    assert processes.excess(code, err, *limits) == "needed more than 1 GiB of memory"
    for line in (
        b"cc1plus: out of memory allocating 65536 bytes after a total of 1 bytes", b"virtual memory exhausted: Cannot",
        b"terminate called after throwing an instance of 'std::bad_alloc'",
        b"k.cu(1): catastrophic error: out of memory",
        b"ptxas fatal   : Memory allocation failure",
    ):  # fmt: skip
        assert processes.excess(1, b"first\n" + line, *limits) == "needed more than 1 GiB of memory"
    for line in (b"gcc: internal compiler error: CPU time limit exceeded signal terminated program cc1plus",
                 b"nvcc error   : 'cicc' died due to signal 24"):  # fmt: skip
        assert processes.excess(4, line, *limits) == "did not finish within 5 s of processor time"
    assert not processes.excess(2, b'k.cu:1:2: error: #error "out of memory"', *limits)
    assert not processes.excess(0, b"virtual memory exhausted", *limits)


def test_a_program_whose_child_works_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "IDLE_SECONDS", 0.5)
    busy = "import time\nwhile time.process_time() < 0.9: pass"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    assert processes.execute([sys.executable, "-c", program], 10.0)[0] == 0
    assert processes.execute(["sleep", "60"], 10.0)[0] == processes.STALLED
