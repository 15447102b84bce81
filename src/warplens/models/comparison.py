"""Comparison of all models on one workload and one machine."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from warplens.models.prediction import Prediction

OURS = ("warplens", "warplens-fast")
PUBLISHED = ("volkov-contention", "volkov")  # the most complete model first


class Comparison(Struct, frozen=True):
    """The predictions of all models, and the reasons of those without an answer."""

    workload: str
    machine: str
    predictions: dict[str, Prediction]
    silent: dict[str, str]  # reasons, by model
    notes: list[str] = []  # on what no model includes

    @property
    def possible(self) -> dict[str, float]:
        """Seconds by model, of those that give a time within the hardware's limits."""
        timed = {name: p.seconds for name, p in self.predictions.items() if not p.flags}
        return {name: float(s) for name, s in timed.items() if isinstance(s, (int, float))}

    @property
    def headline(self) -> Prediction | None:
        """The answer to show first: our own model's if it has one, with flags where it breaks a hardware limit.

        Else that of the most complete published model whose answer is physically possible, with why ours has none.
        """
        ours = next((p for name in OURS if (p := self.predictions.get(name)) and p.seconds is not None), None)
        if ours is not None:
            return noted(ours, self.notes)
        name = next((name for name in (*PUBLISHED, *self.possible) if name in self.possible), None)
        if name is None:
            return None
        return noted(replace(self.predictions[name], why_not_ours=self.silent.get(OURS[0], "")), self.notes)


def noted(p: Prediction, notes: Sequence[str]) -> Prediction:
    """Return the prediction with further notes, each once."""
    return replace(p, notes=[*dict.fromkeys([*p.notes, *notes])]) if notes else p
