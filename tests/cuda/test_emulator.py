"""The emulator against an H200: outputs of small launches bit for bit, counts of large ones against its counters."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from tests.cuda.programs import OTHER_ORDER, program_of, skip_before
from warplens.core.errors import WarplensError
from warplens.core.native import Function
from warplens.emulator import integer
from warplens.emulator.cache import new_cache
from warplens.emulator.emulator import EmulationError, Emulator
from warplens.emulator.layout import EXECUTED, LINES, SECTORS, WAVEFRONTS
from warplens.program import load_program
from warplens.program.program import Program
from warplens.workload.contents import contents
from warplens.workload.launch import SCALAR_BYTES, KernelCall, load_launch, parse_launch

pytestmark = [pytest.mark.cuda, pytest.mark.xdist_group("emulator")]  # compiled once, on one worker
ROOT = Path(__file__).parents[2]
OUTPUTS = np.load(ROOT / "data" / "h200" / "suite" / "kernels" / "outputs.npz")
FILES = {path.stem: path for path in (ROOT / "examples").rglob("*.toml")}


def _emulator(name: str, *, small: bool) -> Emulator:
    """Set up a launch by its name, such as `ulist.rsqrt`: launch file and variant."""
    stem, _, variant = name.partition(".")
    call = load_launch(FILES[stem], ",".join(v for v in (variant, "small" if small else "") if v))
    return Emulator(program_of(call), call)


NAMES = sorted({key.partition("/")[0] for key in OUTPUTS.files})
# Of a family of variants only some; all of them with `make test-all`.
SOME = {"ulist": 9, "bank": 8, "mb": 4, "sfu": 4, "stride": 3}


def _cases() -> list[Any]:
    """Return all launches, the less interesting ones of large families marked slow."""
    made, seen = [], dict.fromkeys(SOME, 0)
    for name in NAMES:
        family = name.partition(".")[0]
        seen[family] = seen.get(family, -1) + 1
        often = (family in SOME and seen[family] % SOME[family]) or "today" in FILES[
            family
        ].parts  # test_today has some
        made.append(pytest.param(name, marks=[pytest.mark.slow] if often else []))
    return made


@pytest.mark.parametrize("name", _cases())
def test_outputs_are_those_of_the_hardware(name: str) -> None:
    emulator = _emulator(name, small=True)
    emulator.run(range(emulator.call.blocks))
    assert emulator.unknown_executed == 0
    for key in OUTPUTS.files:
        if key.partition("/")[0] == name:
            ours = emulator.array(key.partition("/")[2])
            assert ours.tobytes() == OUTPUTS[key].tobytes()


@cache
def _counters() -> dict[str, Any]:
    file = ROOT / "data" / "h200" / "suite" / "kernels" / "ncu.json.gz"
    return dict(json.loads(gzip.decompress(file.read_bytes()))["launches"])


LARGE = ["saxpy", "vector_add", "permute_trivial", "matmul_naive", "matmul_tiled16", "matmul_tiled16.conflicts",
         "matmul_tiled8", "bank.bank4", "stride.stride8", "barrier", "divergence", "itilp.ilp4", "sfu.sfu3",
         "reduction_k0_k2", "reduction_k3_k5.k5", "svm_constant", "mb.mb3-uncoalesced", "ulist.shmem-rsqrt",
         "loads"]  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_counts_are_those_of_the_hardware(name: str) -> None:
    """Blocks alike: what one of them does, times their number, is what the counters say of every instruction."""
    if name == "matmul_tiled8":
        skip_before((13, 4), OTHER_ORDER)
    emulator = _emulator(name, small=False)
    blocks = emulator.call.blocks
    emulator.run([blocks // 2])
    theirs = _counters()[name]
    size = len(emulator.program.instructions)
    emulator.stats[emulator.stats[:, SECTORS] > 0, WAVEFRONTS] = 0  # of L1: counters tell only of shared memory
    for column, key in ((EXECUTED, "executed"), (SECTORS, "global_sectors"), (WAVEFRONTS, "shared_wavefronts")):
        expected = theirs.get(key, [0] * size)[:size]
        assert (emulator.stats[:, column] * blocks).tolist() == expected, key


def _one_of_each_kernel() -> list[Any]:
    """Return a launch of every kernel; those of today, which other tests compile less often, marked slow."""
    first = {name.partition(".")[0]: name for name in reversed(NAMES)}
    return [
        pytest.param(name, marks=[pytest.mark.slow] if "today" in FILES[stem].parts else [])
        for stem, name in sorted(first.items())
    ]


@pytest.mark.parametrize("name", _one_of_each_kernel())
def test_one_block_at_a_time_or_all_at_once(name: str) -> None:
    together, apart = _emulator(name, small=True), _emulator(name, small=True)
    together.run(range(together.call.blocks))
    for block in range(apart.call.blocks):
        apart.run([block])
    assert together.stats.tolist() == apart.stats.tolist()
    for i, argument in enumerate(together.call.arguments):
        if argument.is_pointer and argument.count:
            assert together.array(i).tobytes() == apart.array(i).tobytes()


PICK = """
extern "C" __global__ void pick(const int* at, const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i % 7 != 3 && i < n) out[i] = x[at[i]];
}
"""


@pytest.mark.parametrize("values", [True, False])
def test_what_is_remembered_of_a_pattern_is_what_each_access_costs(values: bool) -> None:
    """Lanes anywhere in 2 to 4096 lines, some of them idle: sectors and lines, counted here warp by warp."""
    program, count = _program(PICK), 64 * 128
    for places in (64, 512, 131072):
        arguments = [
            {"name": "at", "type": "i32*", "count": count, "fill": f"random_int(0, {places})"},
            {"name": "x", "type": "f32*", "count": places}, {"name": "out", "type": "f32*", "count": count},
            {"type": "i32", "value": count - 77},
        ]  # fmt: skip
        call = parse_launch({"grid": 64, "block": 128, "arg": arguments}, "pick.toml")
        emulator = Emulator(program, call, values=values)
        emulator.run(range(64))
        emulator.run(range(64))  # from what is remembered
        at = np.array(contents(call.arguments[0], 0)(np.arange(count)), np.int64).reshape(-1, 32)
        i = np.arange(count).reshape(-1, 32)
        active = (i % 7 != 3) & (i < count - 77)
        loads = [k for k, x in enumerate(program.instructions) if x.opcode == "LDG"]
        for column, shift in ((SECTORS, 3), (LINES, 5)):
            wanted = sum(len(np.unique(row[lanes] >> shift)) for row, lanes in zip(at, active, strict=True))
            assert emulator.stats[loads[1], column] == 2 * wanted, (places, column)


def test_memory_that_grows_on_the_way_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("histogram", "matmul_tiled16", "stride.stride8"):
        whole = _emulator(name, small=True)
        monkeypatch.setattr("warplens.emulator.initial._PAGES", 64)
        grown = _emulator(name, small=True)
        monkeypatch.undo()
        for emulator in (whole, grown):
            emulator.caches = (new_cache(2, 16 << 10, 4), new_cache(1, 64 << 10, 16, 64))
            emulator.trace = np.zeros((100_000, 3), np.int32)
            emulator.run(range(emulator.call.blocks), [b % 2 for b in range(emulator.call.blocks)])
        assert len(grown.pages.words) > 64, name
        assert grown.stats.tolist() == whole.stats.tolist()
        assert [c.tolist() for c in grown.caches] == [c.tolist() for c in whole.caches]
        for argument in (a.name for a in whole.call.arguments if a.is_pointer):
            assert grown.array(argument).tobytes() == whole.array(argument).tobytes()


def test_what_was_compiled_is_known_and_belongs_to_its_sources() -> None:
    emulator = _emulator("saxpy", small=True)
    emulator.run([0])
    assert emulator.is_compiled()
    add = integer._multiply_add
    assert Function(add.function, add.signature, add.options, add.sources).is_ready()
    assert not Function(add.function, add.signature, add.options, lambda: (Path(__file__),)).is_ready()


SOURCE = """
extern "C" __global__ void wrong(float* x, int n, int mode) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (mode == 0) x[i + n] = 1.0f;
  if (mode == 1) *(float*)((char*)x + 4 * i + 2) = 1.0f;
  if (mode == 2) while (((volatile float*)x)[0] == 0.0f) { }
  if (mode == 3 && threadIdx.x < 32) __syncthreads();
  if (mode == 4) __trap();
  if (mode == 5) {
    if (threadIdx.x < 32) __syncthreads();
    else while (((volatile float*)x)[0] == 0.0f) { }
  }
}
"""


@cache
def _program(source: str) -> Program:
    """Return the only kernel of a source."""
    with TemporaryDirectory(prefix="warplens-") as folder:
        (file := Path(folder) / "kernel.cu").write_text(source)
        return load_program(file)


def _wrong(mode: int, **changes: Any) -> tuple[Program, KernelCall]:
    arguments = [
        {"name": "x", "type": "f32*", "count": 256},
        {"name": "n", "type": "i32", "value": 1000},
        {"name": "mode", "type": "i32", "value": mode},
    ]
    tree = {"grid": 2, "block": 128, "arg": arguments, **changes}
    return _program(SOURCE), parse_launch(tree, "wrong.toml")


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        (0, "bytes behind the end of x"),
        (1, "not a multiple of 4"),
        (2, "endless loop"),
        (4, "traps"),
    ],
)
def test_what_goes_wrong_is_one_line_with_its_place(mode: int, says: str) -> None:
    program, call = _wrong(mode)
    with pytest.raises(EmulationError, match=says) as caught:
        Emulator(program, call).run([0, 1], budget=100_000)
    assert "line " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_loop_is_named_and_not_the_warp_that_waits_for_it() -> None:
    program, call = _wrong(5)
    with pytest.raises(EmulationError, match=r"line 11, .* still running after"):
        Emulator(program, call).run([0], budget=100_000)


def test_a_loop_that_loads_stops_sooner() -> None:
    """A load counts for eight instructions: a loop of it, a comparison and a branch stops at a third of the budget."""
    program, call = _wrong(2)
    with pytest.raises(EmulationError, match="still running after") as caught:
        Emulator(program, call).run([0, 1], budget=300_000)
    done = int(str(caught.value).split("still running after ")[1].split()[0].replace(",", ""))
    assert 30_000 < done < 150_000


WANDER = """
extern "C" __global__ void wander(int* x, unsigned n) {
  unsigned at = threadIdx.x * 2654435761u;
#pragma unroll 1
  while (x[at % n] != -1) at = at * 1664525u + 1013904223u;
  x[0] = at;
}
"""


def test_a_loop_that_goes_to_new_places_stops_sooner_still() -> None:
    """Each of its loads goes to 32 lines: 63 times the 8 instructions of one that goes to a line, with 14 others."""
    arguments = [{"name": "x", "type": "i32*", "count": 1 << 24}, {"type": "u32", "value": 1 << 24}]
    call = parse_launch({"grid": 1, "block": 64, "arg": arguments}, "wander.toml")
    with pytest.raises(EmulationError, match=r"line 5.* still running after") as caught:
        Emulator(_program(WANDER), call).run([0], budget=1_000_000)
    done = int(str(caught.value).split("still running after ")[1].split()[0].replace(",", ""))
    assert 15_000 < done < 50_000


def test_an_element_behind_the_end_is_seen_though_its_sector_is_there() -> None:
    """Array x has 250 floats: the next six are in its last sector. Lane 25 of warp 3 of block 1 is the first there."""
    arguments = [
        {"name": "x", "type": "f32*", "count": 250}, {"type": "i32", "value": 0}, {"type": "i32", "value": 0}
    ]  # fmt: skip
    program, call = _wrong(0, arg=arguments)
    with pytest.raises(
        EmulationError, match=r"thread \(122, 0, 0\) of block \(1, 0, 0\).* 1 bytes behind the end of x"
    ):
        Emulator(program, call).run([0, 1])


def test_a_null_pointer_is_named() -> None:
    arguments = [{"type": "f32*", "value": 0}, {"type": "i32", "value": 0}, {"type": "i32", "value": 0}]
    program, call = _wrong(0, arg=arguments)
    with pytest.raises(EmulationError, match="a null pointer"):
        Emulator(program, call).run([0])


def test_a_null_pointer_is_named_by_a_block_far_from_the_first() -> None:
    """Block 10,000 reads 5 MB from zero: still nowhere near an array."""
    arguments = [
        {"name": "x", "type": "f32*", "value": 0}, {"type": "i32", "value": 0}, {"type": "i32", "value": 0}
    ]  # fmt: skip
    program, call = _wrong(0, arg=arguments, grid=20_000)
    with pytest.raises(EmulationError, match=r"a null pointer \(x\)"):
        Emulator(program, call).run([10_000])


def test_arguments_that_do_not_fit_are_refused() -> None:
    program, call = _wrong(0, arg=[{"name": "x", "type": "f32*", "count": 256}])
    said = "takes 16 bytes of arguments, the launch file gives 8 .*; number 2, of 4 bytes, is missing"
    with pytest.raises(WarplensError, match=said):
        Emulator(program, call)
    numbers = [{"type": "i32", "value": 0}, {"type": "i32", "value": 0}]
    _, call = _wrong(0, arg=[{"name": "x", "type": "i32", "value": 3}, *numbers])
    with pytest.raises(WarplensError, match=r"; number 1 \(x\) has 4 bytes, the kernel's has 8"):
        Emulator(program, call)
    _, call = _wrong(0, arg=[{"name": "x", "type": "f32*", "count": 256}, *numbers, *numbers])
    with pytest.raises(WarplensError, match="; number 4 is one too many"):
        Emulator(program, call)


COPY = """
extern "C" __global__ void copy(const unsigned* x, unsigned* out, int words) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < words) out[i] = x[i];
}
"""
FILLS = [
    "zeros", "ones", "iota", "linear(3, -7)", "linear(1e2, 1)", "linear(0.5, 0.25)", "random", "random_int(-5, 1e2)",
    "hash_mod(11)", "permutation", "cycle",
]  # fmt: skip
REAL = ["uniform(0, 1)", "uniform(-3.5, 1e3)", "uniform(1e-3, 2)"]


@pytest.mark.parametrize("element", ["u8", "i16", "i32", "u64", "f16", "bf16", "f32", "f64"])
def test_arrays_hold_what_the_launch_file_says(element: str) -> None:
    """The compiled fills against those of `warplens.workload.contents`, bit for bit, read by a kernel."""
    count, size = 512, SCALAR_BYTES[element]
    for fill in FILLS + (REAL if element[0] in "fb" else []):
        words = count * size // 4
        arguments = [
            {"name": "x", "type": f"{element}*", "count": count, "fill": fill},
            {"name": "out", "type": "u32*", "count": words},
            {"type": "i32", "value": words},
        ]
        call = parse_launch({"grid": 8, "block": 128, "arg": arguments}, "copy.toml")
        emulator = Emulator(_program(COPY), call)
        emulator.run(range(8))
        expected = contents(call.arguments[0], 0)(np.arange(count))
        assert emulator.array("out").tobytes() == expected.tobytes(), fill
