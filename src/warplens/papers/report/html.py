"""One self-contained HTML file: tables and Vega-Lite charts (by Altair), the JavaScript inlined, no network.

The bundle goes in once, however many charts there are. Names and notes are data: everything is escaped, and
chart specifications are JSON that cannot end its script element.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.core.units import number, printable, quantity, seconds
from warplens.machine import Machine
from warplens.models import Prediction, occupancy_curve
from warplens.models.comparison import Comparison
from warplens.papers import Item, Plot, Row, counts
from warplens.papers.item import line
from warplens.workload import Workload

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --line: #d0d7de; --dim: #57606a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --paper: #0d1117; --line: #30363d; --dim: #8b949e; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; }
h2 { font-size: 1.1rem; margin-top: 2.2rem; border-top: 1px solid var(--line); padding-top: 1rem; }
.answer { font-size: 1.9rem; font-weight: 600; margin: .4rem 0; } .dim { color: var(--dim); }
table { border-collapse: collapse; margin: .6rem 0; display: block; overflow-x: auto; }
td, th { padding: .15rem .7rem .15rem 0; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.chart { width: 100%; max-width: 44rem; margin: .6rem 0; }
@media print { body { max-width: none; } h2 { break-after: avoid; } .chart { break-inside: avoid; } }
"""
_SCRIPT = """
const dark = window.matchMedia("(prefers-color-scheme: dark)").matches && !window.matchMedia("print").matches;
for (const element of document.querySelectorAll("script[type='application/vnd.vegalite+json']")) {
  const place = document.createElement("div");
  place.className = "chart";
  element.after(place);
  vegaEmbed(place, JSON.parse(element.textContent), {
    actions: false, renderer: "svg", theme: dark ? "dark" : undefined, config: { background: "transparent" } });
}
"""


class Section(Struct, frozen=True):
    """A heading, ready HTML below it, and plots."""

    title: str
    body: str = ""
    plots: Sequence[Plot] = ()


