"""Tuning by prediction: what is legal, what is estimated, what is emulated, what is proposed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.table import Table

from tests.null.fake_gpu import FakeGpu
from warplens.core.cache import Cache
from warplens.core.errors import WarplensError
from warplens.machine import load_machine
from warplens.models import predict
from warplens.report import side_by_side
from warplens.tuner.estimate import estimate, work_per_block
from warplens.tuner.points import Counted, compiled, count
from warplens.tuner.spec import Configuration, Sweep, load_sweep
from warplens.tuner.timing import Timer, measure
from warplens.tuner.tune import Tuned, budget, tune
from warplens.workload.launch import KernelCall

pytestmark = [pytest.mark.cuda, pytest.mark.xdist_group("emulator")]
SOURCE = """
extern "C" __global__ void k(int n, const float *in, float *out) {
  extern __shared__ float kept[];
  float sum = 0;
  int step = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += UNROLL * step) {
    float read[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) read[u] = in[i + u * step];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
      for (int k = 0; k < 8; ++k) sum = fmaf(sum, read[u], 0.5f);
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""
LAUNCH = """
file = "k.cu"
kernel = "k"
grid = 132
block = 64
[[arg]]
name = "n"
type = "i32"
value = 1081344
[[arg]]
name = "in"
type = "f32*"
count = 1081344
fill = "random"
[[arg]]
name = "out"
type = "f32*"
count = 270336
"""
SPEC = """
[[kernel]]
launch = "k.launch.toml"
[kernel.define]
UNROLL = [1, 4]
[kernel.parameter]
threads = [32, 64, 128, 256, 1024, 2048]
shared = [0, 120000, 300000]
[kernel.set]
grid = "132 * max(1, 1024 // threads)"
block = "threads"
dynamic_shared_bytes = "shared"
"""
LEGAL = 2 * 5 * 2  # no block of 2048 threads, none with 300 kB


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("tune")
    (made / "k.cu").write_text(SOURCE)
    (made / "k.launch.toml").write_text(LAUNCH)
    (made / "k.toml").write_text(SPEC)
    return made


@pytest.fixture(scope="module")
def sweep(folder: Path) -> Sweep:
    return load_sweep(folder / "k.toml")


@pytest.fixture(scope="module")
def tuned(sweep: Sweep, folder: Path) -> Tuned:
    return tune(sweep, load_machine("h200"), share=0.15, cache=Cache(folder / "cache"))


def _call(sweep: Sweep, **values: int) -> KernelCall:
    found = [c for c in sweep.configurations() if isinstance(c, Configuration) and c.values == values]
    return found[0].call


def test_only_legal_candidates_and_no_more_emulated_than_allowed(tuned: Tuned) -> None:
    assert tuned.configurations == 36 and len(tuned.candidates) == LEGAL
    assert sum(tuned.illegal.values()) == 16
    assert any("2048 threads" in reason for reason in tuned.illegal)
    assert any("shared memory" in reason for reason in tuned.illegal)
    assert 1 <= tuned.emulated <= 3 and tuned.share <= 0.15
    assert all(c.values["shared"] != 300000 and c.values["threads"] != 2048 for c in tuned.candidates)
    assert [c.emulated for c in tuned.candidates] == [True] * tuned.emulated + [False] * (LEGAL - tuned.emulated)
    assert tuned.best.seconds <= 1.02 * min(c.seconds for c in tuned.candidates if c.emulated)


def test_of_a_small_space_five_are_emulated_where_nothing_is_said() -> None:
    assert [budget(legal, None) for legal in (1, 35, 100, 684)] == [5, 5, 5, 34]
    assert [budget(legal, 0.05) for legal in (1, 35, 100, 684)] == [1, 1, 5, 34]


def test_candidates_that_do_not_do_the_same_work_are_pointed_out(tuned: Tuned, folder: Path) -> None:
    assert tuned.warnings == []
    (folder / "wrong.toml").write_text(SPEC.replace('block = "threads"', 'block = "threads"\narg.n = "1024 * threads"'))
    wrong = tune(load_sweep(folder / "wrong.toml"), load_machine("h200"), share=0.15, cache=Cache(folder / "cache"))
    assert any("floating-point operations: " in text and "threads=" in text for text in wrong.warnings)
    assert any("do not do the same work" in str(part) for part in side_by_side.tuned(wrong, [], 3))


@pytest.mark.slow
def test_the_choice_is_the_best_that_emulating_everything_finds(sweep: Sweep, tuned: Tuned, folder: Path) -> None:
    whole = tune(sweep, load_machine("h200"), model="warplens-fast", share=1.0, cache=Cache(folder / "cache"))
    times = {c.number: c.seconds for c in whole.candidates}
    assert whole.emulated + whole.pruned == LEGAL
    assert times[tuned.best.number] <= 1.05 * min(times.values())
    ruled_out = [c for c in whole.candidates if not c.emulated]
    assert all(c.seconds >= min(times.values()) for c in ruled_out)


@pytest.mark.parametrize("values", [{"UNROLL": 1, "threads": 64}, {"UNROLL": 4, "threads": 1024}])
def test_an_estimate_from_a_neighbour_is_near_what_emulation_says(
    values: dict[str, int], sweep: Sweep, folder: Path
) -> None:
    machine, cache = load_machine("h200"), Cache(folder / "cache")
    neighbour = count(_call(sweep, UNROLL=4, threads=256, shared=0), machine, cache)
    call = _call(sweep, **values, shared=0)
    made = estimate(compiled(call, machine, cache)[1], call, machine, neighbour)
    real = predict(count(call, machine, cache).workload, machine, "warplens-fast")
    assert made.seconds == pytest.approx(real.seconds, rel=0.25)
    assert 0 < made.issue_seconds <= float(real.seconds)  # type: ignore[arg-type]


def test_an_estimate_from_itself_is_what_the_model_says(sweep: Sweep, folder: Path) -> None:
    machine, cache = load_machine("h200"), Cache(folder / "cache")
    call = _call(sweep, UNROLL=4, threads=256, shared=0)
    counted = count(call, machine, cache)
    made = estimate(counted.program, call, machine, counted)
    assert made.seconds == pytest.approx(predict(counted.workload, machine, "warplens-fast").seconds, rel=0.01)


def test_work_that_grows_with_the_blocks_is_work_per_block_by_each(sweep: Sweep, folder: Path) -> None:
    counted = count(
        _call(sweep, UNROLL=4, threads=256, shared=0), load_machine("h200"), Cache(folder / "cache")
    )  # fmt: skip
    profile = counted.workload.profile
    assert profile is not None
    more = {name: [4 * n for n in column] for name, column in profile.counts.items()}

    def launched(blocks: int, counts: dict[str, list[float]]) -> Counted:
        """As if so many times as many blocks had done this."""
        grown = replace(profile, grid_blocks=blocks * profile.grid_blocks, counts=counts)
        return replace(counted, workload=replace(counted.workload, profile=grown))

    same, grown = (launched(4, counts) for counts in (profile.counts, more))
    assert work_per_block([counted, counted, same]) == frozenset()
    assert {kind for _, kind in work_per_block([counted, counted, grown])} >= {"arithmetic", "store", "load"}
    assert work_per_block([counted, grown]) == frozenset()  # two may differ by anything


def test_measured_candidates_come_with_the_fastest_first(sweep: Sweep, tuned: Tuned) -> None:
    asked: list[KernelCall] = []

    def fake(call: KernelCall) -> float:
        asked.append(call)
        off = 1.1 if len(asked) == 1 else 1.0  # the first timing of all, and with it that of the first candidate
        return off * 1e-3 / call.threads_per_block

    made = measure(sweep, tuned.candidates, fake, 4)
    assert (len(asked), len(made)) == (3 * 4, 4)
    assert {m.seconds for m in made} == {1e-3 / call.threads_per_block for call in asked}
    assert [m.seconds for m in made] == sorted(m.seconds for m in made)
    assert asked[0] == next(c.call for c in sweep.configurations() if c.number == tuned.best.number)  # type: ignore[union-attr]
    assert len({m.candidate.number for m in measure(sweep, tuned.candidates, fake, LEGAL)}) == LEGAL


class _Gpu(FakeGpu):
    """Remembers launches with shapes; every launch takes a microsecond."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[Any, ...]] = []

    def launch(self, function: Any, blocks: Any, threads: Any, shared: int, arguments: Any) -> None:
        self.shapes.append((function, blocks, threads, shared, [bytes(a) for a in arguments]))

    def mark(self, which: int) -> None: ...

    def clear(self, address: int, size: int) -> None: ...

    def put(self, address: int, data: Any) -> None: ...

    def unload(self, module: Any) -> None: ...

    def elapsed_seconds(self) -> float:
        return 1e-6


def test_a_call_is_launched_as_its_file_says(sweep: Sweep) -> None:
    gpu = _Gpu()
    timer = Timer(gpu)  # type: ignore[arg-type]
    assert timer.seconds(_call(sweep, UNROLL=1, threads=64, shared=0), b"", "k", repetitions=3) == 1e-6
    launches = [shape for shape in gpu.shapes if shape[0] == "k"]
    assert len(launches) == 4 and len(gpu.shapes) == 7  # one before, and a delay before each that is timed
    _, blocks, threads, shared, arguments = launches[-1]
    assert (blocks, threads, shared) == ((132 * 16, 1, 1), (64, 1, 1), 0)
    assert arguments[0] == (1081344).to_bytes(4, "little")
    assert len(timer.arrays) == 2


def test_refused_questions(sweep: Sweep, folder: Path) -> None:
    with pytest.raises(WarplensError, match="between 0 and 1"):
        tune(sweep, load_machine("h200"), share=0)
    with pytest.raises(WarplensError, match="unknown model 'warplen'; did you mean 'warplens'"):
        tune(sweep, load_machine("h200"), model="warplen")
    with pytest.raises(WarplensError, match="no configuration can be predicted: mowry gives no time"):
        tune(sweep, load_machine("h200"), model="mowry", share=0.05, cache=Cache(folder / "cache"))
    (folder / "two.toml").write_text(SPEC + SPEC)
    with pytest.raises(WarplensError, match="tune takes one kernel"):
        tune(load_sweep(folder / "two.toml"), load_machine("h200"))
    (folder / "none.toml").write_text(SPEC.replace("[0, 120000, 300000]", "[300000]"))
    with pytest.raises(WarplensError, match="no configuration is legal"):
        tune(load_sweep(folder / "none.toml"), load_machine("h200"), cache=Cache(folder / "cache"))


def test_what_is_named_as_best_is_the_first_of_the_table(tuned: Tuned) -> None:
    chosen = [replace(tuned.candidates[0], number=i, values={"threads": t}, seconds=s, emulated=True)
              for i, (t, s) in enumerate(((128, 100e-6), (64, 100.3e-6), (256, 101e-6)))]  # fmt: skip
    head, table, same, _ = side_by_side.tuned(replace(tuned, candidates=chosen, warnings=[], illegal={}), [], 3)
    assert str(head).startswith("k on h200: threads=128 ") and str(head).endswith(", 100 us predicted")
    assert same == "as fast, within 0.5 %: threads=128; threads=64: keep what you have if it is among them"
    assert isinstance(table, Table)
    first = [str(cell).split()[0] for cell in table.columns[0].cells]
    assert first == ["threads=128", "threads=64", "threads=256"]
    assert [column.header for column in table.columns] == ["configuration", "predicted", "limited by"]
