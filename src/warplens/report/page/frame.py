"""The page of `warplens analyze --html`: the answer at its top, then sections; here are those in words."""

from __future__ import annotations

from collections.abc import Callable

from warplens.advisor import Advice
from warplens.core.units import number, quantity
from warplens.machine import Machine
from warplens.report.analysis import NEAREST, counted, nearest, results, unknown_shares
from warplens.report.page import markup
from warplens.report.page.code import accesses, code
from warplens.report.page.content import Content, limit_source, number_source, used_keys, value_source
from warplens.report.page.markup import Markup, bar, joined, more, seconds, sure, table, tag, timed, value
from warplens.report.page.models import published
from warplens.report.page.pictures import occupancy, roofline, time_stack, warps

_SOURCES = 6  # source lines that a remedy names


def page(content: Content, data: str) -> str:
    """Return the page; `data` is what `--json` prints."""
    sections = [markup.Section(name, short, title, make(content)) for name, (short, title, make) in SECTIONS.items()]
    head = f"{content.prediction.workload} on {content.machine.name}"
    dotted = "Dotted numbers say where they come from: hover over them, or go there with the Tab key."
    return markup.document(head, answer(content), sections, data=data, note=dotted)


def answer(content: Content) -> Markup:
    """Return the top of the page: the time, its interval, the limit, what each limit alone would take."""
    p, machine = content.prediction, content.machine
    hz, longest = float(p.cycles or 1.0) / float(p.seconds or 1.0), max([float(p.cycles or 1.0), *p.alone.values()])
    form = "launch + the longest of SM (simulated), units of an SM, L2 and DRAM" if p.simulation else "see its terms"
    clock = number_source(machine, "chip.clock_hz")
    why = f"{quantity(float(p.cycles or 0), 'cycles')} by {p.model}: {form} (docs/reference/models.md). {clock}"
    sure_of: Markup | str = p.interval_about or "no interval"
    if p.interval_seconds is not None:
        errors = f"90 % interval, conformal, by the errors of {p.interval_about} (docs/explain/accuracy.md)"
        sure_of = value(sure(p.interval_seconds, machine), errors)
    facts = [
        tag("p", value(timed(float(p.seconds or 0), machine), why), class_="time"),
        tag("p", sure_of, class_="sure"),
        tag("p", "limited by ", tag("strong", p.limited_by), class_="bound"),
        *(tag("p", flag, class_="flag") for flag in p.flags),
    ]
    if p.why_not_ours:
        facts.append(tag("p", f"by {p.model}, not by our own model: {p.why_not_ours}", class_="flag"))
    rows = []  # the longest first; a whole bar is the predicted time
    for name, cycles in p.alone.items():
        shown = value(seconds(cycles / hz, 3), limit_source(name, p, machine))
        kind = "bar first" if name == p.limited_by else "bar"
        rows.append(tag("li", tag("span", name, class_="name"), bar(cycles / longest, kind), shown))
    limits = tag("div", tag("h2", "Alone, each limit would take"), tag("ul", *rows, class_="bars"), class_="limits")
    hero = tag("div", tag("div", *facts, class_="answer"), limits, class_="hero")
    return tag("header", tag("p", joined(_launch(content), " · "), class_="where"), tag("h1", p.workload), hero)


def _launch(content: Content) -> list[object]:
    """Return the machine, the launch, the occupancy and the model."""
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
    return [*facts, value(f"{number(float(p.warps_per_sm))} warps per SM ({share:.0%})", why), f"by {p.model}"]


def remedies(content: Content) -> Markup:
    """Return what would help, by how much, where and on which assumption; what would not, and why."""
    advised = content.advised
    if advised is None:
        return tag("p", "Our model does not speak about this kernel, so it advises nothing.")
    helpful = [_remedy(i, a, content) for i, a in enumerate(advised.helpful, 1)]
    nothing = tag("p", "Nothing that we know of would gain 2 % or more.", class_="lead")
    parts = [tag("ol", *helpful, class_="remedies") if helpful else nothing]
    if advised.combinations:
        both = ((a, _then(a, content.machine)) for a in advised.combinations)
        rows = [tag("li", _speedup(a), a.title, ": ", then, f"; {results(a)}") for a, then in both]
        parts += [tag("h3", "Together (gains do not add)"), tag("ul", *rows, class_="together")]
    rows = [tag("li", tag("b", a.name.replace("-", " ")), ": ", a.reason) for a in nearest(advised, len(advised))]
    if rows:
        parts += [tag("h3", "What would not help, and why"), tag("ul", *rows[:NEAREST], class_="useless")]
    if left := rows[NEAREST:]:
        parts.append(more(f"{len(left)} more that would not help", tag("ul", *left, class_="useless")))
    return joined((*parts, *(tag("p", note, class_="dim") for note in advised.notes)))


