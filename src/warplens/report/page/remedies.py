"""What would help, by how much, where and on which assumption; what would not, and why."""

from __future__ import annotations

from warplens.advisor import Advice, Location
from warplens.machine import Machine
from warplens.report.advice import NEAREST, nearest, results
from warplens.report.page.content import Content
from warplens.report.page.markup import Markup, joined, more, sure, tag, timed, value

_PLACES = 6


def remedies(content: Content) -> Markup:
    """Return the section on remedies."""
    advised = content.advised
    if advised is None:
        return tag("p", "Our model does not speak about this kernel, so it advises nothing.")
    helpful = advised.helpful
    parts: list[Markup] = []
    if helpful:
        parts.append(tag("ol", *(_remedy(i, a, content) for i, a in enumerate(helpful, 1)), class_="remedies"))
    else:
        parts.append(tag("p", "Nothing that we know of would gain 2 % or more.", class_="lead"))
    if advised.combinations:
        rows = [
            tag("li", _speedup(a), a.title, ": ", _then(a, content.machine), f"; {results(a)}")
            for a in advised.combinations
        ]
        parts += [tag("h3", "Together (gains do not add)"), tag("ul", *rows, class_="together")]
    useless = nearest(advised, len(advised))
    rows = [tag("li", tag("b", a.name.replace("-", " ")), ": ", a.reason) for a in useless]
    if rows:
        parts += [tag("h3", "What would not help, and why"), tag("ul", *rows[:NEAREST], class_="useless")]
    if left := rows[NEAREST:]:
        parts.append(more(f"{len(left)} more that would not help", tag("ul", *left, class_="useless")))
    parts += [tag("p", note, class_="dim") for note in advised.notes]
    return joined(parts)


def remedy_of_line(content: Content) -> dict[int | None, list[int]]:
    """Return for each source line which remedies (from 1 on) concern it."""
    found: dict[int | None, list[int]] = {}
    for i, a in enumerate(content.advised.helpful if content.advised else (), 1):
        for place in a.where:
            found.setdefault(place.line, []).append(i)
    return found


def remedy_of_instruction(content: Content) -> dict[int, list[int]]:
    """Return for each instruction which remedies (from 1 on) concern it."""
    found: dict[int, list[int]] = {}
    for i, a in enumerate(content.advised.helpful if content.advised else (), 1):
        for number in {n for place in a.where for n in place.instructions}:
            found.setdefault(number, []).append(i)
    return found


def _remedy(i: int, a: Advice, content: Content) -> Markup:
    now = float(content.advised.base.seconds or 0.0) if content.advised else 0.0
    left = 100 * min(1.0, a.seconds / now) if now else 100
    bar = tag("span", tag("span", class_="bar", style=f"width:{left:.2f}%"), class_="track", aria_hidden="true")
    where = tag("span", " at ", joined((_place(p) for p in a.where[:_PLACES]), ", "), class_="at") if a.where else ""
    others = content.advised.forms(a) if content.advised else ()
    forms = tag("p", "or ", joined((_form(f) for f in others), "; "), class_="dim") if others else ""
    folded = more("assumes", tag("p", a.assumption), _changes(a)) if a.assumption or a.changes else ""
    head = tag("p", _speedup(a), tag("span", a.title, class_="title"), where)
    how = tag("p", _mark(a), a.how, class_="how")
    then = tag("p", _then(a, content.machine), class_="then")
    return tag("li", head, bar, then, how, forms, folded, id_=f"remedy-{i}")


def _mark(a: Advice) -> Markup:
    """Say whether the kernel's results change."""
    return tag("span", results(a), class_="mark other" if a.changes_results else "mark")


def _form(a: Advice) -> Markup:
    """Return another form of the same change, in a line."""
    return joined((_speedup(a, "v"), " ", a.title))


def _speedup(a: Advice, class_: str = "v speedup") -> Markup:
    form = "the simulator's" if a.simulated else "the closed form's"
    why = f"time now / time with the remedy, both {form}, on the workload with the change (docs/advise.md)"
    return value(f"{a.speedup:.2f}×", why, class_)


def _then(a: Advice, machine: Machine) -> Markup:
    known = a.interval_seconds
    why = f"90 % interval: {sure(known, machine)}" if known else "no interval for this kind of kernel"
    return joined((value(timed(a.seconds, machine), why), f", then limited by {a.bound_after}"))


def _place(p: Location) -> Markup:
    target = f"#L{p.line}" if p.line is not None else f"#I{min(p.instructions, default=0)}"
    return tag("a", str(p), href=target)


def _changes(a: Advice) -> Markup | str:
    flat = {k: v for k, v in a.changes.items() if not isinstance(v, (list, dict))}
    if not flat:
        return ""
    return tag("p", "changes: ", ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in flat.items()), class_="dim")
