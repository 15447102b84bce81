"""Reproduced tables and figures: rows that put our number beside the paper's, and plots of the models' curves."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal, get_args

from msgspec import Struct

from warplens.core.units import number
from warplens.report.page.svg import Plot, Series, line

__all__ = ["Grid", "Item", "Plot", "Row", "Series", "counts", "half_unit", "line", "parse_printed"]

Verdict = Literal["digit", "near", "differs", "formula", "measured", "given", "ours"]
NEAR = 0.02  # within 2 %: a paper's own rounding on the way


class Row(Struct, frozen=True):
    """One number of ours beside the one the paper prints (as it prints it, so that its digits are known).

    `measured` marks a number that the paper measured: the difference is then the model's error, not ours.
    `formula` marks one that is not printed but follows from a printed formula with its printed constants. `given` marks
    an input: a printed number that the machine file or the workload repeats, so that it says nothing of the model.
    """

    what: str
    ours: float
    paper: str | None
    unit: str = ""
    note: str = ""
    measured: bool = False
    formula: bool = False
    given: bool = False

    @property
    def verdict(self) -> Verdict:
        """Compare the two.

        `digit`: ours rounds to what is printed; `near`: within 2 %; `differs`: further off; `formula`: equal
        to a printed formula's value within 2 %; `measured`: a measurement; `given`: an input, as printed; `ours`: the
        paper has no such number.
        """
        if self.paper is None:
            return "ours"
        if self.measured:
            return "measured"
        printed = parse_printed(self.paper)
        off = abs(self.ours - printed)
        exact = math.isclose(self.ours, printed, rel_tol=1e-12) or off <= half_unit(self.paper) * 1.0000001
        if exact and not self.formula:
            return "given" if self.given else "digit"
        near = exact or off <= NEAR * abs(printed)
        return ("formula" if self.formula else "near") if near else "differs"

    @property
    def difference(self) -> str:
        """Return the difference from the paper in percent, as text."""
        if self.paper is None:
            return ""
        printed = parse_printed(self.paper)
        if printed == 0:
            return number(self.ours - printed)
        return f"{(self.ours - printed) / abs(printed):+.2%}"


class Grid(Struct, frozen=True):
    """A table as it is printed: a head, and rows of as many cells, the first of which says what the row is."""

    head: list[str]
    rows: list[list[str]]


class Item(Struct, frozen=True):
    """A table or figure of a paper, regenerated."""

    id: str
    title: str
    source: str
    rows: list[Row] = []
    plots: list[Plot] = []
    notes: list[str] = []
    grids: list[Grid] = []

    @property
    def verdict(self) -> str:
        """Summarise the rows in words: what agrees, what differs, or that no number is printed."""
        found = counts([self])
        compared = found["digit"] + found["near"] + found["differs"]
        said = [
            f"{compared - found['differs']} of {compared} printed numbers agree" if compared else "",
            f"{found['formula']} values of formulas agree" if found["formula"] else "",
            f"{found['given']} inputs as printed" if found["given"] else "",
            f"beside {found['measured']} measurements of the paper" if found["measured"] else "",
        ]
        return ", ".join(filter(None, said)) or "the paper prints no numbers"


def parse_printed(text: str) -> float:
    """Read a printed number such as `0.0268`, `-12`, `154` or `1e3`."""
    return float(text.replace(" ", ""))


def half_unit(text: str) -> float:
    """Return half a unit of the last printed digit: `30.7` was rounded from anything within 0.05 of it."""
    mantissa = re.split("[eE]", text.strip())[0]
    exponent = re.split("[eE]", text.strip())[1] if re.search("[eE]", text) else "0"
    decimals = len(mantissa.partition(".")[2])
    return float(0.5 * 10.0 ** (int(exponent) - decimals))


def counts(items: Sequence[Item]) -> dict[str, int]:
    """Count the verdicts over items."""
    totals: dict[str, int] = dict.fromkeys(get_args(Verdict), 0)
    for item in items:
        for row in item.rows:
            totals[row.verdict] += 1
    return totals
