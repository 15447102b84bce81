"""The Triton kernels of examples/triton: what we predict beside the time that the same machine code took on an H200.

Compiled, timed and counted by the package `suite`.
"""

from __future__ import annotations

from warplens.core.units import number
from warplens.machine import load_machine
from warplens.models import predict
from warplens.papers.item import Grid, Item
from warplens.papers.validation.kernels import Launch, launches_in

FOLDER = "h200/suite/triton"
MODEL = "warplens"


def triton_launches() -> tuple[Launch, ...]:
    """Return the measured launches of Triton kernels."""
    return launches_in(FOLDER)


def error(launch: Launch) -> float:
    """Return how far our time of a launch is off, as a share of the measured one."""
    return float(predict(launch.workload, load_machine("h200"), MODEL).seconds or 0.0) / launch.seconds - 1


def _row(launch: Launch) -> list[str]:
    predicted = predict(launch.workload, load_machine("h200"), MODEL)
    ours, measured = 1e6 * float(predicted.seconds or 0.0), 1e6 * launch.seconds
    name = launch.name.removeprefix("triton_")
    return [name, number(measured, 4), number(ours, 4), f"{ours / measured - 1:+.1%}", str(predicted.bound)]


def table() -> Item:
    """Make a row for each launch, each kernel at three sizes."""
    return Item(
        "triton-table",
        "Triton kernels: predicted and measured",
        f"data/{FOLDER}: the H200, CUDA events around the launch, warm L2",
        notes=[f"model: {MODEL}; no number of it was fitted to these times (docs/howto/triton-kernel.md)"],
        grids=[
            Grid(["launch", "measured, us", f"{MODEL}, us", "off", "limited by"], list(map(_row, triton_launches())))
        ],
    )


ITEMS = (table,)
