"""All measured launches by both forms of our model, predicted once for the tests of a process that ask.

Tests that ask are parametrised by `ASKED`, so that those of one set run in one process.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import pytest

from warplens.machine import load_machine
from warplens.models import predict
from warplens.papers.validation.kernels import PARTS, Launch, Part, launches

ASKED = [pytest.param(part, marks=pytest.mark.xdist_group(f"launches-{part}")) for part in PARTS]


class Predicted(NamedTuple):
    """A launch, and its seconds by `warplens-fast` and by `warplens`."""

    launch: Launch
    fast: float
    slow: float

    @property
    def percent(self) -> float:
        """The error of `warplens` in percent of the measured time."""
        return 100 * (self.slow / self.launch.seconds - 1)


@cache
def predicted(part: Part) -> tuple[Predicted, ...]:
    """Predict every launch of a set."""
    machine, made = load_machine("h200"), list[Predicted]()
    for launch in launches():
        if launch.part == part:
            fast, slow = (predict(launch.workload, machine, m).seconds for m in ("warplens-fast", "warplens"))
            assert fast is not None and slow is not None
            made.append(Predicted(launch, float(fast), float(slow)))
    return tuple(made)
