"""The page: sections in their order, style, script and data, and a policy that lets nothing else run or load."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec

from warplens.core.version import __version__
from warplens.report.page.accesses import accesses
from warplens.report.page.answer import answer
from warplens.report.page.assumptions import assumptions
from warplens.report.page.code import code
from warplens.report.page.content import Content
from warplens.report.page.markup import Markup, joined, tag
from warplens.report.page.occupancy import occupancy
from warplens.report.page.remedies import remedies
from warplens.report.page.roofs import roofs
from warplens.report.page.stacks import published, time_stack
from warplens.report.page.warps import warps

_FOLDER = Path(__file__).parent
_MOST_BYTES = 1_900_000  # with the data; a page that would be larger goes without
SECTIONS: dict[str, tuple[str, str, Callable[[Content], Markup]]] = {
    "remedies": ("Remedies", "What would help", remedies),
    "occupancy": ("Occupancy", "Throughput against occupancy", occupancy),
    "time": ("Time", "What the time is made of", time_stack),
    "code": ("Code", "Source and machine code", code),
    "accesses": ("Accesses", "Access patterns", accesses),
    "timeline": ("Timeline", "What warps do, cycle by cycle", warps),
    "roofline": ("Roofline", "Roofline", roofs),
    "assumptions": ("Assumptions", "What was assumed, and what is not known", assumptions),
    "models": ("Published models", "Published models", published),
}


def page(content: Content, data: str) -> str:
    """Return the page; `data` is what `--json` prints."""
    links = [tag("a", short, href=f"#{name}") for name, (short, _, _) in SECTIONS.items()]
    theme = tag("button", "Theme", type="button", id_="theme", title="Light, dark, or as the system has it")
    save = tag("button", "JSON", type="button", id_="save", title="Save the data of this page: what --json prints")
    top = tag("nav", tag("div", *links), theme, save, aria_label="sections")
    sections = [
        tag("section", tag("h2", title), make(content), id_=name, aria_label=title)
        for name, (_, title, make) in SECTIONS.items()
    ]
    dotted = "Dotted numbers say where they come from: hover over them, or go there with the Tab key."
    foot = tag("footer", f"warplens {__version__}. {dotted}")
    body = joined(
        (top, tag("main", answer(content), *sections, foot), tag("div", id_="tip", role="tooltip", hidden=True)), "\n"
    )
    head = f"{content.prediction.workload} on {content.machine.name}"
    made = _document(head, body, _embedded(data))
    return made if len(made.encode()) <= _MOST_BYTES else _document(head, body, Markup(""))


def _embedded(data: str) -> Markup:
    """Return JSON as a block that nothing executes and nothing inside can end."""
    compact = msgspec.json.format(data.encode(), indent=-1).decode().replace("<", "\\u003c")
    return Markup(f'<script type="application/json" id="data">{compact}</script>')


def _document(title: str, body: Markup, data: Markup) -> str:
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
    end = f"{data}\n<script>{script}</script>"
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n{end}\n</body>\n</html>\n'


@cache
def _file(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
