"""Reproduced tables and figures for the terminal: ours, theirs, difference."""

from __future__ import annotations

from rich.console import RenderableType
from rich.markup import escape
from rich.text import Text

from warplens.core.units import number
from warplens.papers.item import Item, Row
from warplens.report.terminal import table

_MARKS = {"digit": "=", "near": "≈", "differs": "≠", "formula": "=", "measured": "", "ours": ""}


def item(it: Item, *, all_rows: bool = True) -> list[RenderableType]:
    """Render one reproduced table or figure: ours, theirs, difference."""
    parts: list[RenderableType] = [
        "",
        Text.assemble((it.title, "bold"), (f"   {it.source}  [{it.id}]", "dim")),
    ]
    shown = [row for row in it.rows if all_rows or row.verdict == "differs"]
    if shown:
        parts.append(table(["", "ours", "paper", "difference", "", "note"], [_row(r) for r in shown], {1, 2, 3}))
    parts += [table(grid.head, grid.rows, set(range(1, len(grid.head)))) for grid in it.grids]
    parts += [Text(f"  note: {note}", "yellow") for note in it.notes]
    if it.plots:
        names = ", ".join(escape(plot.title) for plot in it.plots)
        parts.append(Text(f"  {len(it.plots)} picture(s) with --html: {names}", "dim"))
    return parts


def _row(r: Row) -> list[RenderableType]:
    unit = f" {r.unit}" if r.unit else ""
    mark = Text(_MARKS[r.verdict], {"differs": "bold red", "near": "yellow"}.get(r.verdict, "green"))
    note = r.note or ("measured by the paper" if r.measured else "")
    return [r.what, f"{number(r.ours, 5)}{unit}", r.paper or "", r.difference, mark, note]


def verdicts(totals: dict[str, int]) -> Text:
    """Render the sum of all verdicts in one line."""
    compared = totals["digit"] + totals["near"] + totals["differs"]
    return Text(
        f"{compared} printed numbers: {totals['digit']} to the digit, {totals['near']} within 2 %, "
        f"{totals['differs']} disagree; {totals['formula']} values of printed formulas agree; "
        f"{totals['measured']} measurements stand beside the models",
        "bold",
    )
