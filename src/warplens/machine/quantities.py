"""The kinds of numbers in a machine file with their physical ranges, and what every table of it has in common."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Cycles = Annotated[float, Meta(ge=0, le=1e6)]
Interval = Annotated[float, Meta(gt=0, le=1e4)]
Hertz = Annotated[float, Meta(ge=1e7, le=1e11)]
BytesPerSecond = Annotated[float, Meta(ge=1e8, le=1e15)]
FlopsPerSecond = Annotated[float, Meta(ge=1e8, le=1e18)]
Bytes = Annotated[float, Meta(ge=1, le=1e15)]
Count = Annotated[float, Meta(ge=1, le=1e7, multiple_of=1)]
OpsPerCycle = Annotated[float, Meta(gt=0, le=1e5)]
Seconds = Annotated[float, Meta(gt=0, le=1)]
Warps = Annotated[float, Meta(gt=0, le=1e4)]
Factor = Annotated[float, Meta(gt=0, le=1e4)]
Ratio = Annotated[float, Meta(ge=0, le=1e4)]  # below 1, and nothing, too
Fraction = Annotated[float, Meta(ge=0, le=1)]
Ipc = Annotated[float, Meta(gt=0, le=1e3)]


class Section(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A table of a machine file: an unknown key is refused, a missing one is None."""
