"""The top of the page: the time, how sure it is, what limits it, what each limit alone would take."""

from __future__ import annotations

from warplens.core.units import number, quantity
from warplens.report.analysis import counted
from warplens.report.page import origins
from warplens.report.page.content import Content
from warplens.report.page.markup import Markup, joined, seconds, sure, tag, timed, value


def answer(content: Content) -> Markup:
    """Return the answer."""
    p = content.prediction
    facts = [
        tag("p", value(timed(float(p.seconds or 0), content.machine), _time(content)), class_="time"),
        tag("p", _sure(content), class_="sure"),
        tag("p", "limited by ", tag("strong", p.limited_by), class_="bound"),
    ]
    facts += [tag("p", flag, class_="flag") for flag in p.flags]
    if p.why_not_ours:
        facts.append(tag("p", f"by {p.model}, not by our own model: {p.why_not_ours}", class_="flag"))
    bars = tag("div", tag("h2", "Alone, each limit would take"), limits(content), class_="limits")
    head = tag("p", joined(_where(content), " · "), class_="where")
    title = tag("h1", p.workload)
    return tag("header", head, title, tag("div", tag("div", *facts, class_="answer"), bars, class_="hero"))


def _time(content: Content) -> str:
    p = content.prediction
    cycles = quantity(float(p.cycles or 0), "cycles")
    clock = origins.number_of(content.machine, "chip.clock_hz")
    form = "launch + the longest of SM (simulated), units of an SM, L2 and DRAM" if p.simulation else "see its terms"
    return f"{cycles} by {p.model}: {form} (docs/reference/models.md). {clock}"


def _sure(content: Content) -> Markup | str:
    p = content.prediction
    if p.interval_seconds is None:
        return p.interval_about or "no interval"
    why = f"90 % interval, conformal, by the errors of {p.interval_about} (docs/explain/accuracy.md)"
    return value(sure(p.interval_seconds, content.machine), why)


def _where(content: Content) -> list[object]:
    p, machine, launch, fits = content.prediction, content.machine, content.workload.launch, content.occupancy
    facts: list[object] = [machine.name]
    if launch is not None:
        shapes = [launch.grid, launch.block]
        grid, block = ("×".join(str(n) for n in s if n > 1) or "1" if isinstance(s, list) else str(s) for s in shapes)
        facts += [f"grid {grid}", f"block {block}"]
    share = float(p.warps_per_sm) / machine.sm.warps_max
    why = "whole blocks that fit on an SM (docs/explain/how-a-prediction-is-made.md)"
    if fits is not None:
        why += f", limited by {fits.limiter}; alone: " + ", ".join(f"{k} {n} blocks" for k, n in fits.limits.items())
    facts.append(value(f"{number(float(p.warps_per_sm))} warps per SM ({share:.0%})", why))
    facts.append(f"by {p.model}")
    return facts


def limits(content: Content) -> Markup:
    """Return what each limit alone would take as bars, the longest first; a whole bar is the predicted time."""
    p = content.prediction
    hz = float(p.cycles or 1.0) / float(p.seconds or 1.0)
    longest = max([float(p.cycles or 1.0), *p.alone.values()])
    rows = []
    for name, cycles in p.alone.items():
        label = value(seconds(cycles / hz, 3), origins.limit(name, p, content.machine))
        first = " first" if name == p.limited_by else ""
        bar = tag("span", class_=f"bar{first}", style=f"width:{100 * cycles / longest:.2f}%")
        rows.append(tag("li", tag("span", name, class_="name"), tag("span", bar, class_="track"), label))
    return tag("ul", *rows, class_="bars")


def counts(content: Content) -> list[str]:
    """Return what the emulation counted, in lines."""
    workload = content.workload
    return [] if workload.profile is None else counted(workload.profile, workload.code)
