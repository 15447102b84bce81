"""HTML in small pieces: whatever is not `Markup` is text, and is escaped.

Every number carries its origin: `value` writes it with the equation or the source that it comes from, shown when one
hovers over it or reaches it with the keyboard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from warplens.core.units import printable, quantity
from warplens.core.units import seconds as _seconds
from warplens.machine import Machine
from warplens.report import terminal

Attribute = str | float | bool | None


class Markup(str):
    """HTML that is ready to be put into a page."""

    __slots__ = ()


def text(given: object) -> Markup:
    """Return something as HTML: markup as it is, all else escaped, without characters that nobody sees."""
    if isinstance(given, Markup):
        return given
    return Markup(escape("\n".join(printable(line) for line in str(given).split("\n"))))


def joined(parts: Iterable[object], between: str = "") -> Markup:
    """Return parts one behind the other."""
    return Markup(between.join(text(part) for part in parts))


def tag(name: str, *children: object, **attributes: Attribute) -> Markup:
    """Return an element: `class_` and `data_x` become `class` and `data-x`; None and False are left out."""
    written = []
    for key, given in attributes.items():
        if given is None or given is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        written.append(f" {key}" if given is True else f' {key}="{text(_short(given))}"')
    return Markup(f"<{name}{''.join(written)}>{joined(children)}</{name}>")


def _short(given: Attribute) -> object:
    """Return a number of an attribute with as many digits as a screen shows."""
    return f"{given:.6g}" if isinstance(given, float) else given


def value(shown: object, why: str, class_: str = "v") -> Markup:
    """Return a number with where it comes from, for hovering and for the keyboard."""
    return tag("span", shown, class_=class_, tabindex="0", title=why)


def seconds(x: float, digits: int = 4) -> str:
    """Write a duration as a page can: `366.1 µs`."""
    return _seconds(x, digits).replace(" us", " µs")


def timed(x: float, machine: Machine) -> str:
    """Write a predicted time as a page can."""
    return terminal.timed(x, machine).replace(" us", " µs")


def sure(interval: tuple[float, float], machine: Machine) -> str:
    """Say what we are 90 % sure of, as a page can."""
    return terminal.sure(interval, machine).replace(" us", " µs")


def cycles(x: float) -> str:
    """Write a number of cycles: `225 Mcycles`."""
    return quantity(x, "Hz", 3).removesuffix("Hz") + "cycles"


def table(
    head: Sequence[object], rows: Iterable[Sequence[object]], numeric: Iterable[int] = (), *, caption: str = ""
) -> Markup:
    """Return a table that scrolls by itself where it is too wide; a pair as a heading is its name and its origin."""
    right = set(numeric)

    def cell(kind: str, at: int, given: object) -> Markup:
        scope = "col" if kind == "th" else None
        return tag(kind, given, class_="n" if at in right else None, scope=scope)

    titles = [value(*h) if isinstance(h, tuple) else h for h in head]
    body = joined(tag("tr", *(cell("td", i, c) for i, c in enumerate(row))) for row in rows)
    named = tag("caption", caption, class_="unseen") if caption else ""
    first = tag("thead", tag("tr", *(cell("th", i, h) for i, h in enumerate(titles))))
    label = caption or None
    made = tag("table", named, first, tag("tbody", body))
    return tag("div", made, class_="scroll", tabindex="0", role="region", aria_label=label or "table")


def more(summary: object, *children: object, printed: bool = True) -> Markup:
    """Return what is folded away until somebody asks, or prints the page (if it is to be `printed`)."""
    return tag("details", tag("summary", summary), *children, class_=None if printed else "unprinted")
