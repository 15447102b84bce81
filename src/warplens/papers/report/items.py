"""Reproduced tables and figures, on the terminal and as an HTML page: ours, theirs, difference."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.markup import escape
from rich.text import Text

from warplens.core.units import number, quantity
from warplens.papers.item import Item, Row, counts
from warplens.report.page import markup
from warplens.report.page.markup import Section, document, joined, tag
from warplens.report.page.svg import figure
from warplens.report.terminal import table

_MARKS = {"digit": "=", "near": "≈", "differs": "≠"}


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
    mark = Text(_MARKS.get(r.verdict, ""), {"differs": "bold red", "near": "yellow"}.get(r.verdict, "green"))
    return [r.what, f"{number(r.ours, 5)}{unit}", r.paper or "", r.difference, mark, _note(r)]


def _note(r: Row) -> str:
    return r.note or ("measured by the paper" if r.measured else "an input, as printed" if r.given else "")


def verdicts(totals: dict[str, int]) -> Text:
    """Render the sum of all verdicts in one line."""
    compared = totals["digit"] + totals["near"] + totals["differs"]
    return Text(
        f"{compared} printed numbers: {totals['digit']} to the digit, {totals['near']} within 2 %, "
        f"{totals['differs']} disagree; {totals['formula']} values of printed formulas agree; "
        f"{totals['measured']} measurements stand beside the models",
        "bold",
    )


def page(items: Sequence[Item], gpu: str | None = None) -> str:
    """Return the page of reproduced tables and figures, the disagreements first; or the page of a measured GPU."""
    sections = [_section(it) for it in items]
    if gpu is not None:
        title = f"What the laboratory measured: {gpu}"
        said = "Points are measured, curves are modelled. Every number comes from the journal that ships."
        return document(title, tag("header", tag("h1", title), tag("p", said)), sections)
    title, totals = "The papers' tables and figures, regenerated", counts(items)
    compared = totals["digit"] + totals["near"] + totals["differs"]
    answer = (
        f"{compared} printed numbers: {totals['digit']} to the digit, {totals['near']} within 2 %, "
        f"{totals['differs']} disagree"
    )
    more = (
        f"{totals['formula']} values of printed formulas agree as well. {totals['measured']} further numbers are the "
        "papers' own measurements, shown beside the models. Disagreements carry a note."
    )
    wrong = [[it.id, *_cells(row)] for it in items for row in it.rows if row.verdict == "differs"]
    if wrong:
        body = markup.table(["item", "", "ours", "paper", "difference", "note"], wrong, (2, 3, 4))
        heading = "Where the papers and we disagree"
        sections.insert(0, Section("disagreements", "Disagreements", heading, body))
    top = tag("header", tag("h1", title), tag("p", answer, class_="answer"), tag("p", more, class_="dim"))
    return document(title, top, sections)


def _section(it: Item) -> Section:
    parts = [tag("p", f"{it.source} · {it.id}", class_="dim")]
    if it.rows:
        head = ["", "ours", "paper", "difference", "note"]
        parts.append(markup.table(head, map(_cells, it.rows), (1, 2, 3), caption=it.title))
    parts += [markup.table(grid.head, grid.rows, range(1, len(grid.head)), caption=it.title) for grid in it.grids]
    parts += [tag("p", note) for note in it.notes]
    return Section(it.id, it.id, it.title, joined((*parts, *map(figure, it.plots))))


def _cells(r: Row) -> list[str]:
    mark = {"differs": "≠ ", "near": "≈ ", "digit": "= "}.get(r.verdict, "")
    return [r.what, quantity(r.ours, r.unit, 5), r.paper or "", mark + r.difference, _note(r)]
