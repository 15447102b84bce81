"""All kinds of input files: they load, and injured ones cost one clear line."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from warplens.cli import main
from warplens.errors import WarplensError
from warplens.frontend import Options, list_kernels, load_program, nvrtc, toolchain
from warplens.kernel.analysis import analyse
from warplens.machine import load_machine

pytestmark = pytest.mark.cuda
SOURCE = """
__constant__ float table[16];
template <int N> __global__ void scale(float *p, int n) {
  __shared__ float s[64];
  s[threadIdx.x & 63] = p[threadIdx.x];
  __syncthreads();
  for (int i = 0; i < n; i++) p[i * N] = p[i] * table[i & 15] + s[i & 63];
}
template __global__ void scale<3>(float *, int);
extern "C" __global__ void __launch_bounds__(128) plain(float *p) { p[threadIdx.x] += FACTOR; }
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "two.cu"
    path.write_text(SOURCE)
    return path


OPTIONS = Options(defines=["FACTOR=2.0f"])


def test_source_compiles_lists_and_loads(source: Path) -> None:
    assert sorted(list_kernels(source, OPTIONS)) == ["plain", "void scale<3>(float*, int)"]
    program = load_program(source, "scale<3>", OPTIONS)
    assert program.has_control and program.arch == "sm_90" and any("NVRTC" in tool for tool in program.tools)
    assert program.resources.static_shared_bytes == 64 * 4 and program.resources.barriers == 1
    assert {i.line for i in program.instructions} >= {5, 7}
    assert load_program(source, "plain", OPTIONS).resources.threads_max == 128
    limited = load_program(source, "scale", Options(defines=["FACTOR=1"], register_limit=24, arch="sm_80"))
    assert limited.arch == "sm_80" and limited.resources.registers <= 24


def test_resources_are_those_of_cuobjdump(source: Path, tmp_path: Path) -> None:
    cubin = tmp_path / "k.cubin"
    nvrtc.compile_source(SOURCE, "two.cu", "sm_80", ["-DFACTOR=1"], cubin)
    usage = toolchain.run("cuobjdump", "-res-usage", cubin)
    program = load_program(cubin, "scale")
    assert (
        f"REG:{program.resources.registers} " in usage and f"SHARED:{program.resources.static_shared_bytes} " in usage
    )


def test_ptx_and_cubins_inside_programs(tmp_path: Path) -> None:
    ptx = tmp_path / "k.ptx"
    ptx.write_text(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n")
    assert load_program(ptx, options=Options(arch="sm_80")).instructions[-1].opcode in ("EXIT", "BRA")
    cubin = tmp_path / "k.cubin"
    nvrtc.compile_source(SOURCE, "two.cu", "sm_90", ["-DFACTOR=1"], cubin)
    inside = tmp_path / "program"
    inside.write_bytes(b"\x7fELFsomething else" + b"\0" * 100 + cubin.read_bytes() + b"tail")
    assert load_program(inside, "plain").name == "plain"
    listing = tmp_path / "k.sass"
    listing.write_text(toolchain.run("nvdisasm", "-c", cubin))
    assert not load_program(listing, "plain").has_control


@pytest.mark.skipif(shutil.which("gcc") is None, reason="nvcc needs a host compiler")
def test_source_with_host_code_goes_to_nvcc(tmp_path: Path) -> None:
    path = tmp_path / "host.cu"
    path.write_text("#include <vector>\n__global__ void k(int *p) { *p = 1; }\nint main() { k<<<1, 1>>>(nullptr); }\n")
    try:
        program = load_program(path)
    except WarplensError as error:
        pytest.skip(f"this nvcc cannot: {str(error)[:80]}")
    assert program.demangled == "k(int*)" and any("nvcc" in tool for tool in program.tools)


def test_errors_are_clear(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = {
        (str(source),): "FACTOR",  # the compiler's own message, with file and line
        (str(source), "-D", "FACTOR=1"): "2 kernels; choose one with --kernel",
        (str(source), "-D", "FACTOR=1", "--kernel", "plian"): "no kernel 'plian'; did you mean 'plain'?",
        (str(source), "-D", "FACTOR=1", "--arch", "sm_9000"): "sm_9000",
        (str(source), "-D", "FACTOR=1", "--arch", "x; rm -rf /"): "--arch must be like sm_90",
        (str(tmp_path / "none.cubin"),): "No such file",
        (str(tmp_path),): "s a directory",
        (__file__,): "not CUDA source, PTX, a cubin",
    }
    for arguments, message in cases.items():
        code = main(["show", *arguments])
        out, err = capsys.readouterr()
        assert code == 2 and out == "" and message in err and err.count("\n") == 1, (arguments, err)
    assert f"{source}(" in _message(["show", str(source)], capsys)


def _message(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    main(arguments)
    return capsys.readouterr().err


def test_kernel_names_are_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cubin = tmp_path / "k.cubin"
    nvrtc.compile_source(SOURCE, "two.cu", "sm_90", ["-DFACTOR=1"], cubin)
    evil = cubin.read_bytes().replace(b"plain", b'<"\n>x')
    (tmp_path / "evil.cubin").write_bytes(evil)
    main(["show", str(tmp_path / "evil.cubin"), "--list"])
    out, _ = capsys.readouterr()
    assert '<"\ufffd>' in out


def test_injured_files_are_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fuzz: cubins, PTX, source and listings, truncated, bit-flipped or random."""
    cubin = tmp_path / "k.cubin"
    nvrtc.compile_source(SOURCE, "two.cu", "sm_90", ["-DFACTOR=1"], cubin)
    whole, chance, refused = cubin.read_bytes(), random.Random(3), 0
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    for n in range(40):
        data = bytearray(whole)
        if n % 4 == 0:
            data = data[: chance.randrange(len(data))]
        elif n % 4 == 1:
            data = bytearray(chance.randbytes(2000))
        else:
            for _ in range(chance.choice((1, 4, 64))):
                data[chance.randrange(len(data) if n % 2 else 4096)] ^= 1 << chance.randrange(8)
        file = tmp_path / f"{n}.cubin"
        file.write_bytes(data)
        try:
            analyse(load_program(file, "plain"), load_machine("h200"))
        except WarplensError:
            refused += 1
    assert refused > 10
    assert not list(scratch.iterdir())  # nothing is left behind


def test_show_fits_the_screen_and_is_quick(source: Path) -> None:
    run = [sys.executable, "-m", "warplens", "show", str(source), "-D", "FACTOR=1", "--kernel", "scale"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert max(map(len, done.stdout.splitlines())) <= 120
    assert "loop of" in done.stdout and "cycles per iteration" in done.stdout


def test_occupancy_of_a_compiled_kernel(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cubin = tmp_path / "k.cubin"
    nvrtc.compile_source(SOURCE, "two.cu", "sm_90", ["-DFACTOR=1"], cubin)
    assert main(["occupancy", str(cubin), "--kernel", "plain", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert list(rows) == ["32", "64", "96", "128"]  # __launch_bounds__(128)
    assert rows["64"]["warps_per_sm"] == 64 and rows["32"]["limiter"] == "blocks"
    assert main(["occupancy", str(source), "--gpu", "gtx980"]) == 2
    assert "compilers of today make no code for GeForce GTX 980" in capsys.readouterr().err
