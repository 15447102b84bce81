"""What a measurement is: a name, kernels from a template, how they are launched, what it yields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from warplens.laboratory.gpu_session import Laboratory
from warplens.laboratory.source import Kernel

# A point of a measurement and one repetition's values there.
Sample = tuple[dict[str, Any], dict[str, Any]]
Plan = Callable[[Laboratory, "Entry", "Effort"], Iterator[Sample]]


@dataclass(frozen=True)
class Effort:
    """How much is measured: repetitions, and whether every point is or only what the machine file needs."""

    quick: bool = False
    repetitions: int = 3


@dataclass(frozen=True)
class Entry:
    """One measurement: `plan` launches `kernels` with `parameters`; `yields` says what comes of it."""

    name: str
    kernels: tuple[Kernel, ...]
    plan: Plan
    yields: str
    parameters: dict[str, Any] = field(default_factory=dict)
    quick: bool = True  # whether the quick form has it
    weight: float = 1.0  # how long it takes, roughly, for the time left
