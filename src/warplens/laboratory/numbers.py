"""A number on its way into a machine file: key, value, where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from warplens.laboratory.samples import Reading, Samples


class Number(Struct, frozen=True):
    """One field of a machine file: dotted key, value, entry of the journal, statistic with its spread."""

    key: str
    value: float | list[float] | str
    entry: str = ""
    how: str = ""


Step = Callable[[Samples], Iterator[Number]]


def digits(value: float, significant: int = 4) -> float:
    """Round to so many significant digits: what a measurement is worth."""
    return float(f"{value:.{significant}g}")


def number(
    key: str, reading: Reading | None, entry: str, how: str = "", scale: float = 1.0, worth: int = 4
) -> Iterator[Number]:
    """Yield a number from a reading's median, or nothing where there was none."""
    if reading is not None:
        text = f"{how}; {reading}" if how else str(reading)
        yield Number(key, digits(reading.median * scale, worth), entry, text)
