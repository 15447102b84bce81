"""Which CUDA toolkit compiles: the installed one before the wheels, or the one that is named; what is said of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from warplens.cli import main
from warplens.core.errors import WarplensError
from warplens.program import Options, load_program, toolchain
from warplens.program import nvrtc as nvrtc_compile
from warplens.program.compile import assemble

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="nvcc needs a host compiler"),
]
SOURCE = "__global__ void times(float *a) { a[threadIdx.x] *= 2; }\n"


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    """A toolkit as a user may have it: of the wheels' files, without NVRTC, nvdisasm and cuobjdump."""
    made, (wheels, *_) = tmp_path / "cuda-13", toolchain.wheel_folders()
    (made / "bin").mkdir(parents=True)
    for file in (wheels / "bin").iterdir():
        if file.name not in ("nvdisasm", "cuobjdump"):
            (made / "bin" / file.name).symlink_to(file)
    for part in ("include", "nvvm"):
        (made / part).symlink_to(wheels / part)
    return made


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "times.cu").write_text(SOURCE)
    return tmp_path / "times.cu"


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(toolchain, "INSTALLED", tmp_path / "none")
    monkeypatch.setattr("shutil.which", lambda name: None if name == "nvcc" else f"/usr/bin/{name}")


def by(source: Path, toolkit: str | None = None) -> str:
    return load_program(source, options=Options(toolkit=toolkit)).tools[0]


