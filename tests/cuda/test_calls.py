"""The first steps with a kernel of one's own: which kernels a file has, how one is called, a launch file to edit."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import warplens as wl
from warplens.cli import main
from warplens.core.errors import RefusedSource, WarplensError
from warplens.program.compile import Options
from warplens.program.declarations import ptx_types
from warplens.workload.command_line import Flags, call_of, changed
from warplens.workload.interface import Interface, Parameter, interfaces
from warplens.workload.launch import load_launch

pytestmark = pytest.mark.cuda
SAXPY = """
__global__ void saxpy(int n, float a, const float4 *__restrict__ x, float4 *y) {  // y = a * x + y
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { float4 u = x[i]; y[i].x += a * u.x; }
}
"""
SEVERAL = """
#define TILE 16
struct Box { const float *from; float *to; int n; };
typedef unsigned int word;
__constant__ int rounds;
__device__ float table[64];
__global__ void __launch_bounds__(128) step(Box box, float weight, int last) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= box.n) return;
    float sum = 0;
    for (int r = 0; r < rounds; r++) sum += table[r % 64];
    box.to[i] = sum * weight + box.from[i] + last;
}
template <typename T, int N> __global__ void product(const T *a, const T *b, T *c, int n) {
    __shared__ T left[TILE][TILE + 1], right[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    T sum = 0;
    for (int k = 0; k < n; k += TILE) {
        left[threadIdx.y][threadIdx.x] = a[y * n + k + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + x];
        __syncthreads();
        for (int j = 0; j < TILE; j++) sum += left[threadIdx.y][j] * right[j][threadIdx.x];
        __syncthreads();
    }
    c[y * n + x] = sum;
}
template __global__ void product<float, 1>(const float *, const float *, float *, int);
template __global__ void product<double, 2>(const double *, const double *, double *, int);
extern "C" __global__ void count(word *bins, const unsigned char *keys, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[keys[i]], 1u);
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("calls")
    (made / "saxpy.cu").write_text(SAXPY)
    (made / "several.cu").write_text(SEVERAL)
    return made


def _run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def _kernels(file: Path) -> dict[str, Interface]:
    return {kernel.chosen: kernel for kernel in interfaces(file)}


def test_names_and_types_are_those_of_the_source(folder: Path) -> None:
    found = {name: [(p.name, p.type) for p in k.parameters] for name, k in _kernels(folder / "several.cu").items()}
    matrices = [("a", "{}*"), ("b", "{}*"), ("c", "{}*"), ("n", "i32")]
    assert found == {
        "step": [("box.from", "f32*"), ("box.to", "f32*"), ("box.n", "i32"), ("weight", "f32"), ("last", "i32")],
        "product<float, 1>": [(name, kind.format("f32")) for name, kind in matrices],
        "product<double, 2>": [(name, kind.format("f64")) for name, kind in matrices],
        "count": [("bins", "u32*"), ("keys", "u8*"), ("n", "u64")],
    }
    step = _kernels(folder / "several.cu")["step"]
    assert [(v.name, v.type, v.size_bytes) for v in step.variables] == [("rounds", "i32", 4), ("table", "f32", 256)]
    assert step.threads_max == 128
    [saxpy] = interfaces(folder / "saxpy.cu")
    assert [(p.name, p.type, p.lanes) for p in saxpy.parameters][2:] == [("x", "f32*", 4), ("y", "f32*", 4)]


def test_without_a_call_the_kernels_and_the_command_to_go_on_with_are_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = _run(capsys, "analyze", folder / "saxpy.cu")
    assert code == 2 and out == "" and "saxpy(int n, float a, float4 *x, float4 *y)" in err
    # one length, which is only compared: 2^24; float4 arrays have four times as many elements; 2^24 / 256 blocks
    sizes = "--grid 65536 --block 256 --arg n=16777216 --arg a=1 --arg x=67108864 --arg y=67108864"
    assert f"    warplens analyze {folder / 'saxpy.cu'} {sizes}\n" in err and "warplens init" in err
    code, out, err = _run(capsys, "advise", folder / "several.cu", "--json")
    rows = json.loads(out)["kernels"]
    assert (
        code == 2 and err.count("\n") == 1 and {row["kernel"] for row in rows} == set(_kernels(folder / "several.cu"))
    )
    commands = {row["kernel"]: row["command"] for row in rows}
    assert commands["step"].endswith("--global rounds=16") and "--global" not in commands["count"]
    product = next(row["command"] for row in rows if row["kernel"] == "product<float, 1>")
    # n is multiplied by, and the kernel uses y: 2048 x 2048, in tiles of its shared memory, 2048 / 16 = 128 blocks
    assert shlex.split(product)[:8] == ["warplens", "advise", str(folder / "several.cu"), "--kernel",
                                        "product<float, 1>", "--grid", "128,128", "--block"]  # fmt: skip
    assert "--block 16,16" in product and "--arg a=4194304" in product and "--arg n=2048" in product


def test_the_command_that_is_told_is_answered(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = _run(capsys, "analyze", folder / "several.cu", "--json")
    for row in json.loads(out)["kernels"]:
        code, out, err = _run(capsys, *shlex.split(row["command"])[1:], "--fast")
        assert (code, err) == (0, "") and "limited by" in out, row


def test_the_file_that_init_writes_is_answered_and_not_written_over(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "elsewhere").mkdir()
    launch = folder / "elsewhere" / "p.toml"
    code, out, err = _run(capsys, "init", folder / "several.cu", "--kernel", "product<float", "-o", launch, "-D", "X=1")
    assert code == 0 and f"warplens analyze {launch}" in out
    call = load_launch(launch)
    assert (call.kernel, call.grid, call.block) == ("product<float, 1>", [128, 128], [16, 16])
    assert call.file == "../several.cu" and call.defines == ["X=1"]
    assert '# name = "rounds"' in launch.read_text()
    for given in ((launch,), ("--launch", launch), (f"{launch}", "--grid", "64,64")):
        code, out, err = _run(capsys, "analyze", *given, "--fast")
        assert (code, err) == (0, "") and f"grid {'64x64' if '--grid' in given else '128x128'}, block 16x16" in out
    code, out, err = _run(capsys, "init", folder / "several.cu", "--kernel", "step", "-o", launch)
    assert code == 2 and "is there already" in err and load_launch(launch) == call
    assert _run(capsys, "init", folder / "several.cu", "--kernel", "step", "-o", launch, "--force")[0] == 0
    assert load_launch(launch).kernel == "step"
    code, _, err = _run(capsys, "init", folder / "several.cu")
    assert code == 2 and "4 kernels; choose one with --kernel" in err


def test_every_command_on_a_kernel_takes_the_call_and_the_launch_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launch, source = folder / "saxpy.toml", folder / "saxpy.cu"
    assert _run(capsys, "init", source)[0] == 0
    flags = ("--grid", "1024", "--block", "128", "--arg", "131072", "--arg", "2.5", "--arg", "y=[524288]:zeros",
             "--arg", "524288")  # fmt: skip
    commands: dict[str, tuple[str, ...]] = {
        "analyze": ("--fast",), "advise": (), "whatif": ("--set", "launch.registers=64"), "show": (), "simulate": (),
        "check": ("--max-time", "1s"),
    }  # fmt: skip
    for command, more in commands.items():
        for call in ((source, *flags), (launch,)):
            code, out, err = _run(capsys, command, *call, *more)
            assert (code, err) == (0, "") and "saxpy" in out, (command, call, err)
    assert _run(capsys, "diff", launch, launch)[0] == 0
    assert _run(capsys, "occupancy", launch)[0] == 0
    assert _run(capsys, "show", launch, "--list") == _run(capsys, "show", source, "--list")
    with launch.open("a") as file:
        file.write("\n[variant.small]\nblock = 64\n")
    assert "blocks of 64 threads" in _run(capsys, "occupancy", f"{launch}:small")[1]
    assert "blocks of 64 threads" not in _run(capsys, "occupancy", launch)[1]
    code, out, _ = _run(capsys, "analyze", f"{launch}:", "--fast")
    assert code == 2
    assert wl.count(str(launch)).launch == wl.count(None, launch).launch == wl.count(source, f"{launch}").launch
    assert wl.count(f"{launch}:small").launch == wl.count(launch, variant="small").launch != wl.count(launch).launch


def test_an_analysis_is_the_first_screen_and_its_values(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--grid", "1024", "--block", "128", "--arg", "n=131072", "--arg", "a=2.5", "--arg", "x=524288", "--arg",
             "y=f32[524288]:zeros")  # fmt: skip
    found = wl.analyze(
        folder / "saxpy.cu", grid=1024, block=(128,),
        args={"n": 131072, "a": 2.5, "x": 524288, "y": "f32[524288]:zeros"},
    )  # fmt: skip
    _, out, _ = _run(capsys, "analyze", folder / "saxpy.cu", *flags)
    assert repr(found).splitlines() == [line.rstrip("\n") for line in out.splitlines()]
    _, out, _ = _run(capsys, "analyze", folder / "saxpy.cu", *flags, "--json")
    assert json.loads(out) == json.loads(found.to_json()) and json.loads(out)["schema_version"] == 1
    low, high = found.interval or (0.0, 0.0)
    assert low <= found.time <= high and found.limit == found.prediction.limited_by
    assert max(found.limits.values()) == next(iter(found.limits.values())) <= found.time
    assert found.remedies == found.advised.helpful and found.workload.profile is not None  # type: ignore[union-attr]
    assert found.machine.id == "h200" and found.call.grid_shape == (1024, 1, 1)
    found.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == found.page()
    assert found._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html')
    fast = wl.analyze(folder / "saxpy.cu", grid=1024, block=128, args={"n": 1, "a": 1, "x": 4, "y": 4}, effort="fast")
    assert fast.remedies == () and fast.prediction.model == "warplens-fast"


def test_a_frame_has_a_row_for_each_instruction(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = wl.analyze(folder / "saxpy.cu", grid=4, block=64, args={"n": 256, "a": 1, "x": 1024, "y": 1024})
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pandas", None)
        with pytest.raises(WarplensError, match=r"to_frame\(\) needs pandas: pip install pandas"):
            found.to_frame()
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(json_normalize=lambda rows: rows))
    rows = found.to_frame()
    assert len(rows) == len(found.workload.code) and {"text", "line", "share", "runs_per_warp"} <= set(rows[0])


def test_a_file_without_a_call_names_its_kernels(folder: Path) -> None:
    with pytest.raises(wl.NoCall, match="how is the kernel launched") as caught:
        wl.analyze(folder / "several.cu")
    assert {kernel.chosen for kernel in caught.value.kernels} == set(_kernels(folder / "several.cu"))
    assert caught.value.several
    with pytest.raises(WarplensError, match="saxpy: missing: --arg n=16777216"):
        wl.analyze(folder / "saxpy.cu", grid=4, block=64)


def test_a_program_and_ptx_are_told_by_the_names_that_they_keep(folder: Path) -> None:
    from warplens.program import nvrtc

    cubin = folder / "saxpy.cubin"
    nvrtc.compile_source(SAXPY, "saxpy.cu", "sm_90", [], cubin)
    [kernel] = interfaces(cubin)
    assert kernel.chosen == "saxpy" and [p.type for p in kernel.parameters] == ["i32", "f32", "f32*", "f32*"]
    assert [p.name for p in kernel.parameters] == ["arg0", "arg1", "arg2", "arg3"]
    call = call_of(kernel, Flags("4", "64", arguments=["256", "1.5", "1024", "arg3=1024:ones"]), cubin)
    assert [a.value or (a.count, a.fill) for a in call.arguments] == [256, 1.5, (1024, "random"), (1024, "ones")]
    nvrtc.compile_source(SEVERAL, "several.cu", "sm_90", [], cubin)
    count = _kernels(cubin)["count"]  # extern "C": only sizes are known
    assert [(p.type, p.size_bytes) for p in count.parameters] == [("", 8)] * 3
    flags = Flags("4", "64", arguments=["u32[256]:zeros", "u8[1024]", "i64:1024"])
    assert [a.type for a in call_of(count, flags, cubin).arguments] == ["u32*", "u8*", "i64"]
    with pytest.raises(WarplensError, match=r"unknown type: write f32\[256\] for an array, or i64:256"):
        call_of(count, Flags("4", "64", arguments=["256", "u8[1024]", "i64:1024"]), cubin)


def test_ptx_has_the_types_of_numbers_and_marks_pointers() -> None:
    given = ".param .u32 k_param_0, .param .f32 k_param_1, .param .u64 .ptr .align 1 k_param_2, .param .u64 k_param_3"
    assert ptx_types(f".visible .entry k(\n{given}\n) {{") == {"k": ["int", "float", "?", "long"]}
    assert ptx_types(".entry old(.param .u64 a, .param .align 8 .b8 b[24])") == {"old": ["?", "?"]}  # not marked


def _flags(**changes: Any) -> Flags:
    texts = ["n=64", "a=2", "x=1024", "y=1024"]
    return Flags(**{"grid": "1", "block": "64", "arguments": texts, **changes})


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (Flags(block="64", arguments=["a=2"]), "saxpy: missing: --grid 65536 --arg n=16777216 --arg x=67108864"),
        (_flags(grid="0"), "command line: grid"),
        (_flags(grid="1,2,3,4"), "--grid takes one to three whole numbers, as in 1024 or 128,64"),
        (_flags(block="2048"), "2048 threads; a block has at most 1024"),
        (_flags(arguments=["N=64"]), "--arg N=64: no argument 'N'; did you mean 'n'?"),
        (_flags(arguments=["n=1", "n=2"]), "--arg n is given twice"),
        (_flags(arguments=["n=1.5", "a=2", "x=4", "y=4"]), "i32 holds whole numbers"),
        (_flags(arguments=["n=many", "a=2", "x=4", "y=4"]), "'many' is no number; write NAME=NUMBER"),
        (_flags(arguments=["n=1", "a=2", "x=1.5", "y=4"]), "a pointer is given by the number of its elements"),
        (_flags(arguments=["n=1", "a=2", "x=f33[4]", "y=4"]), "unknown type 'f33'; did you mean 'f32'?"),
        (_flags(arguments=["n=1", "a=2", "x=4:oness", "y=4"]), "unknown fill 'oness'; did you mean 'ones'?"),
        (_flags(arguments=["1", "2", "3", "4", "5"]), "--arg 5: one too many: the kernel takes n, a, x, y"),
        (_flags(variables=["5"]), "--global 5: write NAME=VALUE"),
        (_flags(arguments=["1", "2", "3", "4"], variables=["c=null"]), "--global c=null: a variable holds numbers"),
    ],
)
def test_what_is_wrong_with_a_call_is_one_line(folder: Path, flags: Flags, said: str) -> None:
    [kernel] = interfaces(folder / "saxpy.cu")
    with pytest.raises(WarplensError) as caught:
        from warplens.workload.contents import parse_fill

        for argument in call_of(kernel, flags, "saxpy.cu").arguments:
            parse_fill(argument)
    assert said in str(caught.value)


