"""The Triton kernels of examples/triton: what we predict beside the time that the same machine code took on an H200.

Compiled by data/h200/build_triton.py, timed by data/h200/run_launches.py, counted by data/h200/count_launches.py.
"""

from __future__ import annotations

from warplens.machine import load_machine
from warplens.models import predict
from warplens.study.item import Item, Row
from warplens.study.kernels import Launch, launches_in

FOLDER = "h200/triton"
MODEL = "warplens"


def triton_launches() -> tuple[Launch, ...]:
    """Return the measured launches of Triton kernels."""
    return launches_in(FOLDER)


def row(launch: Launch) -> Row:
    """Return our time of a launch beside the measured one, in microseconds."""
    made = predict(launch.workload, load_machine("h200"), MODEL)
    return Row(
        what=launch.name.removeprefix("triton_"),
        ours=1e6 * float(made.seconds or 0.0),
        paper=f"{1e6 * launch.seconds:.2f}",
        unit="us",
        note=f"limited by: {made.bound}",
        measured=True,
    )


def table() -> Item:
    """Make a row for each launch, each kernel at three sizes."""
    return Item(
        "triton-table",
        "Triton kernels: predicted and measured",
        f"data/{FOLDER}: the H200, CUDA events around the launch, warm L2",
        [row(launch) for launch in triton_launches()],
        notes=[f"model: {MODEL}; nothing of it was fitted to these kernels"],
    )


ITEMS = (table,)
