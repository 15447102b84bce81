"""Table of the models by name, the prediction with one of them, and the comparison of all."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import MissingField, WarplensError, nearest
from warplens.machine import KINDS, Machine
from warplens.models.bounds import residency
from warplens.models.plausibility import flagged
from warplens.models.prediction import Prediction, Term
from warplens.workload import Number, Workload


class Entry(Struct, frozen=True):
    """A model: its module in this package, one line about it, and the options of its predict function."""

    module: str
    about: str
    options: dict[str, Any] = {}

    def function(self) -> Callable[..., Prediction]:
        """Import the model's predict function."""
        function: Callable[..., Prediction] = importlib.import_module(f"warplens.models.{self.module}").predict
        return function


MODELS: dict[str, Entry] = {
    "warplens": Entry("warplens.predict", "ours: the machine code simulated with its emulated memory behaviour"),
    "warplens-fast": Entry("warplens.predict", "ours, analytical: a fluid schedule of the same", {"simulated": False}),
    "volkov": Entry("published.volkov", "Volkov 2016: latency bound and throughput bound"),
    "volkov-contention": Entry(
        "published.volkov_contention", "Volkov 2016 §6.5: with memory latency that grows with load"
    ),
    "volkov-contention-refined": Entry(
        "published.volkov_contention", "the same, two-term fit (G80)", {"refined": True}
    ),
    "hong-kim": Entry("published.hong_kim", "Hong & Kim 2009: memory and computation warp parallelism"),
    "hong-kim-as-printed": Entry(
        "published.hong_kim", "the same, the condition before (23) to the letter", {"printed": True}
    ),
    "sim2012": Entry("published.sim2012", "Sim et al. 2012: GPUPerf, with the four benefits"),
    "sim2012-no-departure": Entry(
        "published.sim2012", "the same without the departure-delay cap", {"departure": False}
    ),
    "kothapalli-max": Entry("published.kothapalli", "Kothapalli et al. 2009: MAX model", {"combine": "max"}),
    "kothapalli-sum": Entry("published.kothapalli", "Kothapalli et al. 2009: SUM model", {"combine": "sum"}),
    "lemeire": Entry("published.lemeire", "Lemeire et al. 2017: Equation (1) in closed form"),
    "cuda-guide": Entry("published.cuda_guide", "CUDA programming guide: warps needed"),
    "cuda-guide-refined": Entry(
        "published.cuda_guide", "the same, memory instruction and stalled warp counted", {"refined": True}
    ),
    "baghsorkhi": Entry("published.baghsorkhi", "Baghsorkhi et al. 2010: work flow graph"),
    "zhang-owens": Entry("published.zhang_owens", "Zhang & Owens 2011: measured throughput tables"),
    "huang-rr": Entry("published.huang", "Huang et al. 2014: round robin", {"policy": "rr"}),
    "huang-gto": Entry("published.huang", "Huang et al. 2014: greedy then oldest", {"policy": "gto"}),
    "huang-rr-bandwidth": Entry(
        "published.huang", "round robin with the bandwidth term", {"policy": "rr", "bandwidth": True}
    ),
    "huang-gto-bandwidth": Entry(
        "published.huang", "greedy then oldest, bandwidth term", {"policy": "gto", "bandwidth": True}
    ),
    "saavedra-barrera": Entry(
        "published.saavedra_barrera", "Saavedra-Barrera et al. 1990: coarse-grained multithreading"
    ),
    "agarwal": Entry("published.agarwal", "Agarwal 1989: coarse-grained multithreading"),
    "mowry": Entry("published.mowry", "Mowry et al. 1992: prefetch distance"),
    "chen-aamodt-1": Entry("published.chen_aamodt", "Chen & Aamodt 2009: one thread's throughput", {"variant": 1}),
    "chen-aamodt-2": Entry("published.chen_aamodt", "Chen & Aamodt 2009: n times that", {"variant": 2}),
    "chen-aamodt-3": Entry("published.chen_aamodt", "Chen & Aamodt 2009: gradual saturation of issue", {"variant": 3}),
    "roofline": Entry("published.roofline", "Williams et al. 2009: arithmetic or bandwidth at peak"),
}


def predict(
    workload: Workload, machine: Machine, model: str = "volkov", *, warps_per_sm: Number | None = None
) -> Prediction:
    """Predict with one model; `warps_per_sm` overrides the occupancy. Arrays broadcast.

    A program of several kernels takes the sum of their times (Kothapalli Eq. (1)).
    """
    if model not in MODELS:
        raise WarplensError(f"unknown model {model!r}{nearest(str(model), MODELS) or '; `warplens models` lists them'}")
    if workload.kernels:
        return _sum(workload, [predict(k, machine, model, warps_per_sm=warps_per_sm) for k in workload.kernels])
    entry = MODELS[model]
    _check(workload, model, entry)
    resident = residency(
        workload, machine, np.asarray(warps_per_sm) if isinstance(warps_per_sm, (list, tuple)) else warps_per_sm
    )
    try:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return flagged(entry.function()(workload, machine, resident, **entry.options), workload, machine)
    except ZeroDivisionError:
        raise WarplensError(f"{model} has no answer for {workload.name}: a count that it divides by is zero") from None


def predict_all(
    workload: Workload, machine: Machine, *, warps_per_sm: Number | None = None, simulated: bool = True,
    known: Prediction | None = None,
) -> dict[str, Prediction | str]:  # fmt: skip
    """Predict with every model, or all but ours that simulates; the reason stands for a missing answer.

    `known` is the prediction of one of them.
    """
    answers: dict[str, Prediction | str] = {}
    for name in (name for name in MODELS if simulated or name != "warplens"):
        try:
            answers[name] = (
                known if known and known.model == name else predict(workload, machine, name, warps_per_sm=warps_per_sm)
            )
        except WarplensError as error:
            answers[name] = str(error)
    return answers


def _check(workload: Workload, model: str, entry: Entry) -> None:
    """Refuse impossible counts, and a workload with only a paper's cycles for a model that needs instructions."""
    for kind, count in workload.executed().items():
        if kind not in KINDS:
            raise WarplensError(f"{workload.name}: unknown instruction class {kind!r}{nearest(kind, KINDS)}")
        if np.any(np.less(count, 0)):
            raise WarplensError(f"{workload.name}: a negative count of {kind}")
    if not workload.executed() and entry.module != "published.kothapalli":
        raise MissingField(model, f"workload {workload.name}", "instructions or access (it has only [given] cycles)")


def _sum(workload: Workload, parts: list[Prediction]) -> Prediction:
    """Return the prediction of a program: the sum of its kernels' times, the limit of the longest."""
    if any(p.cycles is None for p in parts):
        raise WarplensError(f"{parts[0].model} gives no time, so none for a program of several kernels")
    cycles: Number = sum((p.cycles for p in parts if p.cycles is not None), start=0.0)
    seconds: Number = sum((p.seconds for p in parts if p.seconds is not None), start=0.0)
    longest = max(parts, key=lambda p: float(np.max(p.seconds)) if p.seconds is not None else 0.0)
    return replace(
        longest,
        workload=workload.name,
        per="program",
        cycles=cycles,
        seconds=seconds,
        throughput_warps_per_cycle=None,
        work=None,
        limits={},
        terms={
            **{f"T({p.workload})": Term(p.seconds or 0.0, "s", "(1)") for p in parts},
            "T(P)": Term(seconds, "s", "(1)"),
        },
        flags=[f"{p.workload}: {flag}" for p in parts for flag in p.flags],
    )


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