def _escaped(text: str) -> str:
    """Return a text as HTML: names are data, and characters that are not printable are shown as such."""
    return html.escape(printable(text))


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Put a page together. `lead` and section bodies are HTML already; titles are text."""
    parts = [f"<h1>{_escaped(title)}</h1>", lead]
    any_plot = False
    for section in sections:
        parts.append(f"<h2>{_escaped(section.title)}</h2>\n{section.body}")
        for plot in section.plots:
            any_plot = True
            spec = json.dumps(chart(plot), separators=(",", ":")).replace("<", "\\u003c")
            parts.append(f'<script type="application/vnd.vegalite+json">{spec}</script>')
    scripts = f"<script>{_bundle()}</script>\n<script>{_SCRIPT}</script>" if any_plot else ""
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_escaped(title)}</title>\n<style>{_STYLE}</style>\n<body>\n"
        + "\n".join(parts)
        + f"\n{scripts}\n</body>\n</html>\n"
    )


def chart(plot: Plot) -> dict[str, Any]:
    """Return the Vega-Lite specification of a plot."""
    alt = _altair()
    rows = [{"series": s.name, "kind": s.kind, "x": _short(s.x), "y": _short(s.y)} for s in plot.series]
    names = [s.name for s in plot.series]
    x = alt.X("x:Q", title=plot.x, scale=alt.Scale(type="log" if plot.log_x else "linear", nice=False, zero=False))
    scale: dict[str, Any] = {"type": "log"} if plot.log_y else {}
    if plot.y_max is not None:
        scale["domainMax"] = plot.y_max
    y = alt.Y("y:Q", title=plot.y, scale=alt.Scale(**scale))
    palette = alt.Scale(scheme="tableau20" if len(names) > 10 else "tableau10")
    colour = alt.Color(
        "series:N", title=None, sort=names, scale=palette, legend=alt.Legend(orient="bottom", columns=3, labelLimit=320)
    )
    base = (
        alt.Chart(alt.Data(values=rows))
        .transform_flatten(["x", "y"])
        .encode(
            x=x,
            y=y,
            color=colour,
            tooltip=["series:N", alt.Tooltip("x:Q", title=plot.x), alt.Tooltip("y:Q", title=plot.y)],
        )
    )
    layers = []
    for kind in dict.fromkeys(s.kind for s in plot.series):
        part = base.transform_filter(alt.datum.kind == kind)
        if kind == "line":
            layers.append(part.mark_line(clip=True))
        elif kind == "points":
            layers.append(part.mark_point(clip=True, filled=True, size=28))
        elif kind == "bar":
            layers.append(part.mark_bar(clip=True, width=6))
        else:
            layers.append(part.mark_rule(clip=True, strokeDash=[4, 3]).encode(y=alt.value(0), y2=alt.value("height")))
    made = alt.layer(*layers).properties(title=plot.title, width="container", height=280)
    spec: dict[str, Any] = made.to_dict()
    return spec


def _short(values: Sequence[float]) -> list[float]:
    """Round to what a picture can show, so that the file stays small."""
    return [float(f"{value:.5g}") for value in values]


def reproduction(items: Sequence[Item], gpu: str | None = None) -> str:
    """Return the page of reproduced tables and figures, the disagreements first; or the page of a measured GPU."""
    if gpu is not None:
        lead = "<p>Points are measured, curves are modelled. Every number comes from the journal that ships.</p>"
        return page(f"What the laboratory measured: {gpu}", lead, [_section(it) for it in items])
    totals = counts(items)
    compared = totals["digit"] + totals["near"] + totals["differs"]
    lead = (
        f'<p class="answer">{compared} printed numbers: {totals["digit"]} to the digit, {totals["near"]} within 2 %, '
        f"{totals['differs']} disagree</p><p class='dim'>{totals['formula']} values of printed formulas agree as well. "
        f"{totals['measured']} further numbers are the papers' own measurements, shown beside the models. "
        "Disagreements carry a note.</p>"
    )
    wrong = [(it, row) for it in items for row in it.rows if row.verdict == "differs"]
    sections = []
    if wrong:
        head = ["item", "", "ours", "paper", "difference", "note"]
        cells = [[it.id, *_cells(row)] for it, row in wrong]
        sections.append(Section("Where the papers and we disagree", table(head, cells, {2, 3, 4})))
    sections += [_section(it) for it in items]
    return page("The papers' tables and figures, regenerated", lead, sections)


def _section(it: Item) -> Section:
    body = f"<p class='dim'>{_escaped(it.source)} · {_escaped(it.id)}</p>"
    if it.rows:
        body += table(["", "ours", "paper", "difference", "note"], [_cells(r) for r in it.rows], {1, 2, 3})
    body += "".join(table(grid.head, grid.rows, set(range(1, len(grid.head)))) for grid in it.grids)
    body += "".join(f"<p>{_escaped(note)}</p>" for note in it.notes)
    return Section(it.title, body, it.plots)


def comparison(c: Comparison, workload: Workload, machine: Machine) -> str:
    """Return the page that puts all models side by side for one workload on one machine."""
    rows = []
    for name, p in c.predictions.items():
        time = "-" if p.seconds is None else seconds(float(p.seconds))
        needed = "" if p.needed_warps_per_sm is None else number(float(p.needed_warps_per_sm), 3)
        rows.append([name, time, p.limited_by, needed, "; ".join([*p.flags, *p.notes])])
    lead, best, timed = "", c.headline, c.possible
    if best is not None:
        said = "".join(f"<p>{_escaped(text)}</p>" for text in (best.why_not_ours, *best.flags) if text)
        lead = (
            f'<p class="answer">{_escaped(seconds(float(best.seconds or 0)))}</p>{_sure(best)}'
            f"<p>by {best.model}, limited by {_escaped(best.limited_by)}, "
            f"{_escaped(number(float(best.warps_per_sm)))} warps per SM.{_span(timed)}</p>{said}"
        )
    body = table(["model", "time", "limited by", "warps needed", "remarks"], rows, {1, 3})
    body += "".join(f"<p class='dim'>{_escaped(n)} is silent: {_escaped(why)}</p>" for n, why in c.silent.items())
    sections = [Section("All models", body)]
    if not workload.kernels:
        sections.append(Section("Throughput against occupancy", "", [_curves(c, workload, machine)]))
    for name, p in c.predictions.items():
        terms = [[n, number(float(t.value), 6), t.unit, t.equation] for n, t in p.terms.items()]
        sections.append(Section(f"Terms of {name}", table(["term", "value", "unit", "equation"], terms, {1})))
    return page(f"{c.workload} on {machine.name}", lead, sections)


def _span(timed: dict[str, float]) -> str:
    """Say how far apart the physically possible models are."""
    if not timed:
        return ""
    low, high = min(timed, key=lambda k: timed[k]), max(timed, key=lambda k: timed[k])
    return (
        f" The {len(timed)} models within the hardware's limits say {_escaped(seconds(timed[low]))} ({low}) to "
        f"{_escaped(seconds(timed[high]))} ({high})."
    )


def _sure(p: Prediction) -> str:
    """Say what we are 90 % sure of, and what that rests on; nothing where nothing is known of it."""
    if p.interval_seconds is None:
        return ""
    low, high = (seconds(x, 3) for x in p.interval_seconds)
    return f"<p>90 % sure of {low} to {high}, by the errors of {_escaped(p.interval_about)}</p>"


def _curves(c: Comparison, workload: Workload, machine: Machine) -> Plot:
    """Plot all models' throughput in units of the tightest throughput bound."""
    series, unit = [], 1.0
    for name in c.predictions:
        try:
            found = occupancy_curve(workload, machine, name)
        except WarplensError:
            continue
        unit = found.peak if name == "volkov" and found.peak else unit
        series.append(line(name, found.warps_per_sm, found.throughput_warps_per_cycle / unit))
    title = "throughput by all models, 1 = the tightest throughput bound"
    return Plot(title, "warps per SM", "share of the bound", series, y_max=2.0)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], numeric: set[int]) -> str:
    """Return an HTML table; all cells are text and get escaped."""
    cell: Callable[[str, int, str], str] = lambda tag, i, text: (  # noqa: E731
        f"<{tag}{' class=n' if i in numeric else ''}>{_escaped(text)}</{tag}>"
    )
    head = "".join(cell("th", i, h) for i, h in enumerate(headers))
    lines = ["<tr>" + "".join(cell("td", i, t) for i, t in enumerate(row)) + "</tr>" for row in rows]
    return f"<table><tr>{head}</tr>\n" + "\n".join(lines) + "</table>"


def _cells(row: Row) -> list[str]:
    note = row.note or ("measured by the paper" if row.measured else "")
    mark = {"differs": "≠ ", "near": "≈ ", "digit": "= "}.get(row.verdict, "")
    return [row.what, quantity(row.ours, row.unit, 5), row.paper or "", mark + row.difference, note]


@cache
def _altair() -> Any:
    try:
        import altair
    except ImportError:
        raise WarplensError("HTML pictures need Altair: pip install altair vl-convert-python") from None
    altair.data_transformers.disable_max_rows()
    return altair


@cache
def _bundle() -> str:
    """Return vega, vega-lite and vega-embed as one script that defines vegaEmbed."""
    try:
        import vl_convert
    except ImportError:
        raise WarplensError("HTML pictures need Altair: pip install altair vl-convert-python") from None
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script")
