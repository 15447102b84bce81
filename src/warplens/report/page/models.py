"""Published models: the last section of the page of `analyze`, and the page of `warplens compare --html`."""

from __future__ import annotations

from collections import Counter

from warplens.core.errors import WarplensError
from warplens.core.units import number
from warplens.machine import Machine
from warplens.models import occupancy_curve
from warplens.models.registry import Comparison
from warplens.report import benefits
from warplens.report.page.content import Content
from warplens.report.page.markup import Markup, Section, document, joined, more, seconds, table, tag, value
from warplens.report.page.svg import Plot, figure, line
from warplens.report.terminal import span, sure
from warplens.workload import Workload


def worksheet(content: Content) -> Markup:
    """Return Volkov's Table 3.4 for this kernel: each resource, its users, and for how long they use it."""
    uses = content.worksheet
    if not uses:
        return tag("p", content.missing.get("worksheet", "unknown"), class_="dim")
    users: dict[str, Counter[tuple[str, float]]] = {}  # by resource: the count of uses of one kind
    for u in uses:
        users.setdefault(u.resource, Counter())[u.user, float(u.cycles_each)] += float(u.count)  # type: ignore[assignment]
    totals = {name: sum(each * n for (_, each), n in kinds.items()) for name, kinds in users.items()}
    rows: list[list[object]] = []
    for resource in sorted(totals, key=lambda name: -totals[name]):
        first: object = resource if rows else tag("b", resource)
        for (user, each), n in sorted(users[resource].items(), key=lambda item: -item[0][1] * item[1]):
            rows.append([first, user, number(n, 4), number(each, 3), number(each * n, 4)])
            first = ""
        most = f"in all, at most {number(1 / totals[resource], 3)} warps/cycle" if totals[resource] else "in all"
        rows.append(["", tag("i", most), "", "", tag("b", number(totals[resource], 4))])
    head = ["resource", "used by", ("per warp", "executions by a mean warp (docs/explain/emulator.md)"),
            ("cycles each", "1 / the peak rate of the machine file, or bytes / bandwidth (Volkov 2016, Table 3.4)"),
            ("cycles", "per warp x cycles each; a throughput of warps cannot exceed 1 / the largest sum")]  # fmt: skip
    return table(head, rows, (2, 3, 4), caption="throughput worksheet")


def models(c: Comparison) -> Markup:
    """Return what all models say, each with its terms."""
    rows = []
    for name, p in c.predictions.items():
        time = "–" if p.seconds is None else seconds(float(p.seconds))
        terms = []
        for n, t in p.terms.items():
            why = f"{n}: {t.equation or 'an intermediate value'}; {name} (docs/reference/models.md)"
            terms.append([n, value(number(float(t.value), 6), why), t.unit, t.equation])
        body = table(["term", "value", "unit", "equation"], terms, (1,), caption=f"terms of {name}")
        folded = more(name, body, printed=False)
        needed = "" if p.needed_warps_per_sm is None else number(float(p.needed_warps_per_sm), 3)
        rows.append([folded, time, p.limited_by, needed, "; ".join([*p.flags, *p.notes])])
    head = ["model", "time", "limited by", ("warps needed", "occupancy from which latency is hidden"), "remarks"]
    silent = [tag("li", tag("b", name), ": ", why) for name, why in c.silent.items()]
    quiet = [more(f"Silent models ({len(silent)})", tag("ul", *silent))] if silent else []
    return joined((table(head, rows, (1, 3), caption="all models"), *quiet))


def published(content: Content) -> Markup:
    """Return what the papers' models say, folded: they are there to be compared, the answer is at the top."""
    chart = benefits.chart(content.advised.benefits if content.advised else None, content.machine)
    said = (
        "Models of the literature, and ours beside them, for comparison and research. Their times differ from one "
        "another and from the answer at the top of this page (docs/reference/models.md)."
    )
    return joined((
        tag("p", said, class_="dim"),
        more(f"All models ({len(content.comparison.predictions)})", models(content.comparison)),
        more("Potential benefits (Sim et al. 2012)", chart),
        more("Throughput worksheet (Volkov 2016, Table 3.4)", worksheet(content)),
    ))  # fmt: skip


def comparison(c: Comparison, workload: Workload, machine: Machine) -> str:
    """Return the page that puts all models side by side for one workload on one machine."""
    title = f"{c.workload} on {machine.name}"
    sections = [Section("models", "Models", "All models", models(c))]
    if not workload.kernels:
        curves = figure(_curves(c, workload, machine))
        sections.append(Section("occupancy", "Occupancy", "Throughput against occupancy", curves))
    return document(title, tag("header", tag("h1", title), *_lead(c)), sections)


def _lead(c: Comparison) -> list[Markup]:
    """Return the answer first, then how far apart the physically possible models are."""
    best = c.headline
    if best is None:
        return []
    parts = [tag("p", seconds(float(best.seconds or 0)), class_="answer")]
    if best.interval_seconds is not None:
        parts.append(tag("p", f"{sure(best.interval_seconds)}, by the errors of {best.interval_about}"))
    said = f"by {best.model}, limited by {best.limited_by}, {number(float(best.warps_per_sm))} warps per SM."
    said += "".join(f" The {text}." for text in span(c))
    return [*parts, tag("p", said), *(tag("p", text) for text in (best.why_not_ours, *best.flags) if text)]


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
