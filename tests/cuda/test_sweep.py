"""Sweeps of real kernels: the cache spares the compiler and the emulator, and knows when it may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from warplens import api
from warplens.core.cache import Cache
from warplens.emulator import profiler
from warplens.machine import load_machine
from warplens.models import predict
from warplens.program.load import load_traced
from warplens.tuner.points import Task, count, rows
from warplens.tuner.run import dask, processes, run
from warplens.tuner.spec import Configuration, load_sweep

pytestmark = pytest.mark.cuda
EMULATOR = pytest.mark.xdist_group("emulator")
SOURCE = """
#include "scale.cuh"
extern "C" __global__ void k(int n, const float *in, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = SCALE * in[i];
}
"""
LAUNCH = """
file = "k.cu"
kernel = "k"
grid = 64
block = 64
[[arg]]
name = "n"
type = "i32"
value = 4096
[[arg]]
name = "in"
type = "f32*"
count = 4096
fill = "random"
[[arg]]
name = "out"
type = "f32*"
count = 4096
"""
SPEC = """
gpus = ["h200", "a100"]
models = ["warplens-fast", "volkov"]
[[kernel]]
launch = "k.launch.toml"
[kernel.define]
SCALE = ["2.0f", "oops"]
[kernel.parameter]
threads = [64, 128]
[kernel.set]
grid = "ceil_div(n, threads)"
block = "threads"
"""


def _write(folder: Path) -> Path:
    (folder / "k.cu").write_text(SOURCE)
    (folder / "scale.cuh").write_text("#pragma once\n")
    (folder / "k.launch.toml").write_text(LAUNCH)
    (folder / "s.toml").write_text(SPEC)
    return folder / "s.toml"


def _first(folder: Path) -> Configuration:
    made = next(load_sweep(_write(folder)).configurations())
    assert isinstance(made, Configuration)
    return made


@EMULATOR
def test_points_are_those_of_analyze_and_a_source_that_fails_is_a_row(tmp_path: Path) -> None:
    sweep = load_sweep(_write(tmp_path))
    made = [row for c in sweep.configurations() for row in rows(Task(c, sweep.gpus, sweep.models, None))]  # type: ignore[arg-type]
    assert len(made) == 2 * 2 * 2 * 2
    good = [row for row in made if row.error is None]
    assert [row.values["SCALE"] for row in good] == ["2.0f"] * 8
    assert all("oops" in str(row.error) for row in made if row not in good)
    call = api.load_launch(tmp_path / "k.launch.toml")
    gpu = load_machine("a100")
    workload = api.count(None, replace(call, defines=["SCALE=2.0f"]), gpu)
    (row,) = [r for r in good if (r.gpu, r.model, r.values["threads"]) == ("a100", "warplens-fast", 64)]
    assert row.seconds == predict(workload, gpu, "warplens-fast").seconds


@EMULATOR
def test_the_cache_spares_work_and_knows_what_changes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    c, cache, gpu = _first(tmp_path), Cache(tmp_path / "cache"), load_machine("h200")
    done: list[str] = []

    def counted(name: str, function: Any) -> Any:
        def noted(*given: Any, **more: Any) -> Any:
            done.append(name)
            return function(*given, **more)

        return noted

    monkeypatch.setattr("warplens.program.load.load_traced", counted("compile", load_traced))
    monkeypatch.setattr(profiler, "profile", counted("emulate", profiler.profile))

    def again(machine: Any = gpu, folder: str = "cache") -> tuple[Any, list[str]]:
        done.clear()
        return count(c.call, machine, Cache(tmp_path / folder)).workload, list(done)

    first = count(c.call, gpu, cache).workload
    assert again() == (first, [])
    faster = replace(gpu, chip=replace(gpu.chip, clock_hz=2 * gpu.chip.clock_hz))
    assert again(faster) == (first, [])
    smaller = replace(gpu, cache=replace(gpu.cache, l2_bytes=1e6))
    assert again(smaller)[1] == ["emulate"]
    (tmp_path / "scale.cuh").write_text("// other\n")
    assert again()[1] == ["compile", "emulate"]
    (tmp_path / "scale.cuh").write_text("#pragma once\n")
    for entry in (tmp_path / "cache").rglob("*"):
        if entry.is_file():
            entry.write_bytes(entry.read_bytes()[:-3])
    assert again() == (first, ["compile", "emulate"])
    assert again() == (first, [])
    computed = '#define HEADER "scale.cuh"\n' + SOURCE.replace('"scale.cuh"', "HEADER")
    (tmp_path / "k.cu").write_text(computed)  # what it includes is not known: compiled every time
    assert again()[1] == again()[1] == ["compile", "emulate"]


@EMULATOR
@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_file(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    sweep = load_sweep(_write(tmp_path))
    cache = str(tmp_path / "cache")
    run(sweep, tmp_path / "here", processes(2), cache=cache)
    wanted = (tmp_path / "here" / "results.jsonl").read_bytes()
    assert len(wanted.splitlines()) == 16 and json.loads(wanted.splitlines()[0])["seconds"] > 0
    for workers in (2, 4, 8):
        with distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, memory_limit=None
        ) as cluster:
            run(sweep, tmp_path / f"dask{workers}", dask(cluster.scheduler_address), cache=cache)
        assert (tmp_path / f"dask{workers}" / "results.jsonl").read_bytes() == wanted
