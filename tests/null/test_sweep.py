"""Sweeps: files, expressions, the journal through kills and full disks, the cache, closed-form models."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.null import sweeping
from warplens import models
from warplens.cli import main
from warplens.core.cache import Cache, key_of
from warplens.core.errors import FileError, WarplensError
from warplens.machine import load_machine
from warplens.report import side_by_side
from warplens.tuner import journal, points, results, spec
from warplens.tuner.expression import evaluate
from warplens.tuner.journal import Head, Journal
from warplens.tuner.points import Row, Task
from warplens.tuner.run import Engine, dask, processes, run
from warplens.tuner.spec import Configuration, WrongPoint, load_sweep
from warplens.workload import mix


def _lines(folder: Path, out: str = "out") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / out / "results.jsonl").read_text().splitlines()]


# ---- expressions and files


@pytest.mark.parametrize(
    ("text", "value"),
    [("n // (A * 2)", 8), ("ceil_div(n, 3)", 22), ("min(n, A, 3) + -1", 2), ("A * 1.5", 6.0), ("n % 5 == 4", True),
     ("1 <= A < 4 or not n", False), ("kind == 'x' and A != 3", True)],
)  # fmt: skip
def test_expression(text: str, value: object) -> None:
    assert evaluate(text, {"n": 64, "A": 4, "kind": "x"}) == value


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "n.real", "[n]", "lambda: 1", "n ** n", "n if n else 1", "open(n)", "min(n, key=n)", "n //",
     "1 / 0", "'a' * 99999999", "9223372036854775807 * 9", "missing + 1", "f'{n}'", "(" * 400 + "n" + ")" * 400],
)  # fmt: skip
def test_refused_expression(text: str) -> None:
    with pytest.raises(WarplensError):
        evaluate(text, {"n": 64})


def test_configurations_are_numbered_over_all_axes_and_made_lazily(tmp_path: Path) -> None:
    sweep = sweeping.make(tmp_path)
    made = list(sweep.configurations())
    assert [c.number for c in made] == [0, 1, 2, 4, 5, 6, 7]  # x = 3 is not wanted
    assert all(isinstance(c, Configuration) and c.call.grid == c.values["x"] + 7 for c in made)  # type: ignore[operator]
    assert [c.number for c in sweep.configurations(first=5)] == [5, 6, 7]
    large = sweeping.make(tmp_path, ", ".join(map(str, range(100_000))))
    assert next(large.configurations(99_999)).number == 99_999


def test_a_configuration_that_cannot_be_launched_says_why(tmp_path: Path) -> None:
    (wrong,) = sweeping.make(tmp_path, "-7").configurations()
    assert isinstance(wrong, WrongPoint)
    assert "grid" in wrong.error


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [("x + n", "y + n", "no axis or argument 'y'"), ("where", "whre", "whre: unknown key"),
     ('"x != 3"', "3", "where.0"), ("[0, 1, 2", "[[0], 1, 2", "kernel.0.parameter.x"),
     ('grid = "x', 'arg.m = "x', "no such argument"),
     ('launch = "k.l', 'launch = "l.l', "l.launch.toml"), ("[[kernel]]", "[[other]]", "other: unknown key")],
)  # fmt: skip
def test_refused_file(tmp_path: Path, before: str, after: str, said: str) -> None:
    sweeping.make(tmp_path)
    file = tmp_path / "s.toml"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))
    with pytest.raises(FileError, match=said):
        load_sweep(file)


# ---- running


def test_a_space_without_points_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(WarplensError, match="`where` leaves no configuration"):
        sweeping.sweep(tmp_path, sweeping.make(tmp_path, "3"))
    assert not (tmp_path / "out").exists()


def test_a_sweep_writes_all_points_in_order_and_does_nothing_twice(tmp_path: Path) -> None:
    made = sweeping.sweep(tmp_path, sweeping.make(tmp_path))
    assert (made.points, made.failed, made.earlier) == (14, 0, 0)
    rows = _lines(tmp_path)
    assert [(r["x"], r["gpu"]) for r in rows] == [(x, g) for x in (0, 1, 2, 4, 5, 6, 7) for g in ("h200", "a100")]
    assert rows[0]["seconds"] == pytest.approx(7e-6)
    before = (tmp_path / "out" / "journal.jsonl").read_bytes()
    again = sweeping.sweep(tmp_path)
    assert again.earlier == 14
    assert (tmp_path / "out" / "journal.jsonl").read_bytes() == before


def test_workers_that_die_cost_one_point_at_most(tmp_path: Path) -> None:
    made = sweeping.sweep(tmp_path, sweeping.make(tmp_path, "0, 1, 101, 102, 4, 100, 6"), workers=2)
    assert (made.points, made.failed) == (14, 4)
    errors = {r["x"]: r["error"] for r in _lines(tmp_path)}
    assert errors == {0: None, 1: None, 101: None, 102: "ValueError: not this one", 4: None, 6: None,
                      100: "its worker died twice"}  # fmt: skip


def test_a_key_in_the_wrong_place_is_not_proposed_instead_of_itself(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('format = 1\n[[kernel]]\nlaunch = "x.toml"\naxis.threads = [1]\n')
    with pytest.raises(FileError, match=r"kernel\.0\.axis: unknown key(?!.*'axis')"):
        load_sweep(file)


def test_workers_end_with_a_process_that_is_killed() -> None:
    script = (
        "import os, signal\n"
        "from warplens.tuner.run import processes\n"
        "if __name__ == '__main__':\n"
        "    print(processes(1).start().submit(os.getpid).result(), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    gone = Path(f"/proc/{int(killed.stdout)}/cmdline")
    ends = time.monotonic() + 10
    while gone.exists() and gone.read_bytes() and time.monotonic() < ends:  # empty: ended, and nobody asked yet
        time.sleep(0.05)
    assert not (gone.exists() and gone.read_bytes())


def test_killed_and_resumed_gives_the_same_file(tmp_path: Path) -> None:
    made = sweeping.make(tmp_path, ", ".join(map(str, range(1000, 1060))))
    sweeping.sweep(tmp_path, made, "whole")
    command = [sys.executable, "-m", "tests.null.sweeping", str(tmp_path), "killed"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, start_new_session=True) as process:
        file = tmp_path / "killed" / "journal.jsonl"
        until = time.monotonic() + 60
        while not (file.exists() and file.read_bytes().count(b"\n") > 20) and time.monotonic() < until:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    kept = len(file.read_bytes().splitlines()) - 1
    assert 20 <= kept < 60
    with file.open("ab") as stream:
        stream.write(b'{"n":99,"below":3,"ro')  # as a kill in the middle of a line would leave it
    resumed = sweeping.sweep(tmp_path, made, "killed")
    assert resumed.earlier >= 2 * (kept - 1)
    for name in ("results.jsonl", "results.parquet"):
        if (tmp_path / "whole" / name).exists():
            assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.slow
def test_a_dask_worker_that_is_killed_costs_nothing(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    made = sweeping.make(tmp_path, ", ".join(map(str, range(1000, 1200))))
    sweeping.sweep(tmp_path, made, "whole")
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, dashboard_address=None, memory_limit=None
    ) as cluster:
        victims = [worker.pid for worker in cluster.workers.values()][:2]

        def kill(done: int, total: int) -> None:
            if victims and done % 40 == 0:
                os.kill(victims.pop(), signal.SIGKILL)

        engine = dask(cluster.scheduler_address)
        outcome = run(made, tmp_path / "dask", engine, cache=str(tmp_path), work=sweeping.work, watch=kill)
    assert not victims and (outcome.points, outcome.failed) == (400, 0)
    for name in ("results.jsonl", "results.parquet"):
        if (tmp_path / "whole" / name).exists():
            assert (tmp_path / "dask" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize("command", ["sweep", "tune"])
def test_a_triton_kernel_is_refused_in_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.toml").write_text('file = "k.py"\nkernel = "k"\ngrid = 1\nnum_warps = 4\n')
    (tmp_path / "s.toml").write_text('[[kernel]]\nlaunch = "t.toml"\ndefine = { BLOCK = [64, 128] }\n')
    assert main([command, str(tmp_path / "s.toml")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "Triton's kernels are not swept" in said and "triton_prune" in said
    assert not (tmp_path / "s.sweep").exists()


def test_without_pyarrow_a_note_says_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    outcome = sweeping.sweep(tmp_path, sweeping.make(tmp_path, "0, 1"))
    assert [Path(file).name for file in outcome.files] == ["results.jsonl"]
    assert [note for note in map(str, side_by_side.outcome(outcome)) if "pip install pyarrow" in note]


def test_an_engine_that_is_lost_stops_the_sweep_and_fails_no_point(tmp_path: Path) -> None:
    made = sweeping.make(tmp_path, ", ".join(map(str, range(1000, 1040))))
    sweeping.sweep(tmp_path, made, "whole")
    done = [0]

    def watch(now: int, total: int) -> None:
        done[0] = now

    engine = replace(processes(2), lost=lambda: "the scheduler" if done[0] >= 10 else None)
    with pytest.raises(WarplensError, match=r"the scheduler does not answer any more; [0-9]+ points are kept") as error:
        run(made, tmp_path / "lost", engine, cache=str(tmp_path), work=sweeping.work, watch=watch)
    assert "\n" not in str(error.value)
    resumed = sweeping.sweep(tmp_path, made, "lost")
    assert resumed.earlier >= 2 * 9 and resumed.failed == 0
    assert (tmp_path / "lost" / "results.jsonl").read_bytes() == (tmp_path / "whole" / "results.jsonl").read_bytes()


@pytest.mark.slow
def test_a_dask_scheduler_that_is_killed_costs_nothing(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    made = sweeping.make(tmp_path, ", ".join(map(str, range(1000, 1100))))
    sweeping.sweep(tmp_path, made, "whole")
    file, parts = tmp_path / "scheduler.json", list[subprocess.Popen[bytes]]()
    options = {"scheduler": ["--host", "127.0.0.1", "--port", "0"], "worker": ["--nthreads", "1", "--no-nanny"]}
    try:
        for part, more in options.items():
            command = [sys.executable, "-m", f"distributed.cli.dask_{part}", "--scheduler-file", str(file), *more]
            parts.append(
                subprocess.Popen(
                    [*command, "--no-dashboard"],
                    cwd=Path(__file__).parents[2],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        until = time.monotonic() + 60
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.1)
        engine = dask(json.loads(file.read_text())["address"])

        def kill(done: int, total: int) -> None:
            if done >= 20:
                parts[0].kill()

        with pytest.raises(WarplensError, match=r"Dask scheduler at tcp://.* does not answer any more; [0-9]+ points"):
            run(made, tmp_path / "lost", engine, cache=str(tmp_path), work=sweeping.work, watch=kill)
    finally:
        for process in parts:
            process.kill()
            process.wait()
    resumed = sweeping.sweep(tmp_path, made, "lost")
    assert resumed.earlier >= 2 * 20 and resumed.failed == 0
    assert (tmp_path / "lost" / "results.jsonl").read_bytes() == (tmp_path / "whole" / "results.jsonl").read_bytes()


def test_an_interruption_keeps_what_is_done(tmp_path: Path) -> None:
    made = sweeping.make(tmp_path, ", ".join(map(str, range(1000, 1040))))

    def stop(done: int, total: int) -> None:
        if done == 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(made, tmp_path / "out", processes(1), cache=str(tmp_path), work=sweeping.work, watch=stop)
    assert sweeping.sweep(tmp_path, made).earlier == 30


def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path) -> None:
    made = sweeping.make(tmp_path, ", ".join(map(str, range(100, 150))).replace("100, 101, 102, ", ""))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    try:
        with pytest.raises(FileError, match=r"journal.jsonl: cannot write: .*; \d+ points are kept"):
            sweeping.sweep(tmp_path, made)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    kept = (tmp_path / "out" / "journal.jsonl").read_bytes()
    assert kept.endswith(b"\n") and 2000 < len(kept) <= 4000
    assert not (tmp_path / "out" / "results.jsonl").exists()
    after = sweeping.sweep(tmp_path, made)
    assert (after.points, after.earlier) == (94, 2 * (kept.count(b"\n") - 1))


def test_a_source_that_was_changed_is_another_sweep(tmp_path: Path) -> None:
    again = partial(run, sweeping.make(tmp_path, "0"), tmp_path / "out", Engine(1, _Here), work=sweeping.work)
    again()  # without its source
    for file, text in (("k.cu", '#include "k.h"'), ("k.h", "int a;"), ("k.h", "int b;")):
        (tmp_path / file).write_text(text)
        with pytest.raises(FileError, match="a file that it names was changed"):
            again()
        again(restart=True)
        assert again().earlier == 2


def test_a_sweep_of_which_nothing_comes_says_why_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweeping.make(tmp_path, "-8, -9")
    assert main(["sweep", str(tmp_path / "s.toml"), "--workers", "1"]) == 1
    said = capsys.readouterr().out
    assert "4 points; 4 failed" in said and "2 times: k: grid" in said


def test_another_sweep_is_not_mixed_in(tmp_path: Path) -> None:
    sweeping.sweep(tmp_path, sweeping.make(tmp_path, "0"))
    with pytest.raises(FileError, match="of another sweep"):
        sweeping.sweep(tmp_path, sweeping.make(tmp_path, "0, 1"))
    (tmp_path / "out" / "journal.jsonl").write_text("what?\n")
    with pytest.raises(FileError, match="not a journal of ours"):
        sweeping.sweep(tmp_path)


def test_beginning_anew_throws_nothing_away_before_the_sweep_can_begin(tmp_path: Path) -> None:
    sweeping.sweep(tmp_path, sweeping.make(tmp_path, "0"))
    out, spec = tmp_path / "out", tmp_path / "s.toml"
    kept = {file: file.read_bytes() for file in out.iterdir()}
    spec.write_text(spec.read_text().replace('"h200"', '"h20"'))
    assert main(["sweep", str(spec), "--out", str(out), "--restart"]) == 2  # there is no such GPU
    made = sweeping.make(tmp_path, "0, 1")
    anew = partial(run, made, out, processes(1), cache=str(tmp_path), work=sweeping.work, restart=True)
    with out.joinpath("journal.jsonl").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(FileError, match="another process"):
            anew()
    assert {file: file.read_bytes() for file in out.iterdir()} == kept
    assert (anew().points, len(_lines(tmp_path))) == (4, 4)


def _no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_too_full_to_compile_stops_the_sweep_and_fails_no_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sweeping.make(tmp_path, "0, 1")
    monkeypatch.setattr(points, "count", _no_room)
    with ThreadPoolExecutor(1) as pool, pytest.raises(FileError, match=r"no room .*No space left"):
        run(made, tmp_path / "out", Engine(1, lambda: pool), cache=None)
    assert sweeping.sweep(tmp_path, made).failed == 0


def test_one_process_at_a_time(tmp_path: Path) -> None:
    made = sweeping.make(tmp_path, "0")
    (tmp_path / "out").mkdir()
    with Journal(tmp_path / "out" / "journal.jsonl", Head("", "")), pytest.raises(FileError, match="another process"):
        sweeping.sweep(tmp_path, made)


def test_the_journal_puts_any_length_in_order_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SPREAD", 8)
    order = [n ^ 5 for n in range(4000)]  # never more than 8 apart
    with Journal(tmp_path / "j", Head("s", "v")) as made:
        for n in order:
            made.add(n, [Row(n, "k", {}, "g", "m", 1.0)])
        assert made.done.below == 4000 and not made.done.beyond
        assert [row.number for row in made.rows()] == list(range(4000))
    with Journal(tmp_path / "j", Head("s", "v")) as again:
        assert (again.points, again.done.below) == (4000, 4000)


class _Here(Executor):
    """Does everything at once, in this process."""

    def submit(self, function: Any, /, *given: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(function(*given, **named))
        return done


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
@pytest.mark.parametrize("configurations", [10_000, pytest.param(300_000, marks=pytest.mark.slow)])
def test_memory_does_not_grow_with_the_length_of_a_sweep(tmp_path: Path, configurations: int) -> None:
    made = sweeping.make(tmp_path, "5")
    several = replace(made.kernels[0], parameter={"x": [4, 5], "y": list(range(configurations // 2))})
    made = replace(made, kernels=[several])
    run(replace(made, kernels=[replace(several, parameter={"x": [4], "y": [1]})]), tmp_path / "first", Engine(1, _Here),
        work=sweeping.work)  # fmt: skip
    seen = [_resident_bytes()]

    def watch(done: int, total: int) -> None:
        if done % 1000 == 0:
            seen.append(_resident_bytes())

    outcome = run(made, tmp_path / "out", Engine(1, _Here), work=sweeping.work, watch=watch)
    seen.append(_resident_bytes())
    assert outcome.points == 2 * configurations
    assert max(seen) - seen[0] < 100 << 20  # and what a worker takes is the emulator's, whatever the length


def test_the_fastest_configuration_of_each_kernel_and_gpu_is_told(tmp_path: Path) -> None:
    def work(task: Task) -> list[Row]:
        return [replace(row, model=task.models[0]) for row in sweeping.work(task)]

    outcome = run(sweeping.make(tmp_path, "7, 4, 5, 6"), tmp_path / "out", Engine(1, _Here), work=work)
    assert [(b.kernel, b.gpu, b.values, b.points) for b in outcome.best] == [
        ("k", "h200", {"x": 4}, 4),
        ("k", "a100", {"x": 4}, 4),
    ]
    assert outcome.best[0].slowest_seconds == pytest.approx(14e-6)  # x + n blocks, a microsecond each
    said = "\n".join(str(part) for part in side_by_side.outcome(outcome))
    assert "the fastest configurations by warplens-fast" in said and "8 points" in said


def test_a_disk_that_is_full_when_the_results_are_written_keeps_the_journal(tmp_path: Path) -> None:
    made = sweeping.make(tmp_path, ", ".join(map(str, range(200, 210))))
    run(made, tmp_path / "out", Engine(1, _Here), work=sweeping.work)
    file = tmp_path / "out" / "results.jsonl"
    wanted = file.read_bytes()
    file.unlink()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(FileError, match=r"results\.jsonl"):
            run(made, tmp_path / "out", Engine(1, _Here), work=sweeping.work)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not file.exists()
    again = run(made, tmp_path / "out", Engine(1, _Here), work=sweeping.work)
    assert again.earlier == 20 and file.read_bytes() == wanted


# ---- the cache


def _entry(cache: Cache, key: str, make: Callable[[], Row]) -> Row:
    found = cache.get(key, Row) or make()
    cache.put(key, found)
    return found


def test_cache_keeps_by_content_and_makes_a_damaged_entry_again(tmp_path: Path) -> None:
    cache, made = Cache(tmp_path), list[int]()

    def make() -> Row:
        made.append(1)
        return Row(1, "k", {"x": 3}, "g", "m", 0.5)

    key = key_of("x", 1)
    assert key != key_of("x", 2)
    assert _entry(cache, key, make) == _entry(cache, key, make) == make()
    assert len(made) == 2
    (entry,) = [f for f in tmp_path.rglob("*") if f.is_file()]
    good = entry.read_bytes()
    for bad in (good[:-1], good[:20], b"", good[:40] + b"\xff" + good[41:], os.urandom(200)):
        entry.write_bytes(bad)
        before = len(made)
        assert _entry(cache, key, make).seconds == 0.5
        assert len(made) == before + 1
        assert entry.read_bytes() == good


def test_cache_is_safe_under_writers_at_once(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    wanted = Row(7, "k" * 10_000, {}, "g", "m", 1.0)
    wrong: list[object] = []

    def hammer() -> None:
        for _ in range(100):
            cache.put("ab" + "0" * 62, wanted)
            wrong.extend(x for x in [cache.get("ab" + "0" * 62, Row)] if x != wanted)

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len([f for f in tmp_path.rglob("*") if f.is_file()]) == 1  # no temporary file is left


def test_cache_on_a_full_disk_only_does_not_keep(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        made = _entry(Cache(tmp_path), "cd" + "0" * 62, lambda: Row(1, "k" * 1000, {}, "g", "m"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert made.number == 1
    assert not [f for f in tmp_path.rglob("*") if f.is_file()]


# ---- closed-form models


CLOSED = """
gpus = ["gtx980", "h200"]
models = ["volkov", "mowry"]
[[workload]]
workload = "volkov-add-load"
[workload.axis]
alpha = { from = 0, to = 64, count = 9 }
warps_per_sm = [4, 16, 64]
"""


def test_closed_form_points_are_those_of_single_predictions(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(CLOSED)
    made = run(load_sweep(tmp_path / "c.toml"), tmp_path / "out", processes(1))
    rows = _lines(tmp_path)
    assert made.points == len(rows) == 9 * 3 * 2 * 2
    timed = [r for r in rows if r["model"] == "volkov"]
    for row in timed[::7]:
        single = models.predict(
            mix(row["alpha"]),
            load_machine(str(row["gpu"])),
            "volkov",
            warps_per_sm=row["warps_per_sm"],
        )
        assert row["seconds"] == pytest.approx(single.seconds)
        assert row["bound"] == single.bound
    best = {b.gpu: b for b in made.best}
    assert set(best) == {"gtx980", "h200"}
    for gpu, b in best.items():
        here = [r for r in timed if r["gpu"] == gpu]
        assert (b.seconds, b.slowest_seconds) == (min(r["seconds"] for r in here), max(r["seconds"] for r in here))
        assert b.points == 27 and {**b.values, "seconds": b.seconds} in [
            {k: r[k] for k in (*b.values, "seconds")} for r in here
        ]
    assert {r["error"] for r in rows if r["model"] == "mowry"} != {None}  # it gives no time: said in each row


def test_parquet_has_the_rows_of_the_json_lines(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    sweeping.make(tmp_path)
    text = (tmp_path / "s.toml").read_text() + CLOSED.partition("[[workload]]")[2].join(["[[workload]]", ""])
    (tmp_path / "s.toml").write_text(
        text.replace('gpus = ["h200", "a100"]', 'gpus = ["h200", "a100"]\nmodels = ["volkov"]')
    )
    sweeping.sweep(tmp_path)
    table = parquet.read_table(tmp_path / "out" / "results.parquet").to_pylist()
    lines = _lines(tmp_path)
    assert len(table) == len(lines) == 14 + 2 * 27
    for row, line in zip(table, lines, strict=True):
        assert {name: value for name, value in row.items() if value is not None} == {
            name: value for name, value in line.items() if value is not None
        }


@pytest.mark.parametrize(("values", "said"), [(2**63, "parameter.x"), (-(2**63) - 1, "parameter.x")])
def test_a_number_that_no_column_holds_is_refused_before_anything_runs(values: int, said: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=said):
        sweeping.make(tmp_path, str(values))
    sweeping.make(tmp_path, f"{2**63 - 1}, {-(2**63)}")


def test_a_space_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "k.launch.toml").write_text(sweeping.LAUNCH)
    axes = "\n".join(f"x{i} = [{', '.join(map(str, range(10)))}]" for i in range(400))
    (tmp_path / "s.toml").write_text(sweeping.SPEC.format(values="1") + f"[kernel.define]\n{axes}\n")
    with pytest.raises(FileError, match="more than 1,000,000,000,000 configurations"):
        load_sweep(tmp_path / "s.toml")


def test_an_axis_of_two_types_is_a_column_of_text(tmp_path: Path) -> None:
    """Of a kernel it is text, of a workload a number: all was computed, and then came a traceback."""
    parquet = pytest.importorskip("pyarrow.parquet")
    sweeping.make(tmp_path)
    named = sweeping.SPEC.format(values="1") + '[kernel.define]\nalpha = ["a"]\n'
    (tmp_path / "s.toml").write_text(named + CLOSED.partition("[[workload]]")[2].join(["[[workload]]", ""]))
    sweeping.sweep(tmp_path)
    column = parquet.read_table(tmp_path / "out" / "results.parquet")["alpha"].to_pylist()
    assert column[:2] == ["a", "a"] and float(column[2]) == 0


def test_a_damaged_line_of_the_journal_is_done_again(tmp_path: Path) -> None:
    """Bytes that are no text ended in a traceback, as brackets without end did."""
    rows = [Row(n, "k", {"x": n}, "g", "m") for n in range(3)]
    with Journal(tmp_path / "journal", Head("s", "v")) as made:
        for row in rows:
            made.add(row.number, [row])
    whole = (tmp_path / "journal").read_bytes()
    for text in (b'"x":"\xff"', b'"x":' + b"[" * 100_000, b'"x":{}', b'"x":"'):
        (tmp_path / "journal").write_bytes(whole.replace(b'"x":2', text, 1))
        with Journal(tmp_path / "journal", Head("s", "v")) as again:
            assert 2 not in again.done and list(again.rows()) == rows[:2]


def test_a_row_of_another_type_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.parquet")
    sweeping.make(tmp_path)
    sweeping.sweep(tmp_path)
    file = tmp_path / "out" / "journal.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"x":4', b'"x":"four"', 1))
    with pytest.raises(FileError, match="a row of the journal is none of this sweep"):
        sweeping.sweep(tmp_path)
    assert len(_lines(tmp_path)) == 14


def test_a_journal_that_is_no_file_is_refused(tmp_path: Path) -> None:
    sweeping.make(tmp_path)
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "out" / "journal.jsonl")
    with pytest.raises(FileError, match="a device or a pipe"):
        sweeping.sweep(tmp_path)


def test_a_million_closed_form_points_are_a_matter_of_a_second() -> None:
    space = spec.WorkloadSpace(
        "volkov-add-load", {"alpha": spec.Range(0, 512, 1000), "warps_per_sm": spec.Range(1, 64, 1000)}
    )
    start, points, total = time.process_time(), 0, 0.0
    for part in results.chunks(space, ".", ["gtx980"], ["volkov"], 0):
        points += len(part["number"])
        total += float(np.sum(part["seconds"]))
    assert points == 1_000_000 and np.isfinite(total)
    assert time.process_time() - start < 3  # `make bench` prints it; here only that nobody makes it a loop


def test_refused_axes_of_workloads(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(CLOSED.replace("warps_per_sm", "warps"))
    with pytest.raises(FileError, match=r"axis\.warps: unknown"):
        load_sweep(tmp_path / "c.toml")
    for value in ("0", "nan", "-1"):
        (tmp_path / "c.toml").write_text(CLOSED.replace("[4,", f"[{value},"))
        with pytest.raises(FileError, match=rf"axis\.warps_per_sm: must be a number from .*, not {value}"):
            load_sweep(tmp_path / "c.toml")


def test_closed_form_points_that_fail_are_counted(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(CLOSED.replace("mowry", "warplens-fast"))
    made = run(load_sweep(tmp_path / "c.toml"), tmp_path / "out", processes(1))
    assert (made.points, made.failed) == (108, 54) and sum(made.reasons.values()) == 54