def test_the_installed_toolkit_comes_before_the_wheels(
    source: Path, toolkit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = toolchain.wheels().version("nvcc")
    own = f"nvcc {release} of {toolkit}"
    assert re.fullmatch(r"NVRTC \d+\.\d+ \(wheel\)", by(source))
    for name in ("CUDA_PATH", "CUDA_HOME"):
        monkeypatch.setenv(name, str(toolkit))
        assert by(source) == own
        monkeypatch.setenv(name, str(toolkit / "none"))  # what is not there is passed over
        assert by(source).startswith("NVRTC")
    monkeypatch.setattr(toolchain, "INSTALLED", toolkit)
    assert by(source) == own
    assert by(source, "wheels").startswith("NVRTC") and by(source, str(toolkit)) == own
    monkeypatch.setenv("CUDA_HOME", str(toolchain.wheel_folders()[0]))  # the wheels, by their folder
    assert by(source).startswith("NVRTC")


def test_the_nvcc_on_the_path_may_be_a_script(source: Path, toolkit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = source.parent / "bin" / "nvcc"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {toolchain.wheel_folders()[0]}/bin/nvcc "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda name: str(script))
    assert toolchain.chosen().is_wheels  # that is where the real one is
    monkeypatch.setattr("shutil.which", lambda name: str(toolkit / "bin" / "nvcc"))
    (toolkit / "include").unlink()  # so that it is asked
    assert toolchain.chosen().folders


def test_what_a_toolkit_lacks_comes_from_the_wheels(toolkit: Path, tmp_path: Path) -> None:
    found = toolchain.found("nvdisasm", str(toolkit))
    assert found.path.parent == toolchain.wheel_folders()[0] / "bin"
    assert found.version.endswith(f"(wheel: {toolkit} has none)")
    old = toolkit / "bin" / "nvdisasm"
    old.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.4, V12.4.127'\n")
    old.chmod(0o755)
    assert toolchain.found("nvdisasm", str(toolkit), "12.4.131").path == old
    newer = toolchain.found("nvdisasm", str(toolkit), "13.0.88")
    assert newer.version.endswith(f"(wheel: that of {toolkit} is older than the code)")


def test_ptx_that_is_newer_than_ptxas_goes_to_the_wheels(toolkit: Path, tmp_path: Path) -> None:
    ptxas, ptx = toolkit / "bin" / "ptxas", tmp_path / "k.ptx"
    ptxas.unlink()
    ptxas.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo V12.4.127 && exit\n'
        "echo 'ptxas k.ptx, line 1; fatal   : Unsupported .version 8.5; current version is 8.4' >&2; exit 255\n"
    )
    ptxas.chmod(0o755)
    ptx.write_text(".version 8.5\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n")
    made = assemble(ptx, Options(toolkit=str(toolkit)), tmp_path, tmp_path / "k.cubin")
    assert made.cubin.is_file()
    assert made.tools[0].endswith(f"(wheel: ptxas 12.4.127 of {toolkit} is older than the code)")


@pytest.mark.parametrize(
    ("release", "says", "wanted"),
    [
        ("V11.8.89", "", "CUDA 11.8 of {toolkit} is older than 12.0; --toolkit wheels compiles with the pip wheels"),
        ("V12.4.127", "nvcc fatal   : Unsupported gpu architecture 'sm_100'",
         "nvcc 12.4.127 of {toolkit} does not compile for sm_100; --toolkit wheels"),
    ],
)  # fmt: skip
def test_a_toolkit_that_is_too_old_costs_one_line(
    source: Path, toolkit: Path, capsys: pytest.CaptureFixture[str], release: str, says: str, wanted: str
) -> None:
    nvcc = toolkit / "bin" / "nvcc"
    nvcc.unlink()
    nvcc.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo {release} && exit\necho "{says}" >&2; exit 1\n')
    nvcc.chmod(0o755)
    assert main(["show", str(source), "--arch", "sm_100", "--toolkit", str(toolkit)]) == 2
    err = capsys.readouterr().err
    assert wanted.format(toolkit=toolkit) in err and err.count("\n") == 1


def test_a_folder_without_a_toolkit_is_named(source: Path, tmp_path: Path) -> None:
    with pytest.raises(WarplensError, match=r"--toolkit .*: no CUDA toolkit there"):
        by(source, str(tmp_path))
    odd = tmp_path / "a$(touch HACK)b" / "bin"
    odd.mkdir(parents=True)
    (odd / "nvcc").write_text("")
    (odd / "nvcc").chmod(0o755)
    with pytest.raises(WarplensError, match="nvcc cannot work in a folder with '\\$' in its name"):
        by(source, str(odd.parent))


def test_every_command_that_compiles_takes_a_toolkit(
    source: Path, toolkit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever processes compile for it; nothing of it stays behind."""
    launch = source.with_suffix(".toml")
    launch.write_text(f'file = "{source.name}"\ngrid = 1\nblock = 32\n[[arg]]\ntype = "f32*"\ncount = 32\n')
    for command in (["analyze", "--launch", str(launch), "--no-cache"], ["diff", str(launch), str(launch)]):
        for named in ("/nowhere", str(toolkit)):
            code = main([*command, "--toolkit", named])
            assert code == (2 if named == "/nowhere" else 0), capsys.readouterr().err
            assert "CUDA_HOME" not in os.environ
        out, err = capsys.readouterr()
        assert "--toolkit /nowhere: no CUDA toolkit there" in err
        assert command[0] != "analyze" or f" of {toolkit}" in out


def test_nvrtc_finds_its_builtins(tmp_path: Path) -> None:
    """NVRTC 13.0 loads them by their name alone, and did not find them beside itself."""
    library = toolchain.wheels().tool("NVRTC")
    assert library is not None
    nvrtc_compile._load_builtins(str(library))
    assert "libnvrtc-builtins.so" in Path("/proc/self/maps").read_text()


def test_headers_come_from_the_toolkit_that_compiles(source: Path, toolkit: Path) -> None:
    (toolkit / "include").unlink()
    (toolkit / "include").mkdir()
    (toolkit / "include" / "ours.h").write_text("#define OURS 3\n")
    assert toolchain.chosen(str(toolkit)).headers() == [toolkit / "include"]


@pytest.mark.skipif(not Path("/usr/local/cuda/bin/nvcc").is_file(), reason="no CUDA toolkit is installed")
def test_the_toolkit_of_this_machine(source: Path) -> None:
    """In a process of its own, as a user starts it: it says which toolkit compiled."""
    there = Path("/usr/local/cuda").resolve()
    command = [sys.executable, "-m", "warplens", "show", str(source), "--toolkit", "/usr/local/cuda"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.search(rf"  by (nvcc|NVRTC) [\d.]+ of {re.escape(str(there))}\b", done.stdout)