def test_options_replace_what_a_launch_file_says(folder: Path) -> None:
    (folder / "l.toml").write_text(
        'file = "saxpy.cu"\ngrid = 4\nblock = 64\n[[arg]]\nname = "n"\ntype = "i32"\nvalue = 7\n'
        '[[arg]]\nname = "x"\ntype = "f32*"\ncount = 9\nfill = "ones"\n'
        '[[global]]\nname = "g"\ntype = "i32"\nvalue = 1\n'
        "[variant.small]\ngrid = 2\n"
    )
    call = load_launch(folder / "l.toml", "small")
    made = changed(call, Flags(block="32,2", shared=64, arguments=["x=11"], variables=["g=5", "h=f32[4]:iota"]))
    assert (made.grid, made.block, made.dynamic_shared_bytes, made.folder) == (2, [32, 2], 64, call.folder)
    assert [(a.value, a.count, a.fill) for a in made.arguments] == [(7, None, ""), (None, 11, "ones")]
    assert [(v.name, v.type, v.value, v.count) for v in made.variables] == [
        ("g", "i32", 5, None),
        ("h", "f32", None, 4),
    ]
    with pytest.raises(WarplensError, match="no argument 'y'"):
        changed(call, Flags(arguments=["y=11"]))


def test_a_constant_of_the_command_line_decides_how_often_a_loop_runs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--kernel", "step", "--grid", "512", "--block", "128", "--arg", "box.from=65536", "--arg", "box.to=65536",
             "--arg", "box.n=65536", "--arg", "1", "--arg", "2", "--fast", "--json")  # fmt: skip
    times = []
    for more in ((), ("--global", "rounds=2000", "--global", "table=f32[64]:ones")):
        code, out, err = _run(capsys, "analyze", folder / "several.cu", *flags, *more)
        assert (code, err) == (0, "")
        times.append(json.loads(out)["prediction"]["seconds"])
    assert times[1] > 5 * times[0]
    code, _, err = _run(capsys, "analyze", folder / "several.cu", *flags, "--global", "round=1")
    assert code == 2 and "did you mean 'rounds'" in err


