"""HTML in small pieces: whatever is not `Markup` is text, and is escaped.

Every number carries its origin: `value` writes it with the equation or the source that it comes from, shown when one
hovers over it or reaches it with the keyboard.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from pathlib import Path

import msgspec
from msgspec import Struct

from warplens.core import units
from warplens.core.version import __version__
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
    return Markup(escape("\n".join(units.printable(line) for line in str(given).split("\n"))))


def joined(parts: Iterable[object], between: str = "") -> Markup:
    """Return parts one behind the other."""
    return Markup(between.join(text(part) for part in parts))


def tag(name: str, *children: object, **attributes: Attribute) -> Markup:
    """Return an element: `class_` and `data_x` become `class` and `data-x`; None and False are left out."""
    written = ""
    for key, given in attributes.items():
        if given is None or given is False:
            continue
        shown = f"{given:.6g}" if isinstance(given, float) else given  # as many digits as a screen shows
        written += f" {key.rstrip('_').replace('_', '-')}" + ("" if given is True else f'="{text(shown)}"')
    return Markup(f"<{name}{written}>{joined(children)}</{name}>")


def value(shown: object, why: str, class_: str = "v") -> Markup:
    """Return a number with where it comes from, for hovering and for the keyboard."""
    return tag("span", shown, class_=class_, tabindex="0", title=why)


def seconds(x: float, digits: int = 4) -> str:
    """Write a duration as a page can: `366.1 µs`."""
    return units.seconds(x, digits).replace(" us", " µs")


def timed(x: float, machine: Machine) -> str:
    """Write a predicted time as a page can."""
    return terminal.timed(x, machine).replace(" us", " µs")


def sure(interval: tuple[float, float], machine: Machine) -> str:
    """Say what we are 90 % sure of, as a page can."""
    return terminal.sure(interval, machine).replace(" us", " µs")


def bar(share: float, class_: str = "bar", **attributes: Attribute) -> Markup:
    """Return a bar on its track."""
    inner = tag("span", class_=class_, style=f"width:{100 * share:.2f}%")
    return tag("span", inner, class_="track", **attributes)


def table(
    head: Sequence[object], rows: Iterable[Sequence[object]], numeric: Iterable[int] = (), *, caption: str = ""
) -> Markup:
    """Return a table that scrolls by itself where it is too wide; a pair as a heading is its name and its origin."""
    right = set(numeric)

    def row(kind: str, cells: Iterable[object], scope: str | None = None) -> Markup:
        return tag("tr", *(tag(kind, c, class_="n" if i in right else None, scope=scope) for i, c in enumerate(cells)))

    first = tag("thead", row("th", (value(*h) if isinstance(h, tuple) else h for h in head), "col"))
    named = tag("caption", caption, class_="unseen") if caption else ""
    whole = tag("table", named, first, tag("tbody", *(row("td", cells) for cells in rows)))
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption or "table")


def more(summary: object, *children: object, printed: bool = True) -> Markup:
    """Return what is folded away until somebody asks, or prints the page (if it is to be `printed`)."""
    return tag("details", tag("summary", summary), *children, class_=None if printed else "unprinted")


class Section(Struct, frozen=True):
    """A part of a page: its name in links, its short title at the top, its heading, and what is below."""

    name: str
    short: str
    title: str
    body: Markup


_FOLDER = Path(__file__).parent
_MOST_BYTES = 1_900_000  # with the data; a page that would be larger goes without


def document(title: str, top: Markup, sections: Sequence[Section], *, data: str = "", note: str = "") -> str:
    """Return a page as one file: links, its top, its sections and a note; `data` is JSON that a button saves.

    All it needs is inside, and its policy lets nothing else run or load.
    """
    links = tag("div", *(tag("a", s.short, href=f"#{s.name}") for s in sections))
    theme = tag("button", "Theme", type="button", id_="theme", title="Light, dark, or as the system has it")
    saving = "Save the data of this page: what --json prints"
    save = tag("button", "JSON", type="button", id_="save", title=saving) if data else ""
    parts = [tag("section", tag("h2", s.title), s.body, id_=s.name, aria_label=s.title) for s in sections]
    main = tag("main", top, *parts, tag("footer", f"warplens {__version__}. {note}"))
    tip = tag("div", id_="tip", role="tooltip", hidden=True)
    nav, embedded = tag("nav", links, theme, save, aria_label="sections"), ""
    if data:  # in a block that nothing executes and nothing inside can end
        compact = msgspec.json.format(data.encode(), indent=-1).decode().replace("<", "\\u003c")
        embedded = Markup(f'<script type="application/json" id="data">{compact}</script>')
    whole = _framed(title, joined((nav, main, tip, embedded), "\n"))
    return whole if not data or len(whole.encode()) <= _MOST_BYTES else document(title, top, sections, note=note)


def _framed(title: str, body: Markup) -> str:
    """Return a whole file with its style and script."""
    style, script = (_file(name) for name in ("page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = joined((
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<link rel="icon" href="data:,">'),
        tag("title", title),
        Markup(f"<style>{style}</style>"),
    ), "\n")  # fmt: skip
    end = f"<script>{script}</script>"
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n{end}\n</body>\n</html>\n'


@cache
def _file(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
