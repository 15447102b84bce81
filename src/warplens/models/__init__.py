"""Models that predict the time of a workload on a machine: ours and the published ones.

A model is a function from a workload, a machine and a residency to a `Prediction`, without parsing, printing or state.
Its numbers broadcast: arrays in, arrays out. Every term carries the paper's symbol and equation number.

    registry.py         MODELS by name; `predict`, `predict_all`, and the answer to show first
    prediction.py       Prediction and Term; `answer` assembles one
    bounds.py           residency, rates, latencies and the throughput worksheet that several models read
    plausibility.py     flags on answers that break a hardware limit
    occupancy_curve.py  throughput over occupancy, and the warps needed
    warplens/           our model
    published/          one file per paper

A new model is one file and one line in `MODELS`:

    def predict(workload: Workload, machine: Machine, residency: Residency) -> Prediction:
        return answer(NAME, workload, machine, residency, cycles=..., bounds="...", terms={"T": Term(...)})
"""

from warplens.models.occupancy_curve import Curve, needed_warps, occupancy_curve
from warplens.models.prediction import Prediction, Term
from warplens.models.registry import MODELS, predict, predict_all

__all__ = [
    "MODELS",
    "Curve",
    "Prediction",
    "Term",
    "needed_warps",
    "occupancy_curve",
    "predict",
    "predict_all",
]
