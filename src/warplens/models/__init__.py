"""The published models, each a function from a workload and a machine to a prediction."""

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
