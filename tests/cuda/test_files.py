"""All kinds of input files: they load, and injured ones cost one clear line."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from warplens import api
from warplens.api.request import Request, load
from warplens.cli import main
from warplens.core import processes
from warplens.core.errors import WarplensError
from warplens.program import Options, list_kernels, load_program, nvrtc, toolchain
from warplens.program.control_flow import flow_graph
from warplens.program.declarations import choose, demangled
from warplens.workload.launch import KernelCall

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


def test_what_is_reserved_of_shared_memory_is_not_the_kernel_s(tmp_path: Path) -> None:
    """The compiler has it in a section, nvlink in a symbol alone."""
    made, linked = tmp_path / "made", tmp_path / "linked"
    nvrtc.compile_source(SOURCE, "two.cu", "sm_90", ["-DFACTOR=1"], made)
    linked.write_bytes(made.read_bytes().replace(b".nv.shared.reserved.0", b".nv.shared.elsewhere0"))
    for cubin in (made, linked):
        assert load_program(cubin, "scale").resources.static_shared_bytes == 64 * 4, cubin.name


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
    lines = _message(["show", str(source)], capsys).splitlines()
    assert re.fullmatch(rf"warplens: {re.escape(str(source))}: nvcc .* refused it:", lines[0])
    assert lines[1] == f'{source}(10): error: identifier "FACTOR" is undefined'
    assert lines[2].strip().startswith('extern "C"') and lines[3].strip() == "^"


def _message(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    main(arguments)
    return capsys.readouterr().err


def _cubin(path: Path, arch: str = "sm_90", source: str = SOURCE) -> Path:
    nvrtc.compile_source(source, "two.cu", arch, ["-DFACTOR=1", "-lineinfo"], path)
    return path


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_listings_of_the_tools_say_what_the_cubin_says(arch: str, tmp_path: Path) -> None:
    cubin = _cubin(tmp_path / "k.cubin", arch)
    whole = load_program(cubin, "scale")
    for tool, arguments in (("nvdisasm", ["-c", "-g", "-hex"]), ("cuobjdump", ["-sass"])):
        listing = tmp_path / f"{tool}.sass"
        listing.write_text(toolchain.run(tool, *arguments, cubin))
        assert sorted(list_kernels(listing)) == ["plain", "void scale<3>(float*, int)"]
        program = load_program(listing, "scale<3>")
        assert program.has_control and program.arch == arch
        for ours, theirs in zip(program.instructions, whole.instructions, strict=True):
            same = ("offset", "opcode", "modifiers", "guard", "kind", "reads", "writes", "target", "control")
            assert [getattr(ours, f) for f in same] == [getattr(theirs, f) for f in same]
        assert flow_graph(program).loops == flow_graph(whole).loops != []


def _fat_files(folder: Path) -> Iterator[Path]:
    """Yield fat binaries for two architectures, compressed and not; an object, a library, a program if nvcc can."""
    cubins = {arch: _cubin(folder / f"{arch}.cubin", arch) for arch in ("sm_80", "sm_90")}
    images = [f"--image3=kind=elf,sm={arch[3:]},file={path}" for arch, path in cubins.items()]
    for mode in ("none", "speed", "size"):
        path = folder / f"{mode}.fatbin"
        toolchain.run("fatbinary", "-64", f"--create={path}", "-compress-all", f"-compress-mode={mode}", *images)
        yield path
    (folder / "host.cu").write_text(f"#define FACTOR 1\n{SOURCE}\nint main() {{ plain<<<1, 1>>>(nullptr); }}\n")
    code = [f"-gencode=arch=compute_{n},code=sm_{n}" for n in (80, 90)]
    libraries = [f"-L{wheel / 'lib'}" for wheel in toolchain.wheel_folders()]  # nvcc 13.0 looks in lib64 only
    for name, how, of in (
        ("k.o", "-c", "host.cu"),
        ("k.so", "-shared", "k.o"),
        ("program", "-compress-mode=size", "host.cu"),
    ):
        if shutil.which("gcc"):
            toolchain.run("nvcc", how, *code, *libraries, "-Xcompiler", "-fPIC", "-o", folder / name, folder / of)
            yield folder / name


def test_fat_binaries_objects_libraries_and_programs(tmp_path: Path) -> None:
    for path in _fat_files(tmp_path):
        assert sorted(list_kernels(path)) == ["plain", "void scale<3>(float*, int)"], path
        assert load_program(path, "plain").arch == "sm_90"  # the default, as it is there
        assert load_program(path, "plain", Options(arch="sm_80")).arch == "sm_80"
        assert load_program(path, "plain", Options(arch="sm_89")).arch == "sm_80"  # what a GPU of cc 8.9 runs
        with pytest.raises(WarplensError, match=r"plain is there for sm_80, sm_90, and none runs on sm_75; name a GPU"):
            load_program(path, "plain", Options(arch="sm_75"))


def test_a_launch_of_a_fat_binary_takes_the_code_of_its_gpu(tmp_path: Path) -> None:
    fat = next(_fat_files(tmp_path))
    launch = KernelCall(file=fat.name, kernel="plain", grid=[1], block=[32], folder=str(tmp_path))
    for gpu, arch in (("a100", "sm_80"), ("rtx4090", "sm_80"), ("h200", "sm_90")):
        assert load(Request(launch=launch), api.load_machine(gpu))[0].arch == arch


def test_one_architecture_needs_no_choice_and_ptx_is_assembled(tmp_path: Path) -> None:
    cubin, ptx = _cubin(tmp_path / "k.cubin", "sm_80"), tmp_path / "k.ptx"
    ptx.write_text(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n")
    for kind, file, kernel, arch in (("elf", cubin, "plain", "sm_80"), ("ptx", ptx, "k", "sm_90")):
        path = tmp_path / f"{kind}.fatbin"
        image = f"--image3=kind={kind},sm=80,file={file}"
        toolchain.run("fatbinary", "-64", f"--create={path}", "-compress-all", "-compress-mode=size", image)
        assert load_program(path, kernel).arch == arch
    images = [f"--image3=kind=elf,sm={a[3:]},file={_cubin(tmp_path / a, a)}" for a in ("sm_90", "sm_90a", "sm_100a")]
    toolchain.run("fatbinary", "-64", f"--create={tmp_path / 'variants.fatbin'}", *images)
    for asked, arch in (("sm_90", "sm_90"), ("sm_90a", "sm_90a"), ("sm_100", "sm_100a")):
        assert load_program(tmp_path / "variants.fatbin", "plain", Options(arch=asked)).arch == arch


EVIL = [
    b'"><script>alert(1)</script>', b"x\ny\nz", b"\x1b[31mred\x1b]0;title\x07", b"$(touch HACK)`touch HACK`;|&", b" ",
    b"\xff\xfe\xc3(bad", b"a,\"b\",'c'\\", b"\xe2\x80\xa8line\xc2\x85nel", b"/*0000*/ EXIT ;", b"../../x", b"%s%n{0}",
    b"\r\x08\x08over", "ünïcode".encode(), b"_Z1fPfX\x1b[2J", b"[bold]",
]  # fmt: skip


@pytest.mark.parametrize("wanted", ["k<S<3>>", "k<S<3> >", "void k<S<3>>(float*)"])
def test_brackets_may_be_written_as_in_the_source(wanted: str) -> None:
    names = ["_Z1kI1SILi3EEEvPf", "_Z1kI1SILi4EEEvPf"]
    assert choose(names, wanted, "a.cu") == names[0]


@pytest.mark.parametrize(
    "wanted", ["reduce<int, 256>", "reduce<int,256u>", "void reduce<int, 256>(int*)", "<int, 256>"]
)
def test_numbers_may_be_written_as_in_the_source(wanted: str) -> None:
    names = ["_Z6reduceIiLj256EEvPT_", "_Z6reduceIiLj128EEvPT_"]
    assert demangled(names)[names[0]] == "void reduce<int, 256u>(int*)"
    assert choose(names, wanted, "a.cu") == names[0]


def test_kernel_names_are_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cubins whose names hold quotes, markup, escapes, new lines, bad UTF-8: harmless wherever they are shown."""
    names = [evil.ljust(29, b"~") + b"~%02d" % i for i, evil in enumerate(EVIL)]
    usual = [b"k" * 30 + b"%02d" % i for i in range(len(EVIL))]
    source = "".join(f'extern "C" __global__ void {k.decode()}(float *p) {{ *p += 1; }}\n' for k in usual)
    data = _cubin(tmp_path / "k.cubin", source=source).read_bytes()
    for before, after in zip(usual, names, strict=True):
        data = data.replace(before, after)
    file = tmp_path / "evil.cubin"
    file.write_bytes(data)
    assert len(list_kernels(file)) == len(EVIL)
    shown = [["show", f"--kernel=~{i:02}"] for i in range(len(EVIL))]
    for command, code in (
        *((command, 0) for command in shown), (["show", "--list"], 0), (["occupancy", "--kernel=~02"], 0),
        (["show"], 2), (["show", "--kernel=\x1b[1m"], 2), (["show", "--kernel=~0"], 2), (["occupancy"], 2),
    ):  # fmt: skip
        assert main([command[0], str(file), *command[1:]]) == code
        out, err = capsys.readouterr()
        assert err.count("\n") == (code == 2) and (out + err).replace("\n", "").isprintable(), (command, out, err)
    assert main(["show", str(file), "--list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == len(EVIL)
    whole = list[str]()
    for name in listed:  # a name as it is listed is a name
        assert main(["show", str(file), f"--kernel={name}", "--json"]) == 0
        program = json.loads(capsys.readouterr().out)["program"]
        whole.append(program["name"])
        assert program["resources"]["registers"] > 4
    assert whole == list_kernels(file) and sorted(whole) == sorted(name.decode("utf-8", "replace") for name in names)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="nvcc needs a host compiler")
def test_no_name_reaches_the_shell_that_nvcc_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "$(touch HACK1)`touch HACK2`"
    folder.mkdir()
    (folder / "x.h").write_text("#define VALUE FACTOR\n")
    path = folder / "$(touch HACK3);touch HACK4;.cu"
    path.write_text('#include <vector>\n#include "x.h"\n__global__ void k(int *p) { *p = VALUE; }\nint main() {}\n')
    options = Options(defines=["FACTOR=1", "X=$(touch HACK5)"], includes=["$(touch HACK6)"])
    program = load_program(path, options=options)
    assert program.demangled == "k(int*)" and program.source_file.endswith(path.name)
    path.write_text("int main() { k<<<1, 1>>>(); }\n")
    with pytest.raises(WarplensError, match=re.escape(path.name)):
        load_program(path, options=options)
    assert not [p for p in tmp_path.rglob("*HACK*") if "touch" not in p.name]


def _with_grandchild(note: Path) -> list[str]:
    """Return a program that starts another, notes its number, and waits for it."""
    code = (
        "import subprocess as s, sys; p = s.Popen(['sleep', '60']); open(sys.argv[1], 'w').write(str(p.pid)); p.wait()"
    )
    return [sys.executable, "-c", code, str(note)]


def _gone(process: int) -> bool:
    for _ in range(50):
        state = Path(f"/proc/{process}/stat")
        if not state.exists() or ") Z " in state.read_text():
            return True
        time.sleep(0.1)
    return False


def test_what_takes_too_much_goes_with_its_children(tmp_path: Path) -> None:
    start = time.monotonic()
    assert processes.execute([sys.executable, "-c", "while True: pass"], 1.0)[0] == processes.TOO_LONG
    assert processes.execute(_with_grandchild(tmp_path / "pid"), 1.5)[0] == processes.TOO_LONG
    assert processes.execute([sys.executable, "-c", "bytearray(3 << 30)"], 5.0, 1 << 30)[0] == 1  # MemoryError
    assert time.monotonic() - start < 50 and _gone(int((tmp_path / "pid").read_text()))


def test_an_interrupt_leaves_neither_process_nor_folder(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    program = (
        "import signal, sys, tempfile; from warplens.core import processes\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # whoever started us may ignore it
        "with tempfile.TemporaryDirectory(dir=sys.argv[1]) as folder:\n"
        f"    processes.execute({_with_grandchild(pid)!r}, 60, folder=folder)\n"
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with subprocess.Popen([sys.executable, "-c", program, str(scratch)], stderr=subprocess.DEVNULL) as process:
        while not pid.exists() or not pid.read_text():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.wait(10)
    assert _gone(int(pid.read_text())) and not list(scratch.iterdir())


BOMB = "#define A0 x+\n" + "".join(f"#define A{i + 1} {f'A{i} ' * 8}\n" for i in range(12))
BOMB += "__global__ void k(int *p) { int x = *p; *p = A12 0; }\n"  # 8 to the power of 12 additions


def test_a_macro_that_grows_without_end_costs_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "COMPILER_SECONDS", 2.0)
    (tmp_path / "bomb.cu").write_text(BOMB)
    with pytest.raises(WarplensError, match=r"within 2 s of processor time; look for macros .* give the cubin"):
        load_program(tmp_path / "bomb.cu")


@pytest.mark.parametrize("command", ["show bomb.cu", "analyze --launch bomb.toml"])
def test_an_interrupt_ends_a_compilation_at_once(tmp_path: Path, command: str) -> None:
    (tmp_path / "bomb.cu").write_text(BOMB)
    (tmp_path / "bomb.toml").write_text(
        'file = "bomb.cu"\nkernel = "k"\ngrid = [1]\nblock = [32]\n[[arg]]\ntype = "i32*"\ncount = 1\nfill = "ones"\n'
    )
    program = (
        "import signal, sys; from warplens.cli import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # whoever started us may ignore it
        "sys.exit(main(sys.argv[1:]))"
    )
    started = [sys.executable, "-c", program, *command.split()]
    pipe = subprocess.PIPE
    with subprocess.Popen(started, stdout=pipe, stderr=pipe, text=True, cwd=tmp_path) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not (child := children.read_text().split()):
            time.sleep(0.05)
        time.sleep(0.5)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "warplens: interrupted\n")
    assert time.monotonic() - start < 10 and _gone(int(child[0]))


def test_a_name_that_stands_for_gigabytes_stays_mangled() -> None:
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    bomb = "_Z1f1pI1AS0_E" + "".join(f"S_IS{digits[i + 1]}_S{digits[i + 1]}_E" for i in range(30))
    long = "_Z1f1aIiE" + "S_" * 50
    assert demangled([bomb, long, "_Z1gi", "plain"]) == {
        bomb: bomb, long: f"f(a<int>{', a' * 50})", "_Z1gi": "g(int)", "plain": "plain",
    }  # fmt: skip


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
