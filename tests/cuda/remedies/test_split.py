"""A kernel of two phases, split by the remedy and by hand: our model says the same of both."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import warplens as wl
from tests.cuda.remedies.pairs import Argument, Kernel
from warplens.advisor import tried
from warplens.advisor.case import Refusal
from warplens.models import predict
from warplens.workload import Workload

pytestmark = [pytest.mark.cuda, pytest.mark.xdist_group("emulator")]
GPU = wl.load_machine("h200")
SOURCE = Path(__file__).with_name("split.cu")
BLOCKS = 132 * 128
THREADS = 128 * BLOCKS
NUMBERS: Argument = ("in", "f32*", 4096, "random")
NEXT: Argument = ("next", "i32*", THREADS + 8192, "linear(32, 1)")
KEPT: Argument = ("kept", "f32*", THREADS, "zeros")
OUT: Argument = ("out", "f32*", THREADS, "zeros")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("split")


@cache
def counted(name: str, turns: int, steps: int, folder: Path) -> Workload:
    all_turns: Argument = ("turns", "i32", turns)
    all_steps: Argument = ("steps", "i32", steps)
    arguments: dict[str, tuple[Argument, ...]] = {
        "phases": (NUMBERS, NEXT, OUT, all_turns, all_steps),
        "first_phase": (NUMBERS, KEPT, all_turns),
        "second_phase": (NEXT, KEPT, OUT, all_steps),
    }
    return Kernel(name, (BLOCKS,), (128,), arguments[name], source=SOURCE).counted(folder)


@pytest.mark.parametrize(("turns", "steps"), [(16, 64), (16, 96), (16, 256)])
def test_a_split_is_what_a_programmer_splits(turns: int, steps: int, folder: Path) -> None:
    whole, *parts = (counted(n, turns, steps, folder) for n in ("phases", "first_phase", "second_phase"))
    base, *by_hand = (float(predict(w, GPU, "warplens").cycles or 0.0) for w in (whole, *parts))
    found = tried(whole, GPU, ["split"])
    assert not isinstance(found, Refusal)
    assert base / sum(by_hand) > 1.25  # it helps
    assert float(found[1].cycles or 0.0) == pytest.approx(sum(by_hand), rel=0.1)


def test_the_advice_to_split_says_where_and_what_each_part_needs(folder: Path) -> None:
    made = wl.advise(counted("phases", 16, 64, folder), GPU)
    found = made.named("split")
    assert found is not None and found.helps and found.where[0].line == 22  # the chain
    assert found.changes["registers"] == [104, 16]
    assert not any("split" in both.name for both in made.combinations)
    assert all(both.speedup > made.advice[0].speedup for both in made.combinations)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("first_phase", "it has no two loops to cut between"),
        ("second_phase", "occupancy is 100 % already (64 warps per SM)"),
    ],
)
def test_why_a_kernel_is_not_split(name: str, reason: str, folder: Path) -> None:
    found = tried(counted(name, 16, 64, folder), GPU, ["split"])
    assert isinstance(found, Refusal) and reason in found.reason
