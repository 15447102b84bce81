"""A compiler's message as the user sees it: his lines as they are, and no line of a file that is not his."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from warplens.cli import main
from warplens.core.errors import RefusedSource, WarplensError
from warplens.program import Options, load_program
from warplens.program import compile as flags
from warplens.program.compile import shown_message

pytestmark = pytest.mark.cuda
SECRET = "hunter2:x:0:0\n"
# With `vector`, NVRTC refuses the source, and what nvcc says is shown; a folder without gcc leaves NVRTC alone.
HOST = "#include <vector>\n"
HAS_NVCC = shutil.which("gcc") is not None


@pytest.fixture(params=["NVRTC", pytest.param("nvcc", marks=pytest.mark.skipif(not HAS_NVCC, reason="needs gcc"))])
def compiler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    if request.param == "NVRTC":
        monkeypatch.setenv("PATH", str(tmp_path))
    return str(request.param)


def refusal(path: Path, **options: object) -> RefusedSource:
    with pytest.raises(RefusedSource) as caught:
        load_program(path, options=Options(**options))  # type: ignore[arg-type]
    return caught.value


def test_a_message_has_file_line_and_caret(
    tmp_path: Path, compiler: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my kernel.cu").write_text("__global__ void k(float *p) {\n  p[0] = nothing + 1;\n}\n")
    assert main(["show", "my kernel.cu"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(f"warplens: my kernel.cu: {compiler} ") and lines[0].endswith(" refused it:")
    assert lines[1] == 'my kernel.cu(2): error: identifier "nothing" is undefined'
    assert lines[2].index("nothing") == lines[3].index("^")


def test_a_header_in_an_include_folder_is_quoted_by_its_own_name(tmp_path: Path, compiler: str) -> None:
    (tmp_path / "one" / "src").mkdir(parents=True)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "bad.h").write_text("__device__ int f() { return missing; }\n")
    source = tmp_path / "one" / "src" / "k.cu"
    source.write_text('#include "bad.h"\n__global__ void k(int *p) { *p = f(); }\n')
    message = refusal(source, includes=[str(tmp_path / "two")]).message
    assert f'{tmp_path / "two" / "bad.h"}(1): error: identifier "missing" is undefined' in message


@pytest.mark.parametrize("way", ["absolute", "relative", "link", "linked folder"])
def test_no_other_file_is_quoted(tmp_path: Path, compiler: str, way: str) -> None:
    secret, folder = tmp_path / "elsewhere" / "secret.txt", tmp_path / "a" / "src"
    secret.parent.mkdir()
    secret.write_text(SECRET)
    folder.mkdir(parents=True)
    named = {"absolute": str(secret), "relative": "../../elsewhere/secret.txt", "link": "link.h",
             "linked folder": "there/secret.txt"}[way]  # fmt: skip
    (folder / "link.h").symlink_to(secret)
    (folder / "there").symlink_to(secret.parent)
    (folder / "k.cu").write_text(f'#include "{named}"\n__global__ void k(int *p) {{ *p = 1; }}\n')
    error = refusal(folder / "k.cu")
    assert "hunter2" not in str(error) and "(not shown)" in error.message
    assert Path(named).name in error.message.partition("(not shown)")[0]


def test_lines_after_a_file_that_is_not_shown_are_shown_again(tmp_path: Path) -> None:
    text = (
        "/elsewhere/secret(1): error: no type\n  hunter2\n  ^\n\n/elsewhere/secret(2): error: more\n  hunter2\n"
        'k.cu(3): error: \x1b[31mnamed\x1b[0m\n  here\n\n3 errors detected in the compilation of "k.cu".\n'
    )
    assert shown_message(text, "k.cu", [tmp_path], {}, tmp_path).splitlines() == [
        "in /elsewhere/secret (not shown)", "k.cu(3): error: named", "  here", "",
        '3 errors detected in the compilation of "k.cu".',
    ]  # fmt: skip
    host = "/elsewhere/secret:1:2: error: missing\n    1 | hunter2\n      | ^\ncompilation terminated.\n"
    assert (
        shown_message(host, "k.cu", [tmp_path], {}, tmp_path)
        == "in /elsewhere/secret (not shown)\ncompilation terminated."
    )


def test_a_relative_name_is_relative_to_where_the_compiler_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another folder the same name is another file, which may be the user's own."""
    ran, own = tmp_path / "ran" / "x", tmp_path / "own" / "x"
    for folder in (ran, own, tmp_path / "own" / "etc"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(own)
    text = "../etc/secret(1): error: no type\n  hunter2\n"
    assert "hunter2" not in shown_message(text, "k.cu", [tmp_path / "own"], {}, ran)
    assert "hunter2" in shown_message(text, "k.cu", [tmp_path / "own"], {}, own)


@pytest.mark.parametrize(
    "flag",
    [
        "-ccbin=/tmp/x", "--compiler-bindir=/tmp/x", "-Xcompiler=-fplugin=x.so", "-Xcompiler", "--run", "-run", "-o",
        "-ox", "--output-file=x", "--dryrun", "--options-file=x", "-optf=x", "--keep-dir=x", "-keep", "-t=4", "-MD",
        "-Xptxas=-o,x", "-Xptxas=--options-file=x", "--ptxas-options=-v,-o,x", "-std=c++17;touch x", "-std=$(touch x)",
        "-Xlinker=x", "-include=/etc/passwd", "--pre-include=/etc/passwd", "-std=c++17\n", "x.cu", "-L.", "-lfoo",
        "-forward-unknown-to-host-compiler", "--library-path=x", "-gencode=arch=compute_90,code=sm_90", "-arch=native",
    ],
)  # fmt: skip
def test_a_flag_that_could_run_or_write_something_is_refused(flag: str) -> None:
    with pytest.raises(WarplensError, match="the compiler flag"):
        flags.checked_flags([flag], "k.cu")


def test_flags_of_a_launch_file_reach_the_compiler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "by.h").write_text("#define BY 3\n")
    (tmp_path / "src" / "k.cu").write_text(
        '#include "by.h"\n#include "more.h"\nstatic_assert(__cplusplus >= 202002L && BY * MORE + TWO == 14);\n'
        "__global__ void k(int *p) { *p = BY * MORE + TWO; }\n"
    )
    (tmp_path / "inc2").mkdir()
    (tmp_path / "inc2" / "more.h").write_text("#define MORE 4\n")
    launch = tmp_path / "src" / "k.toml"
    text = 'file = "k.cu"\ngrid = 1\nblock = 32\nincludes = ["../inc"]\nflags = {flags}\n'
    text += '[[arg]]\ntype = "i32*"\ncount = 32\n'
    launch.write_text(text.replace("{flags}", '["-std=c++20", "-O3", "-DTWO=2", "-I../inc2", "-Xptxas=-v"]'))
    assert main(["show", str(tmp_path / "src" / "k.cu"), "--launch", str(launch)]) == 0
    capsys.readouterr()
    launch.write_text(text.replace("{flags}", '["-Xcompiler=-fplugin=x.so"]'))
    assert main(["show", str(tmp_path / "src" / "k.cu"), "--launch", str(launch)]) == 2
    assert "the compiler flag '-Xcompiler=-fplugin=x.so' is not one that may be given" in capsys.readouterr().err
    launch.write_text(text.replace("../inc", "../none").replace("{flags}", "[]"))
    assert main(["show", str(tmp_path / "src" / "k.cu"), "--launch", str(launch)]) == 2
    assert "includes: " in (err := capsys.readouterr().err) and "no such folder" in err


@pytest.mark.skipif(not HAS_NVCC, reason="nvcc needs a host compiler")
def test_a_flag_that_nvcc_alone_knows_goes_to_nvcc(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        "constexpr int two() { return 2; }\n__global__ void k(int *p) { *p = two(); }\nint main() {}\n"
    )
    made = load_program(tmp_path / "k.cu", options=Options(flags=["--expt-relaxed-constexpr"]))
    assert made.tools[0].startswith("nvcc ")


def test_without_a_host_compiler_it_is_said_that_nvcc_needs_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    (tmp_path / "k.cu").write_text(HOST + "__global__ void k(int *p) { *p = 1; }\n")
    assert refusal(tmp_path / "k.cu").message.endswith(
        "nvcc needs a host compiler (g++), and there is none on the PATH"
    )
