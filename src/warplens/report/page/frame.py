"""The page of `warplens analyze --html`: its sections in their order."""

from __future__ import annotations

from collections.abc import Callable

from warplens.report.page.accesses import accesses
from warplens.report.page.answer import answer
from warplens.report.page.assumptions import assumptions
from warplens.report.page.code import code
from warplens.report.page.content import Content
from warplens.report.page.markup import Markup, Section, document
from warplens.report.page.occupancy import occupancy
from warplens.report.page.remedies import remedies
from warplens.report.page.roofs import roofs
from warplens.report.page.stacks import published, time_stack
from warplens.report.page.warps import warps

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
    sections = [Section(name, short, title, make(content)) for name, (short, title, make) in SECTIONS.items()]
    head = f"{content.prediction.workload} on {content.machine.name}"
    dotted = "Dotted numbers say where they come from: hover over them, or go there with the Tab key."
    return document(head, answer(content), sections, data=data, note=dotted)