def test_a_triton_kernel_is_told_by_how_it_uses_its_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(__file__).parents[2] / "examples" / "triton" / "matmul.py"
    [kernel] = interfaces(file)
    assert [p.name for p in kernel.parameters if p.is_pointer] == ["a", "b", "out"]
    assert [p.name for p in kernel.parameters if p.constant] == ["BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP"]
    for command in ("show", "analyze"):
        code, out, err = _run(capsys, command, file)
        assert code == 2 and out == "" and f"warplens {command} {file} --grid 1024 --num-warps 4" in err
    code, _, err = _run(capsys, "occupancy", f"{file}:matmul")
    assert code == 2 and "Triton compiles a kernel for a launch" in err
    flags = Flags(
        "8", "128", arguments=[f"{p.name}={'64' if not p.is_pointer else 'f16[64]'}" for p in kernel.parameters]
    )
    call = call_of(kernel, flags, file)
    assert call.num_warps == 4 and call.constexpr["BLOCK_M"] == 64 and call.arguments[0].type == "f16*"


def test_what_the_compiler_was_told_is_told_again(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the commands that are shown, and in the launch file that `init` writes, relative to it."""
    (folder / "told" / "inc").mkdir(parents=True)
    (folder / "told" / "by.h").write_text("")
    (folder / "told" / "inc" / "by.h").write_text("#define BY A\n")
    (folder / "told" / "k.cu").write_text(
        "#include <by.h>\n__global__ void k(float *x) { x[threadIdx.x] *= BY + B; }\n__global__ void l() {}\n"
    )
    monkeypatch.chdir(folder / "told")
    told = ["-DA=1", "-Iinc", "--flag=-DB=2", "--flag=-std=c++20", "--maxrregcount=64", "--machine=a100",
            "--toolkit=wheels"]  # fmt: skip
    code, _, err = _run(capsys, "analyze", "k.cu", "--kernel", "k", *told)
    shown = [shlex.split(line) for line in err.splitlines() if line.startswith("    warplens")]
    assert code == 2 and len(shown) == 2, err
    for words in shown:
        assert words[-len(told) :] == told and words[3:5] == ["--kernel", "k"]
    code, out, err = _run(capsys, *shown[0][1:], "--fast")
    assert (code, err) == (0, "") and "limited by" in out
    (folder / "told" / "calls").mkdir()
    assert _run(capsys, *shown[1][1:], "-o", "calls/k.toml")[0] == 0
    call = load_launch("calls/k.toml")
    assert (call.file, call.defines, call.includes, call.flags) == (
        "../k.cu",
        ["A=1", "B=2"],
        ["../inc"],
        ["-std=c++20"],
    )
    code, out, err = _run(capsys, "analyze", "calls/k.toml", "--fast", "--toolkit", "wheels")
    assert (code, err) == (0, "") and "limited by" in out


def test_a_macro_and_a_folder_among_the_flags_are_of_the_current_folder(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "flags" / "inc").mkdir(parents=True)
    (folder / "flags" / "inc" / "m.h").write_text("#define N M\n")
    (folder / "flags" / "k.cu").write_text("#include <m.h>\n__global__ void k(float *x) { x[threadIdx.x] *= N; }\n")
    (folder / "flags" / "calls").mkdir()
    (folder / "flags" / "calls" / "k.toml").write_text(
        'file = "../k.cu"\ngrid = 1\nblock = 32\n[[arg]]\nname = "x"\ntype = "f32*"\ncount = 32\n'
    )
    monkeypatch.chdir(folder / "flags")
    for given in (["k.cu"], ["--launch", "calls/k.toml"]):
        code, out, err = _run(capsys, "show", *given, "--flag=-DM=2", "--flag=-Iinc")
        assert (code, err) == (0, "") and "STG" in out
    code, _, err = _run(capsys, "show", "k.cu", "--flag=-Inowhere")
    assert code == 2 and "-I nowhere: no such folder" in err


def test_a_kernel_that_is_not_there_is_told_without_a_call_too(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = _run(capsys, "analyze", folder / "several.cu", "--kernel", "stepp")
    assert (code, out) == (2, "") and "no kernel 'stepp'" in err and "step" in err.partition("'stepp'")[2]
    assert err.count("\n") == 1


def test_a_triton_kernel_whose_text_names_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(
        "import triton\nimport triton.language as tl\n\n@triton.jit\ndef helper(x):\n    return x\n\n"
        '@triton.jit\ndef add(x, n):\n    """Run by add(x, n)."""\n    tl.store(x, helper(n))\n'
    )
    assert [kernel.chosen for kernel in interfaces(tmp_path / "k.py")] == ["add"]


def test_an_error_that_names_the_architecture_is_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('#error "set gpu-architecture"\n__global__ void k() {}\n')
    with pytest.raises(RefusedSource):
        interfaces(tmp_path / "k.cu")
    (tmp_path / "k.cu").write_text("__global__ void k() {}\n")
    with pytest.raises(WarplensError, match="does not compile for sm_30"):
        interfaces(tmp_path / "k.cu", Options(arch="sm_30", toolkit="wheels"))


STRUCTURE = """
#define N 3
struct Params { const float *x; float scale[N], *y; int n; };
__global__ void rescale(Params p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n) p.y[i] = p.x[i] * p.scale[i % 3];
}
"""


def test_an_array_in_a_structure_is_a_member_for_each_element(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.cu").write_text(STRUCTURE)
    [kernel] = interfaces(tmp_path / "s.cu")
    assert [(p.name, p.type) for p in kernel.parameters] == [
        ("p.x", "f32*"), ("p.scale.0", "f32"), ("p.scale.1", "f32"), ("p.scale.2", "f32"), ("p.y", "f32*"),
        ("p.n", "i32"),
    ]  # fmt: skip
    _, out, _ = _run(capsys, "analyze", tmp_path / "s.cu", "--json")
    [row] = json.loads(out)["kernels"]
    assert "--arg p.scale.2=1" in row["command"] and "--arg p.n=16777216" in row["command"]
    made = call_of(kernel, Flags("4", "256", arguments=[f"p.{m}=1024" for m in ("x", "scale.0", "scale.1", "scale.2",
                                                                                "y", "n")]), "s.cu")  # fmt: skip
    assert [a.size_bytes for a in made.arguments] == [8, 4, 4, 4, 8, 4]


def test_a_structure_of_unknown_members_is_not_guessed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from warplens.program import nvrtc

    cubin = tmp_path / "s.cubin"
    nvrtc.compile_source(STRUCTURE, "s.cu", "sm_90", [], cubin)
    _, out, _ = _run(capsys, "analyze", cubin, "--json")
    [row] = json.loads(out)["kernels"]
    assert "'arg0=bytes:<40 bytes in hex>'" in row["command"]  # 8 + 3 * 4, to 24, + 8 + 4, to 40
    code, out, err = _run(capsys, *shlex.split(row["command"])[1:])
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert "'<40 bytes in hex>': a structure's bytes are written in hex" in err and "--arg arg0.n=i32:1024" in err
    code, _, err = _run(capsys, "init", cubin)
    assert code == 0
    code, _, err = _run(capsys, "analyze", cubin.with_suffix(".toml"))
    assert code == 2 and "its members one by one" in err
    members = [
        "arg0.x=f32[1024]",
        "arg0.a=f32:1",
        "arg0.b=f32:1",
        "arg0.c=f32:1",
        "arg0.y=f32[1024]",
        "arg0.n=i32:1024",
    ]
    [kernel] = interfaces(cubin)
    call = call_of(kernel, Flags("4", "256", arguments=members), cubin)
    assert [a.type for a in call.arguments] == ["f32*", "f32", "f32", "f32", "f32*", "i32"]
    flags = [word for text in members for word in ("--arg", text)]
    assert _run(capsys, "analyze", cubin, "--grid", "4", "--block", "256", *flags, "--fast")[0] == 0


def test_contents_that_nobody_wrote_are_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ("analyze", folder / "several.cu", "--kernel", "count", "--grid", "4", "--block", "64", "--arg", "n=256",
            "--arg", "keys=256", "--fast")  # fmt: skip
    _, out, _ = _run(capsys, *call, "--arg", "bins=256")
    assert "contents assumed: bins = hash_mod(64), keys = random\n" in out  # of bytes, all values
    _, out, _ = _run(capsys, *call, "--arg", "bins=256:zeros")
    assert "contents assumed: keys = random\n" in out


def test_a_template_argument_and_rows_are_seen_in_block_and_grid() -> None:
    from warplens.program.declarations import shared_extent
    from warplens.workload.suggested_launch import starting_tree

    assert shared_extent("__shared__ T part[N];", "void blocksum<float, 128u>(float const*, int)", "") == 128
    body = "const float *row = x + blockIdx.x * n; for (int i = threadIdx.x; i < n; i += blockDim.x) s += row[i];"
    [n, x] = [Parameter("n", "i32", "int", 4), Parameter("x", "f32*", "float *", 8)]
    tree = starting_tree(Interface("rows", "rows(float const*, int)", [x, n], body=body, tile=128))
    assert (tree["grid"], tree["block"]) == (2048, 128)  # a block for each of 2048 rows
    each = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i * n < 9) x[i] = 1;"
    assert starting_tree(Interface("k", "k()", [x, n], body=each))["grid"] == 8  # 2048 / 256
