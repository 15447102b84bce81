"""The page of the models' errors on kernels: its pictures, and no launch of the test set by name."""

from __future__ import annotations

import re

from warplens.machine import load_machine
from warplens.papers.report import validation
from warplens.papers.validation.kernel_errors import judged
from warplens.papers.validation.points import Point


def test_pictures_and_tables() -> None:
    made = [
        Point(
            run=run, launch=f"{name}.v", kernel=name, function=name, part=part, family="made up", bound="latency",  # type: ignore[arg-type]
            seconds=ratio * 1e-5, measured_seconds=1e-5, alpha=4.0,
        )
        for run, ratio in (("warplens", 1.1), ("roofline", 0.3))
        for name, part in (("open", "train"), ("hidden", "test"))
    ]  # fmt: skip
    text = validation.page(judged("h200", made), load_machine("h200"))
    titles = re.findall("<h3>(.*?)</h3><figure>", text)
    assert titles == [
        "warplens: predicted against measured", "warplens: error against time", "warplens: error against alpha",
        "roofline: error against alpha",
    ]  # fmt: skip
    assert "warplens: 10.0 % mean error over 1 launches of the test set" in text
    assert "hidden.v" not in text and ">hidden<" not in text
