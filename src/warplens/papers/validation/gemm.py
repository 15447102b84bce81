"""The example GEMMs: measured, predicted by us, and what nvidia-matmul-heuristics expects of a library's kernel.

That package chooses a kernel of its own for a size and precision (suite/gemm_heuristics.json): its time says what the
best kernel would take, ours what this kernel takes. Of the test set (kernels.py) only the mean error is shown.
"""

from __future__ import annotations

import json
import statistics
from typing import Any

from warplens.core.units import number
from warplens.machine import load_machine
from warplens.models import predict
from warplens.papers.item import Grid, Item
from warplens.papers.validation.kernels import Launch, launches
from warplens.papers.validation.stored import data_file
from warplens.papers.validation.triton import triton_launches

MODEL = "warplens"
TARGETS = ("GENERIC", "CUTLASS3", "TRITON")


def _cells(launch: Launch, known: dict[str, Any], microseconds: float) -> list[str]:
    sizes = " x ".join(map(str, known["m_n_k"]))
    off = microseconds / (1e6 * launch.seconds) - 1
    theirs = [number(known[target]["us"], 4) for target in TARGETS]
    return [launch.name, sizes, known["precision"], number(1e6 * launch.seconds, 4), number(microseconds, 4),
            f"{off:+.1%}", *theirs]  # fmt: skip


def table() -> Item:
    """Make a row for each GEMM that may be looked at, and the mean error of the others."""
    kept = json.loads(data_file("h200/suite/gemm_heuristics.json").read_text())
    gpu, known = load_machine("h200"), kept["launches"]
    rows, hidden = [], []
    for launch in [*launches(), *triton_launches()]:
        if launch.name in known:
            predicted = 1e6 * float(predict(launch.workload, gpu, MODEL).seconds or 0.0)
            if launch in triton_launches() or launch.part == "train":
                rows.append(_cells(launch, known[launch.name], predicted))
            else:
                hidden.append(abs(predicted / (1e6 * launch.seconds) - 1))
    head = [
        "launch",
        "m x n x k",
        "types",
        "measured, us",
        f"{MODEL}, us",
        "off",
        *(f"{t.lower()}, us" for t in TARGETS),
    ]
    notes = [
        f"{kept['package']}, {kept['gpu']}, {kept['flags']}: the best kernel of a library's for the size; types: of A "
        "and B, of sums, of C (H: fp16, S: fp32)",
        f"{len(hidden)} launches of the test set: {statistics.mean(hidden):.1%} off on average",
    ]
    return Item("gemm-table", "GEMMs: measured, predicted, and a library's best", "data/h200", [], [], notes,
                [Grid(head, rows)])  # fmt: skip


ITEMS = (table,)
