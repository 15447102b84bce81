"""Published models: the last section of the page of `analyze`, and the page of `warplens compare --html`."""

from __future__ import annotations

from warplens.advisor import Benefits
from warplens.core.errors import WarplensError
from warplens.core.units import number
from warplens.machine import Machine
from warplens.models import occupancy_curve
from warplens.models.bounds import Use
from warplens.models.registry import Comparison
from warplens.report.advice import NO_MEMORY_TIME
from warplens.report.page.content import Content
from warplens.report.page.markup import Markup, Section, cycles, document, joined, more, seconds, table, tag, value
from warplens.report.page.svg import Plot, figure, line
from warplens.report.terminal import span, sure
from warplens.workload import Workload

# Parts of Sim's chart: the field of `Benefits`, the colour, the equation and its meaning.
_COMPUTATION = {"T_fp": ("t_fp", "green", "(18): the floating-point work alone"),
                "B_itilp": ("b_itilp", "purple", "(20): more parallel instructions"),
                "B_serial": ("b_serial", "red", "(21): no barriers, divergence, conflicts or SFU queues"),
                "B_fp": ("b_fp", "amber", "(22): no instructions beyond floating point")}  # fmt: skip


_MEMORY = {"T_mem_min": ("t_mem_min", "blue", "(19): the data once at full bandwidth"),
           "B_memlp": ("b_memlp", "cyan", "(23): more parallel memory requests"),
           "overlapped": ("", "grey", "(16), (17): memory time that computation hides")}  # fmt: skip


def benefits(content: Content) -> Markup:
    """Return Sim's benefit chart: computation and memory, and what of it could go."""
    b = content.advised.benefits if content.advised else None
    if b is None:
        why = content.comparison.silent.get("sim2012", "sim2012 does not speak about this kernel")
        return tag("p", why, class_="dim")
    longest = max(b.t_comp, b.t_mem, 1e-9)
    rows, entries = list[Markup](), list[Markup]()
    for name, parts, total, equation in (("computation", _COMPUTATION, b.t_comp, "(2): T_comp"),
                                         ("memory", _MEMORY, b.t_mem, "(11): T_mem")):  # fmt: skip
        pieces = []
        for part, (field, colour, why) in parts.items():
            amount = _amount(b, field)
            took = f"{part} {cycles(amount)}"
            entries.append(tag("li", tag("i", class_=f"swatch c-{colour}"), value(took, f"Equation {why}")))
            if amount > 0:
                pieces.append(tag("span", class_=f"bar c-{colour}", style=f"width:{100 * amount / longest:.2f}%",
                                  title=f"{part}: {cycles(amount)}. Sim et al. 2012, Equation {why}"))  # fmt: skip
        shown = value(cycles(total), f"Sim et al. 2012, Equation {equation}")
        bar = tag("span", *pieces, class_="track pieces")
        rows.append(tag("li", tag("span", name, class_="name"), bar, shown))
    verdict = "memory-bound" if b.memory_bound else "compute-bound"
    time = b.t_exec / content.machine.chip.clock_hz  # with the chart's Gamma, not that of the model among all
    said = tag("p", "Sim's model calls the kernel ", tag("b", verdict), ", with T_exec of ",
               value(seconds(time), "T_exec, Sim et al. 2012, Equation (1), see docs/reference/models.md"),
               ". A benefit is at most what would be saved if that cause alone went away.",
               "" if b.t_mem else f" Memory has no bar: {NO_MEMORY_TIME}.")  # fmt: skip
    return joined((said, tag("ul", *rows, class_="bars"), tag("ul", *entries, class_="key")))


def _amount(b: Benefits, field: str) -> float:
    return max(0.0, float(getattr(b, field)) if field else b.t_mem - b.t_mem_min - b.b_memlp)


def worksheet(content: Content) -> Markup:
    """Return Volkov's Table 3.4 for this kernel: each resource, its users, and for how long they use it."""
    uses = content.worksheet
    if not uses:
        return tag("p", content.missing.get("worksheet", "unknown"), class_="dim")
    counts: dict[tuple[str, str, float], float] = {}  # one row for uses of one kind
    for u in uses:
        same = u.resource, u.user, float(u.cycles_each)
        counts[same] = counts.get(same, 0.0) + float(u.count)
    uses = [Use(*same, count) for same, count in counts.items()]
    totals: dict[str, float] = {}
    for u in uses:
        totals[u.resource] = totals.get(u.resource, 0.0) + float(u.cycles)
    slowest = max(totals, key=lambda name: totals[name])
    rows: list[list[object]] = []
    for resource in sorted(totals, key=lambda name: -totals[name]):
        users = sorted((u for u in uses if u.resource == resource), key=lambda u: -float(u.cycles))
        for i, u in enumerate(users):
            first = tag("b", resource) if resource == slowest else resource
            rows.append([first if i == 0 else "", u.user, number(float(u.count), 4), number(float(u.cycles_each), 3),
                         number(float(u.cycles), 4)])  # fmt: skip
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
    said = (
        "Models of the literature, and ours beside them, for comparison and research. Their times differ from one "
        "another and from the answer at the top of this page (docs/reference/models.md)."
    )
    return joined((
        tag("p", said, class_="dim"),
        more(f"All models ({len(content.comparison.predictions)})", models(content.comparison)),
        more("Potential benefits (Sim et al. 2012)", benefits(content)),
        more("Throughput worksheet (Volkov 2016, Table 3.4)", worksheet(content)),
    ))  # fmt: skip


def comparison(c: Comparison, workload: Workload, machine: Machine) -> str:
    """Return the page that puts all models side by side for one workload on one machine."""
    title = f"{c.workload} on {machine.name}"
    sections = [Section("models", "Models", "All models", models(c))]
    if not workload.kernels:
        curves = Section(
            "occupancy", "Occupancy", "Throughput against occupancy", figure(_curves(c, workload, machine))
        )
        sections.append(curves)
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
