"""Stall reasons: when they agree, and for how many measured launches they do."""

from __future__ import annotations

import json

import pytest

from warplens.cli.main import main
from warplens.study.stalls import Stalls, validate_stalls


def test_only_the_three_largest_sampled_reasons_count() -> None:
    sampled = {"long_sb": 0.5, "wait": 0.2, "mio": 0.15, "barrier": 0.15}
    near = Stalls("a", "train", sampled, {"long_sb": 0.58, "wait": 0.11, "mio": 0.2, "lg": 0.11})
    assert near.largest == ["long_sb", "wait", "mio"] and near.agrees  # barrier is 15 points off, but fourth
    assert near.off[0] == pytest.approx(-0.09) and near.off[1] == "wait"
    assert not Stalls("b", "train", sampled, {"long_sb": 0.39, "wait": 0.2, "mio": 0.2}).agrees


def test_every_sixteenth_launch_one_in_three_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--kernels", "--stalls", "--every", "16", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    agree = sum(part["agree"] for part in made["stalls"].values())
    assert agree >= sum(part["launches"] for part in made["stalls"].values()) / 4
    assert len(made["launches"]) == made["stalls"]["train"]["launches"]  # the test set is not named


@pytest.mark.slow
def test_stall_reasons_of_ten_kernels_agree_with_nsight_within_ten_points() -> None:
    found = validate_stalls()
    assert sum(x.agrees for x in found) >= 110  # of 319
    assert len({x.name.partition(".")[0] for x in found if x.agrees}) >= 40
