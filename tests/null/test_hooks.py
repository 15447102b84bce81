"""Hooks for Triton's autotune and Kernel Tuner, with objects that have their call signatures, and the real ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import WarplensError
from warplens.report.side_by_side import tuned
from warplens.tuner.hooks import kernel_tuner_restriction, triton_prune
from warplens.tuner.timing import Candidate
from warplens.tuner.tune import Tuned


class Config(Struct, frozen=True):
    """As triton.Config: meta-parameters, warps, stages."""

    kwargs: dict[str, Any]
    num_warps: int = 4
    num_stages: int = 2


def _seconds(values: Mapping[str, Any], arguments: Mapping[str, Any]) -> float:
    if values["BLOCK"] > 1024:
        raise WarplensError("does not fit")
    off = abs(values["BLOCK"] - arguments["n"])
    return float(off + 0.1 * values["num_warps"] + 0.01 * values["num_stages"])


def test_triton_keeps_the_best_share_and_drops_what_does_not_fit() -> None:
    configs = [Config({"BLOCK": b}, w) for b in (64, 128, 256, 4096) for w in (2, 4)]
    kept = triton_prune(_seconds, keep=0.25)(configs, {"n": 120}, grid=(1,))
    assert [(c.kwargs["BLOCK"], c.num_warps) for c in kept] == [(128, 2), (128, 4)]
    assert len(triton_prune(_seconds, keep=1.0)(configs, {"n": 120})) == 6
    assert len(triton_prune(_seconds, keep=0.01)(configs, {"n": 120})) == 1
    assert len(triton_prune(_seconds)([Config({"BLOCK": 2048})], {"n": 1})) == 1  # Triton needs one to launch
    with pytest.raises(WarplensError):
        triton_prune(_seconds, keep=0)


def test_triton_calls_it_as_we_take_it() -> None:
    triton = pytest.importorskip("triton")
    configs = [triton.Config({"BLOCK": b}, num_warps=w) for b in (64, 128) for w in (2, 4)]
    kept = triton_prune(_seconds, keep=0.5)(configs, {"n": 64}, n=64)
    assert {c.kwargs["BLOCK"] for c in kept} == {64}


def _tuned() -> Tuned:
    made = [
        Candidate(i, {"X": x, "Y": y}, (1, 1, 1), (32, 1, 1), 1e-6 * (10 * abs(x - 4) + y), False)
        for i, (x, y) in enumerate((x, y) for x in (1, 2, 4, 8) for y in (0, 1, 2))
    ]
    return Tuned("k", "h200", "warplens", 14, {"too much": 2}, 1, 0, sorted(made, key=lambda c: c.seconds))


def test_configurations_as_fast_as_the_best_are_named_so_that_nobody_changes_for_nothing() -> None:
    seconds = {0: 1e-3, 1: 1.004e-3, 2: 1.006e-3, 3: 1.001e-3}  # the last is estimated
    found = replace(
        _tuned(), candidates=[Candidate(n, {"X": n}, (1, 1, 1), (32, 1, 1), s, n < 3) for n, s in seconds.items()]
    )
    assert [c.number for c in found.as_fast()] == [0, 1]
    assert [c.number for c in found.as_fast({1: 2e-3, 2: 2.001e-3, 3: 2.1e-3})] == [1, 2]  # as measured
    line = "as fast, within 0.5 %: X=0; X=1: keep what you have if it is among them"
    assert line in tuned(found, [], 5) and not any("as fast" in str(part) for part in tuned(_one_emulated(), [], 5))


def _one_emulated() -> Tuned:
    best, *others = _tuned().candidates
    return replace(_tuned(), candidates=[replace(best, emulated=True), *others])


def test_kernel_tuner_passes_only_the_best() -> None:
    passes = kernel_tuner_restriction(_tuned(), keep=0.25)
    assert [(x, y) for x in (1, 2, 4, 8) for y in (0, 1, 2) if passes({"X": x, "Y": y, "other": 1})] == [
        (4, 0), (4, 1), (4, 2)
    ]  # fmt: skip
    assert passes({"X": np.int64(4), "Y": np.int32(0)}) and not passes({"X": 16, "Y": 0})
    with pytest.raises(WarplensError, match="lack 'Y'"):
        passes({"X": 4})


def test_kernel_tuner_builds_its_space_with_it() -> None:
    searchspace = pytest.importorskip("kernel_tuner.searchspace")
    made = searchspace.Searchspace(
        {"X": [1, 2, 4, 8], "Y": [0, 1, 2]}, kernel_tuner_restriction(_tuned(), keep=0.25), max_threads=1024
    )
    assert sorted(made.list) == [(4, 0), (4, 1), (4, 2)]