def _remedy(i: int, a: Advice, content: Content) -> Markup:
    assert content.advised is not None
    now = float(content.advised.base.seconds or 0.0)
    left = bar(min(1.0, a.seconds / now) if now else 1.0, aria_hidden="true")
    links = (
        tag("a", str(p), href=f"#I{min(p.instructions, default=0)}" if p.line is None else f"#L{p.line}")
        for p in a.where[:_SOURCES]
    )
    where = tag("span", " at ", joined(links, ", "), class_="at") if a.where else ""
    others = [joined((_speedup(form, "v"), " ", form.title)) for form in content.advised.forms(a)]
    forms = tag("p", "or ", joined(others, "; "), class_="dim") if others else ""
    flat = {k: v for k, v in a.changes.items() if not isinstance(v, (list, dict))}
    changes = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in flat.items())
    changed = tag("p", "changes: ", changes, class_="dim") if flat else ""
    folded = more("assumes", tag("p", a.assumption), changed) if a.assumption or a.changes else ""
    head = tag("p", _speedup(a), tag("span", a.title, class_="title"), where)
    how = tag("p", tag("span", results(a), class_="mark other" if a.changes_results else "mark"), a.how, class_="how")
    then = tag("p", _then(a, content.machine), class_="then")
    return tag("li", head, left, then, how, forms, folded, id_=f"remedy-{i}")


def _speedup(a: Advice, class_: str = "v speedup") -> Markup:
    form = "the simulator's" if a.simulated else "the closed form's"
    why = f"time now / time with the remedy, both {form} (docs/explain/how-a-prediction-is-made.md)"
    return value(f"{a.speedup:.2f}×", why, class_)


def _then(a: Advice, machine: Machine) -> Markup:
    known = a.interval_seconds
    why = f"90 % interval: {sure(known, machine)}" if known else "no interval for this kind of kernel"
    return joined((value(timed(a.seconds, machine), why), f", then limited by {a.bound_after}"))


def assumptions(content: Content) -> Markup:
    """Return what the answer rests on: assumptions, counts, what is not known, traffic, the machine's numbers."""
    p, workload, profile = content.prediction, content.workload, content.workload.profile
    known = [
        "the clock is the machine file's, and stays there",
        *(() if profile is None else counted(profile, workload.code)),
        *(f"note: {note}" for note in (*workload.notes, *p.notes)),
    ]
    unknown = [f"{what}: {why}" for what, why in content.missing.items()]
    if profile is not None:
        shares = unknown_shares(profile).items()
        unknown += [f"{share:.2%} of the {what} are not known to the emulator" for what, share in shares if share > 0]
        if not profile.exact and profile.largest_error:
            unknown.append(f"the counts of single instructions may be off by {profile.largest_error:.1%}: a part of "
                           "the grid was emulated")  # fmt: skip
    unknown.append("which threads of a warp touch which sectors and banks")
    if workload.code:
        unknown.append("lines of included files are not told apart from lines of this file")
    flags = [tag("li", flag, class_="flag") for flag in p.flags]
    columns = [
        tag("div", tag("h3", "Assumed and counted"), tag("ul", *flags, *(tag("li", x) for x in known))),
        tag("div", tag("h3", "Not known"), tag("ul", *(tag("li", x) for x in unknown))),
    ]
    return joined((tag("div", *columns, class_="two"), _traffic(content), _machine(content)))


def _traffic(content: Content) -> Markup | str:
    profile = content.workload.profile
    if profile is None or not profile.traffic:
        return ""
    columns = ("l2_read_bytes", "l2_written_bytes", "dram_read_bytes", "dram_written_bytes")
    rows = [[t.name, *(quantity(getattr(t, name), "B", 3) for name in columns)] for t in profile.traffic]
    head = ["array", "read from L2", "written to L2", "read from DRAM", "written to DRAM"]
    return more("Traffic by array", table(head, rows, range(1, 5), caption="traffic by array"))


def _machine(content: Content) -> Markup:
    keys = used_keys(content.workload, content.machine)
    rows = [[tag("code", key), *value_source(content.machine, key)] for key in keys]
    found = table(["number", "value", "source", "reference"], rows, (1,), caption="numbers of the machine")
    return more(f"Numbers of {content.machine.name} ({len(rows)})", found, printed=False)


SECTIONS: dict[str, tuple[str, str, Callable[[Content], Markup]]] = {
    "remedies": ("Remedies", "What would help", remedies),
    "occupancy": ("Occupancy", "Throughput against occupancy", occupancy),
    "time": ("Time", "What the time is made of", time_stack),
    "code": ("Code", "Source and machine code", code),
    "accesses": ("Accesses", "Access patterns", accesses),
    "timeline": ("Timeline", "What warps do, cycle by cycle", warps),
    "roofline": ("Roofline", "Roofline", roofline),
    "assumptions": ("Assumptions", "What was assumed, and what is not known", assumptions),
    "models": ("Published models", "Published models", published),
}
