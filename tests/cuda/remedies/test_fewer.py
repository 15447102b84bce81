"""Fewer blocks on an SM: what is predicted of them, from the kernel as it is, against what an H200 took with them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

import warplens as wl
from tests.cuda.remedies.pairs import Argument, Kernel
from warplens.advisor import tried
from warplens.advisor.advice import Advice
from warplens.advisor.case import Refusal
from warplens.workload import Workload

pytestmark = [pytest.mark.cuda, pytest.mark.xdist_group("emulator")]
GPU = wl.load_machine("h200")
SOURCE = Path(__file__).with_name("fewer.cu")
DATA = Path(__file__).parents[3] / "data/experiments/l1_replacement/fewer_blocks.json"
REMEDY = "lower-occupancy"
PARTS, WINDOWS, LENGTH = 4224, 200, 256  # as in fewer_blocks.cu
CLOSE = 0.20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fewer")


@cache
def took(kernel: str, words: int, way: str, blocks: int) -> float:
    key = (kernel, words, way, blocks)
    found = [p["us"] for p in json.loads(DATA.read_text())["points"] if _key(p) == key]
    assert len(found) == 1
    return float(found[0])


def _key(point: dict[str, object]) -> tuple[object, ...]:
    return tuple(point[name] for name in ("kernel", "words", "way", "blocks"))


@cache
def counted(kernel: str, words: int, folder: Path) -> Workload:
    parts: Argument = ("parts", "i32", PARTS)
    each: dict[str, tuple[Argument, ...]] = {
        "circle": (_array("in", WINDOWS * words), _array("out", 256 * PARTS), parts, *_windows(words, 16)),
        "lookups": (_array("in", WINDOWS * words, "u32*"), _array("out", 256 * PARTS, "u32*"), parts,
                    *_windows(words, 512)),
        "rows": (*(_array(name, 256 * PARTS * LENGTH) for name in "ab"), _array("out", 256 * PARTS), parts,
                 ("length", "i32", LENGTH)),
        "once": (_array("in", 64 * 256 * PARTS), _array("out", 64 * 256 * PARTS), ("parts", "i32", 64 * PARTS)),
    }  # fmt: skip
    grid = 64 * PARTS if kernel == "once" else PARTS
    return Kernel(kernel, (grid,), (256,), each[kernel], source=SOURCE).counted(folder)


@cache
def advised(kernel: str, words: int, folder: Path) -> Advice | None:
    return wl.advise(counted(kernel, words, folder), GPU).named(REMEDY)


def _array(name: str, count: int, kind: str = "f32*") -> Argument:
    return name, kind, count, "zeros"


def _windows(words: int, turns: int) -> tuple[Argument, ...]:
    return ("windows", "i32", WINDOWS), ("words", "i32", words), ("turns", "i32", turns)


@pytest.mark.parametrize(
    ("kernel", "words", "blocks"),
    [("circle", 14336, 4), ("circle", 20480, 2), ("lookups", 14336, 2), ("lookups", 20480, 2)],
)
def test_fewer_blocks_win_what_is_said_where_l1_holds_half_of_what_they_read(
    kernel: str, words: int, blocks: int, folder: Path
) -> None:
    advice = advised(kernel, words, folder)
    assert advice is not None and advice.helps and advice.changes == {"blocks_per_sm": blocks}
    measured = took(kernel, words, "none", 8) / took(kernel, words, "loop", blocks)
    assert measured > 1.9  # it is worth the trouble
    assert advice.speedup == pytest.approx(measured, rel=CLOSE)
    assert advice.where[0].line == (10 if kernel == "circle" else 22) and advice.where[0].instructions
    assert advice.interval_seconds is not None and advice.assumption and advice.bound_after


@pytest.mark.parametrize(
    ("kernel", "words"),
    [("circle", 14336), ("circle", 20480), ("lookups", 14336), ("lookups", 20480)],
)
def test_the_time_with_fewer_blocks_lies_within_its_interval(kernel: str, words: int, folder: Path) -> None:
    advice = advised(kernel, words, folder)
    assert advice is not None and advice.interval_seconds is not None
    assert advice.interval_seconds[0] < advice.seconds < advice.interval_seconds[1]


@pytest.mark.parametrize(
    ("kernel", "words", "reason"),
    [
        ("circle", 10240, "1.3 times what L1 holds"),  # took 0.99 of the time: the hardware keeps 74 % by itself
        ("lookups", 10240, "1.3 times what L1 holds"),  # took half the time: the price of the caution
        ("circle", 2560, "L1 keeps what blocks come back to"),
        ("once", 0, "L1 keeps what blocks come back to: 0%"),
    ],
)
def test_why_fewer_blocks_are_not_advised(kernel: str, words: int, reason: str, folder: Path) -> None:
    workload = counted(kernel, words, folder)
    found = tried(workload, GPU, [REMEDY])
    assert isinstance(found, Refusal) and reason in found.reason
    known = workload.profile and workload.profile.l1_contention
    assert known and not known.fewer  # and nothing was emulated again


@pytest.mark.xfail(
    strict=True, reason="warps take turns of 64 instructions in the emulator, so that L1 keeps a thread's own sectors"
)
def test_rows_of_single_threads(folder: Path) -> None:
    found = tried(counted("rows", 0, folder), GPU, [REMEDY])
    assert not isinstance(found, Refusal)
    measured = took("rows", 0, "none", 8) / took("rows", 0, "loop", 4)
    assert float(found[0].cycles or 0.0) / float(found[1].cycles or 1.0) == pytest.approx(measured, rel=CLOSE)


def test_what_if_takes_the_hits_of_that_occupancy(folder: Path) -> None:
    workload = counted("lookups", 20480, folder)
    found = wl.what_if(workload, GPU, {"occupancy": 16})
    measured = took("lookups", 20480, "none", 8) / took("lookups", 20480, "loop", 2)
    assert found.speedup == pytest.approx(measured, rel=CLOSE)
    assert wl.what_if(workload, GPU, {"launch.blocks": 2}).speedup == pytest.approx(found.speedup, rel=0.01)


def test_a_saved_workload_keeps_what_was_counted_for_fewer_blocks(folder: Path) -> None:
    workload = counted("circle", 14336, folder)
    workload.save(folder / "saved.json")
    again = wl.load_workload(folder / "saved.json")
    assert again.profile == workload.profile and again.profile is not None and again.profile.l1_contention
    assert [f.blocks_per_sm for f in again.profile.l1_contention.fewer] == [4, 2]
