"""What a measurement is: a name, kernels from a template, how they are launched, what it yields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from warplens.measure.laboratory import Laboratory
from warplens.measure.source import Kernel

# A point of a measurement and one repetition's values there.
Sample = tuple[dict[str, Any], dict[str, Any]]
Plan = Callable[[Laboratory, "Entry", "Effort"], Iterator[Sample]]


class Effort(Struct, frozen=True):
    """How much is measured: repetitions, and whether every point is or only what the machine file needs."""

    quick: bool = False
    repetitions: int = 3


class Entry(Struct, frozen=True):
    """One measurement: `plan` launches `kernels` with `parameters`; `yields` says what comes of it."""

    name: str
    kernels: tuple[Kernel, ...]
    plan: Plan
    yields: str
    parameters: dict[str, Any] = {}
    quick: bool = True  # whether the quick form has it
    weight: float = 1.0  # how long it takes, roughly, for the time left
