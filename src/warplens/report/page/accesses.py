"""Access patterns: the sectors and lines that a request touches, the passes that it takes through shared memory.

The counts are means over all requests of an instruction. Which thread touches which sector or bank is not recorded;
touched sectors are drawn from the left of their line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from warplens.advisor.memory import WORTH as _WORTH
from warplens.core.units import number
from warplens.report.page.axes import told
from warplens.report.page.content import Content
from warplens.report.page.instructions import Row, Touches
from warplens.report.page.markup import Markup, joined, tag

_MOST = 12  # patterns drawn
_CELL, _GAP, _PER_ROW = 9, 4, 8  # pixels of a sector, between lines; lines in a row
_PASSES = 32
_SPREAD = 1.5  # lines over the fewest from which full sectors lie too far apart (advisor/memory.py)


def accesses(content: Content) -> Markup:
    """Return the section on access patterns: like instructions of one source line are drawn once."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in content.instructions:
        if row.touches is not None and row.runs_per_warp:
            groups.setdefault(_alike(row), []).append(row)
    if not groups:
        return tag("p", "The kernel accesses no memory, or its accesses were not counted.", class_="dim")
    ranked = sorted(groups.values(), key=lambda rows: -sum(r.touches.requests_per_warp for r in rows if r.touches))
    cards = [_card(rows) for rows in ranked[:_MOST]]
    left = f" {len(ranked) - _MOST} rarer patterns are not drawn." if len(ranked) > _MOST else ""
    said = (
        "What one request of a warp touches: means over all its requests, counted by the emulator. Which thread "
        f"touches which sector or bank is not recorded: sectors are drawn from the left of their line.{left}"
    )
    return joined((tag("p", said, class_="dim"), tag("div", *cards, class_="cards")))


def _alike(row: Row) -> tuple[object, ...]:
    t = row.touches
    assert t is not None
    name = row.text.removeprefix("@").split()[1 if row.text.startswith("@") else 0]
    return row.line, name, round(t.sectors, 1), round(t.lines, 1), round(t.wavefronts, 1)


def _card(rows: Sequence[Row]) -> Markup:
    row = rows[0]
    t = row.touches
    assert t is not None
    name = str(_alike(row)[1])
    where = tag("a", f"line {row.line}", href=f"#L{row.line}") if row.line else tag("a", "code", href=f"#I{row.number}")
    requests = sum(r.touches.requests_per_warp for r in rows if r.touches)
    head = tag("p", tag("code", name), " ", where, tag("span", f" {number(requests, 3)} per warp", class_="dim"))
    made, verdict, good = _shared(t) if t.space == "shared" else _global(t)
    return tag("div", head, made, tag("p", verdict, class_="good" if good else "bad"), class_="card")


def _global(t: Touches) -> tuple[Markup, str, bool]:
    """Draw lines of four sectors; the filled part of a touched one is what threads asked for."""
    lines = max(1, min(32, math.ceil(t.lines - 0.01)))
    per_line = max(1, min(4, round(t.sectors / max(t.lines, 1e-9)))) if t.sectors else 0
    useful = min(1.0, t.useful_share)
    cells = []
    for k in range(lines):
        x0, y0 = (k % _PER_ROW) * (4 * _CELL + _GAP), (k // _PER_ROW) * (_CELL + _GAP + 3)
        for s in range(4):
            x = x0 + s * _CELL
            touched = s < per_line
            cells.append(
                tag("rect", x=x, y=y0, width=_CELL - 1, height=_CELL + 2, class_="moved" if touched else "empty")
            )
            if touched:
                tall = (_CELL + 2) * useful
                cells.append(tag("rect", x=x, y=y0 + _CELL + 2 - tall, width=_CELL - 1, height=tall, class_="useful"))
    why = (
        f"{number(t.threads, 3)} threads ask for {number(t.bytes_per_thread, 3)} bytes each: {number(t.sectors, 3)} "
        f"sectors in {number(t.lines, 3)} lines per request. L1 hits {t.l1_hits:.0%}, L2 hits {t.l2_hits:.0%} of "
        "what passes L1."
    )
    width, height = min(lines, _PER_ROW) * (4 * _CELL + _GAP), math.ceil(lines / _PER_ROW) * (_CELL + _GAP + 3)
    shared = " (threads share sectors)" if t.useful_share > 1.01 else ""
    verdict = f"{number(t.sectors, 3)} sectors, {min(1.0, t.useful_share):.0%} of their bytes asked for{shared}"
    fewest = max(1.0, t.sectors * useful / 4)
    spread = t.lines > _SPREAD * fewest and not too_many_sectors(t)
    verdict += f", in {number(t.lines, 3)} lines where {number(fewest, 3)} would do" if spread else ""
    return _drawn(width, height, why, cells), verdict, not (spread or too_many_sectors(t))


def too_many_sectors(t: Touches) -> bool:
    """Whether a request touches more sectors than its bytes fill, as the remedy that would coalesce it sees it."""
    return t.sectors > _WORTH * max(1.0, t.useful_share * t.sectors)


def _shared(t: Touches) -> tuple[Markup, str, bool]:
    """Draw each pass as a strip of 32 banks: those that the bytes need, then those that conflicts add."""
    passes, needed = min(_PASSES, max(1, round(t.wavefronts))), round(t.least_wavefronts)
    cells = [
        tag("rect", x=0, y=k * 6, width=32 * 7, height=4, class_="useful-shared" if k < needed else "conflict")
        for k in range(passes)
    ]
    bank = "".join(f"M{7 * b - 0.5:g} 0V{passes * 6 - 2}" for b in range(1, 32))
    cells.append(tag("path", d=bank, class_="banks"))
    why = (
        f"{number(t.threads, 3)} threads, {number(t.bytes_per_thread, 3)} bytes each: {number(t.wavefronts, 3)} passes "
        f"through the 32 banks per request, {number(t.least_wavefronts, 3)} needed without conflicts. "
        "Which banks collide is not recorded."
    )
    few = t.conflict_degree <= 1.05
    verdict = (
        "no bank conflicts"
        if few
        else f"{number(t.wavefronts, 3)} passes where {number(t.least_wavefronts, 3)} would do"
    )
    return _drawn(32 * 7, passes * 6, why, cells), verdict, few


def _drawn(width: float, height: float, why: str, cells: Sequence[Markup]) -> Markup:
    inside = told(why, *cells)
    return tag("svg", inside, viewBox=f"0 0 {width:g} {height:g}", width=width, height=height, class_="pattern",
               role="group", aria_label=why)  # fmt: skip
