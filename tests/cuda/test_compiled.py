"""Compiled kernels that are kept: found again for the same source, and only for that."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from warplens.api import request
from warplens.cli.call import request_of
from warplens.cli.parser import parser
from warplens.core.cache import Cache
from warplens.core.errors import WarplensError
from warplens.machine import load_machine
from warplens.program import Options, compile, nvrtc
from warplens.program import load as compiled
from warplens.program.load import load_traced
from warplens.program.program import Program
from warplens.tuner import points
from warplens.workload.launch import load_launch

pytestmark = pytest.mark.cuda
SOURCE = '#include "by.h"\n__global__ void times(float *a) { a[threadIdx.x] *= BY + MORE; }\n'
LAUNCH = 'file = "times.cu"\ngrid = 1\nblock = 32\n[[arg]]\nname = "a"\ntype = "f32*"\ncount = 32\n'


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "kept"))
    (tmp_path / "times.cu").write_text(SOURCE)
    (tmp_path / "by.h").write_text("#define BY 2\n")
    (tmp_path / "times.toml").write_text(LAUNCH)
    return tmp_path / "times.toml"


def load(launch: Path, *options: str) -> Program:
    args = parser().parse_args(["analyze", "--launch", str(launch), "-DMORE=1", *options])
    return request.load(request_of(args), load_machine(args.machine))[0]


def refuse(*_: object) -> str:
    raise WarplensError("compiled again")


def test_a_kernel_is_compiled_once(launch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And again where its source, what it includes, a macro, or an option changes, or what is kept was damaged."""
    first = load(launch)
    monkeypatch.setattr(nvrtc, "compile_source", refuse)
    assert load(launch) == first
    for changed in (["-DMORE=2"], ["--use_fast_math"], ["--gpu", "a100"], ["--no-cache"]):
        with pytest.raises(WarplensError, match="compiled again"):
            load(launch, *changed)
    (launch.parent / "by.h").write_text("#define BY 3\n")
    with pytest.raises(WarplensError, match="compiled again"):
        load(launch)
    (launch.parent / "by.h").write_text("#define BY 2\n")
    assert load(launch) == first
    (kept,) = (file for file in (launch.parent / "kept").rglob("*") if file.is_file())
    kept.write_bytes(kept.read_bytes()[:-1])
    with pytest.raises(WarplensError, match="compiled again"):
        load(launch)
    assert not kept.exists()


def test_nothing_is_kept_where_nothing_shall_be(launch: Path) -> None:
    """With --no-cache, and of a source that is not known whole."""
    load(launch, "--no-cache")
    (launch.parent / "times.cu").write_text('#define NAME "by.h"\n#include NAME\n' + SOURCE)
    load(launch)
    assert not (launch.parent / "kept").exists()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="nvcc needs a host compiler")
def test_what_nvcc_made_is_kept_with_all_that_it_read(launch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And made again where a header of the system changes, which our own search for includes does not come to."""
    system = launch.parent / "system"
    system.mkdir()
    (system / "more.h").write_text("#define FROM_THE_SYSTEM 1\n")
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", str(system))
    (launch.parent / "times.cu").write_text("#include <vector>\n#include <more.h>\n" + SOURCE)
    first = load(launch)
    assert first.tools[0].startswith("nvcc ")
    compile_file, made = compile.compile_file, list[Path]()

    def noted(path: Path, options: Options, folder: Path) -> compile.Compiled:
        made.append(path)
        return compile_file(path, options, folder)

    monkeypatch.setattr("warplens.program.load.compile_file", noted)
    assert load(launch) == first and not made
    (launch.parent / "by.h").write_text("#define BY 3\n")
    assert load(launch) != first and len(made) == 1
    (launch.parent / "by.h").write_text("#define BY 2\n")
    assert load(launch) == first and len(made) == 1
    (system / "more.h").write_text("#define FROM_THE_SYSTEM 2\n")
    load(launch)
    load(launch)
    assert len(made) == 2
    (system / "more.h").unlink()
    with pytest.raises(WarplensError, match=r"more\.h"):
        load(launch)


def test_the_same_source_elsewhere_has_its_own_name(launch: Path, tmp_path: Path) -> None:
    first, other = load(launch), tmp_path / "other"
    other.mkdir()
    for name in ("times.cu", "by.h", "times.toml"):
        (other / name).write_text((tmp_path / name).read_text())
    second = load(other / "times.toml")
    assert [x.opcode for x in first.instructions] == [x.opcode for x in second.instructions]
    assert (second.origin, second.source_file) == (str(other / "times.cu"), str(other / "times.cu"))


def test_a_folder_that_takes_nothing_does_no_harm(launch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (launch.parent / "kept").write_text("a file, not a folder")
    assert load(launch) == load(launch)
    assert Cache(launch.parent / "kept" / "warplens").get("0" * 64, Program) is None


@pytest.mark.parametrize(("written", "found"), [("<a.h>", "inc"), ('"a.h"', "s")])
def test_a_header_is_looked_for_where_the_compilers_look(
    written: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In quotes beside the file that includes it first, in angle brackets in the include folders: by NVRTC and nvcc."""
    for folder, value in (("s", 1), ("inc", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.h").write_text(f"#define VALUE {value}\n")
    source, cache = tmp_path / "s" / "k.cu", Cache(tmp_path / "kept")
    check = f'#if VALUE != {1 if found == "s" else 2}\n#error "the other one"\n#endif\n'
    source.write_text(f"#include {written}\n{check}__global__ void k(int *p) {{ *p = VALUE; }}\n")
    options = Options(includes=[str(tmp_path / "inc")])
    first = compiled.kept(source, None, options, cache)
    (tmp_path / found / "a.h").write_text((tmp_path / found / "a.h").read_text() + "#define CHANGED\n")
    monkeypatch.setattr(compiled, "load_traced", refuse)
    with pytest.raises(WarplensError, match="compiled again"):
        compiled.kept(source, None, options, cache)
    if shutil.which("gcc"):
        monkeypatch.undo()
        by_nvcc = replace(options, flags=["--extended-lambda"])  # NVRTC has none
        monkeypatch.chdir(tmp_path)
        program, read = load_traced(source.relative_to(tmp_path), None, by_nvcc)
        assert program.tools[0].startswith("nvcc ") and all(file.is_file() for file in read)
        assert [x.text for x in program.instructions] == [x.text for x in first.instructions]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="nvcc needs a host compiler")
def test_a_key_is_of_what_nvcc_read_too(launch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers of the system decide what a sweep counts, as they decide what is compiled."""
    system = launch.parent / "system"
    system.mkdir()
    (system / "more.h").write_text("#define MORE 1\n")
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", str(system))
    (launch.parent / "times.cu").write_text("#include <vector>\n#include <more.h>\n" + SOURCE)
    call, gpu, cache = load_launch(launch), load_machine("h200"), Cache(launch.parent / "sweep")
    key, program = points.compiled(call, gpu, cache)
    assert key is not None and points.compiled(call, gpu, cache) == (key, program)
    (system / "more.h").write_text("#define MORE 2\n")
    other, changed = points.compiled(call, gpu, cache)
    assert other not in (None, key) and changed != program
