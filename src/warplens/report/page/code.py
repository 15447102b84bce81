"""Source and machine code side by side, and the access patterns of the instructions.

Listings say where warps spend their time, what accesses touch and which remedy is meant. A line of source and its
instructions are tied: reach one, and the other lights up. Rows are one stop for the Tab key; the arrow keys go through
them.

Access patterns are the sectors and lines that a request touches, or its wavefronts in shared memory: means over all
requests of an instruction. Which thread touches which sector or bank is not recorded; touched sectors are drawn from
the left of their line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from warplens.advisor.memory import WORTH as _WORTH
from warplens.core.units import number
from warplens.report.page.content import Content, Row, Touches
from warplens.report.page.markup import Markup, joined, tag, value
from warplens.report.page.svg import described
from warplens.report.simulation import in_words, read_source

_MOST_ROWS = 1200  # instructions shown; of a longer kernel those where time goes
_AROUND = 12  # lines shown around those that became instructions, in a long file
_LONG_FILE = 800
_LONG_LINE = 240
_MOST = 12  # patterns drawn
_CELL, _GAP, _PER_ROW = 9, 4, 8  # pixels of a sector, between lines; lines in a row
_STRIPS, _BANK = 32, 7  # wavefronts drawn; pixels of a bank
_SPREAD = 1.5  # lines over the fewest from which full sectors lie too far apart (advisor/memory.py)


def _numbers(rows: Sequence[Row]) -> dict[str, tuple[str, str]]:
    """Return the columns of a source line, whose instructions these are, or of one instruction: each text and class.

    They are its time, its runs, its sectors per request, and its wavefronts over those needed.
    """
    touched = [t for t in (row.touches for row in rows) if t is not None]
    in_global, in_shared = ([t for t in touched if t.space == space] for space in ("global", "shared"))
    share, runs = sum(row.share for row in rows), max((row.runs_per_warp for row in rows), default=0.0)
    requests = sum(t.requests_per_warp for t in in_global)
    sectors = sum(t.requests_per_warp * t.sectors for t in in_global)
    needed = sum(t.requests_per_warp * t.least_wavefronts for t in in_shared)
    degree = sum(t.requests_per_warp * t.wavefronts for t in in_shared) / needed if needed else 0.0
    return {
        "time": (f"{share:.1%}" if share >= 0.0005 else "", "n time"),
        "runs": (number(runs, 3), "n"),
        "sectors": (number(sectors / requests, 3) if requests else "", "n"),
        "conflicts": (f"{number(degree, 3)}×" if needed else "", "n bad" if degree > 1.05 else "n"),
    }


def code(content: Content) -> Markup:
    """Return the section with the annotated code."""
    if not content.instructions:
        return tag("p", "The workload has no machine code: count it with warplens analyze.", class_="dim")
    name, lines = content.workload.source, read_source(content.workload.source)
    if lines:
        first = tag("div", tag("h3", Path(name).name), _source(content, lines))
    else:
        why = "is not a source that can be read" if name else "is not known"
        first = tag("p", f"The source {name} {why}: machine code only.", class_="dim")
    second = tag("div", tag("h3", "Machine code"), _machine_code(content))
    said = (
        "Colour is the share of all warp-cycles that warps spend in front of an instruction. Use the arrow keys inside "
        "a listing; a line and its instructions light up together."
    )
    return joined((tag("p", said, class_="dim"), tag("div", first, second, class_="code" if lines else "code alone")))


def _source(content: Content, source: list[str]) -> Markup:
    rows_of: dict[int, list[Row]] = {}
    for row in content.instructions:
        if row.line is not None:
            rows_of.setdefault(row.line, []).append(row)
    shares = {n: sum(row.share for row in rows) for n, rows in rows_of.items()}
    top, remedies = max(shares.values(), default=0.0) or 1.0, _remedies(content)[0]

    def line(n: int, first: bool) -> Markup:
        text = source[n - 1].expandtabs(4)
        text = text if len(text) <= _LONG_LINE else text[:_LONG_LINE] + " …"
        numbers = _numbers(rows_of[n]) if n in rows_of else dict.fromkeys(_HEADS, ("", "n"))
        cells = [tag("td", n, class_="n dim"), *_cells(numbers), _text(text, remedies.get(n, ()))]
        said = ", ".join(f"{name} {shown}" for name, (shown, _) in numbers.items() if shown)
        at, why = (n, f"line {n}: {said}") if n in rows_of else (None, None)
        return _row(cells, f"L{n}", at, shares.get(n, 0.0) / top, why, first)

    near = {n for line in rows_of for n in range(line - _AROUND, line + _AROUND + 1)}
    shown = [n for n in range(1, len(source) + 1) if len(source) <= _LONG_FILE or n in near]
    rows = _spaced(shown, (1, len(source)), "lines", 6, line)
    left = sum(share for n, share in shares.items() if n > len(source))
    if left >= 0.001:
        rows.append(_gap(6, f"{left:.1%} of the time is in lines of other files"))
    return _listing("source", ("line", "time", "runs", "sectors", "conflicts", "source"), rows, "source")


def _machine_code(content: Content) -> Markup:
    remedies, code = _remedies(content)[1], content.instructions
    top = max((r.share for r in code), default=0.0) or 1.0

    def instruction(i: int, first: bool) -> Markup:
        r = code[i]
        cells = [
            tag("td", f"{r.offset:04x}", class_="n dim"),
            *_cells(_numbers([r])),
            _text(r.text, remedies.get(i, ())),
            tag("td", "" if r.line is None else r.line, class_="n dim"),
        ]
        return _row(cells, f"I{i}", r.line, r.share / top, _why(r), first)

    most = sorted(range(len(code)), key=lambda i: (-code[i].share, -code[i].runs_per_warp))[:_MOST_ROWS]
    rows = _spaced(sorted(most), (0, len(code) - 1), "instructions where little time goes", 7, instruction)
    head = ("offset", "time", "runs", "sectors", "conflicts", "instruction", "line")
    return _listing("machine code", head, rows, "sass")


def _spaced(
    shown: Sequence[int], ends: tuple[int, int], what: str, columns: int, make: Callable[[int, bool], Markup]
) -> list[Markup]:
    """Return a row for each number that is shown, and between them how many are left out of those between the ends."""
    rows, before = list[Markup](), ends[0] - 1
    for n in (*shown, ends[1] + 1):
        if n != before + 1:
            rows.append(_gap(columns, f"{n - before - 1} {what}"))
        if n <= ends[1]:
            rows.append(make(n, not rows))
        before = n
    return rows


def _why(r: Row) -> str:
    """Say all that is known of an instruction."""
    parts = [f"{r.share:.2%} of all warp-cycles; runs {number(r.runs_per_warp, 3)} times per warp"]
    for reason, share in sorted(r.stalls.items(), key=lambda item: -item[1])[:4]:
        if share >= 0.0005:
            parts.append(f"{share:.2%} {in_words(reason)}")
    return "\n".join([*parts, *(() if r.touches is None else _touched(r.touches))])


def _touched(t: Touches) -> list[str]:
    """Say what one request of a warp touches."""
    threads = f"{number(t.threads, 3)} threads of a warp, {number(t.bytes_per_thread, 3)} bytes each"
    if t.space == "shared":
        return [threads, f"{number(t.wavefronts, 3)} wavefronts per request, {number(t.least_wavefronts, 3)} needed"]
    return [
        threads,
        f"{number(t.sectors, 3)} sectors in {number(t.lines, 3)} lines per request",
        f"L1 hits {t.l1_hits:.0%}, L2 hits {t.l2_hits:.0%} of what passes L1",
    ]


_HEADS = {
    "time": "share of all warp-cycles of the simulation (docs/explain/simulator.md)",
    "runs": "executions by a mean warp, emulated (docs/explain/emulator.md); of a line: its commonest one",
    "sectors": "32-byte sectors per request of global or local memory, counted by the emulator",
    "conflicts": "wavefronts of shared memory over those that its bytes need, counted by the emulator",
}


def _listing(label: str, head: Sequence[str], rows: Sequence[Markup], kind: str) -> Markup:
    cells = [tag("th", value(n, _HEADS[n]) if n in _HEADS else n, scope="col", class_="n" if n in _HEADS else None)
             for n in head]  # fmt: skip
    named = tag("caption", label, class_="unseen")
    body = tag("table", named, tag("thead", tag("tr", *cells)), tag("tbody", *rows), class_=f"listing {kind}")
    return tag("div", body, class_="pane", role="region", aria_label=label, tabindex="0")


def _cells(numbers: dict[str, tuple[str, str]]) -> list[Markup]:
    return [tag("td", shown, class_=kind) for shown, kind in numbers.values()]


def _remedies(content: Content) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Return for source lines and for instructions which remedies (from 1 on) concern them."""
    lines, instructions = dict[int, list[int]](), dict[int, list[int]]()
    for i, a in enumerate(content.advised.helpful if content.advised else (), 1):
        for line in (p.line for p in a.where if p.line is not None):
            lines.setdefault(line, []).append(i)
        for n in {n for p in a.where for n in p.instructions}:
            instructions.setdefault(n, []).append(i)
    return lines, instructions


def _text(written: str, remedies: Iterable[int]) -> Markup:
    """Return the cell of a line's or an instruction's text, with the remedies that concern it."""
    marks = (tag("a", i, class_="badge", href=f"#remedy-{i}", aria_label=f"remedy {i}") for i in remedies)
    return tag("td", tag("code", written), *marks, class_="text")


def _row(cells: Sequence[Markup], name: str, line: int | None, heat: float, why: str | None, first: bool) -> Markup:
    style = f"--h:{100 * heat:.0f}%" if heat >= 0.005 else None
    return tag("tr", *cells, id_=name, data_line=None if line is None else str(line), style=style, title=why,
               tabindex="0" if first else "-1")  # fmt: skip


def _gap(columns: int, what: str) -> Markup:
    return tag("tr", tag("td", f"… {what}", colspan=str(columns), class_="gap"))


def accesses(content: Content) -> Markup:
    """Return the section on access patterns: instructions of one source line with one pattern are drawn once."""
    groups: dict[tuple[object, ...], list[tuple[Row, Touches]]] = {}
    for row in content.instructions:
        t = row.touches
        if t is not None and row.runs_per_warp:
            name = row.text.split()[1 if row.text.startswith("@") else 0]
            pattern = row.line, name, round(t.sectors, 1), round(t.lines, 1), round(t.wavefronts, 1)
            groups.setdefault(pattern, []).append((row, t))
    if not groups:
        return tag("p", "The kernel accesses no memory, or its accesses were not counted.", class_="dim")
    requests = {pattern: sum(t.requests_per_warp for _, t in rows) for pattern, rows in groups.items()}
    ranked = sorted(groups, key=lambda pattern: -requests[pattern])
    cards = [_card(str(x[1]), *groups[x][0], requests[x]) for x in ranked[:_MOST]]
    left = f" {len(ranked) - _MOST} rarer patterns are not drawn." if len(ranked) > _MOST else ""
    said = (
        "What one request of a warp touches: means over all its requests, counted by the emulator. Which thread "
        f"touches which sector or bank is not recorded: sectors are drawn from the left of their line.{left}"
    )
    return joined((tag("p", said, class_="dim"), tag("div", *cards, class_="cards")))


def _card(name: str, row: Row, t: Touches, requests: float) -> Markup:
    where = tag("a", f"line {row.line}", href=f"#L{row.line}") if row.line else tag("a", "code", href=f"#I{row.number}")
    head = tag("p", tag("code", name), " ", where, tag("span", f" {number(requests, 3)} per warp", class_="dim"))
    verdict, good = judge(t)
    return tag("div", head, _draw(t), tag("p", verdict, class_="good" if good else "bad"), class_="card")


def judge(t: Touches) -> tuple[str, bool]:
    """Say whether a request touches more sectors or lines than its bytes fill, as the remedies see it, or wavefronts.

    Returned are the verdict and whether it is good.
    """
    if t.space == "shared":
        if t.conflict_degree <= 1.05:
            return "no bank conflicts", True
        return f"{number(t.wavefronts, 3)} wavefronts where {number(t.least_wavefronts, 3)} would do", False
    useful = min(1.0, t.useful_share)
    shared = " (threads share sectors)" if t.useful_share > 1.01 else ""
    verdict = f"{number(t.sectors, 3)} sectors, {useful:.0%} of their bytes asked for{shared}"
    if t.sectors > _WORTH * max(1.0, t.useful_share * t.sectors):
        return verdict, False
    fewest = max(1.0, t.sectors * useful / 4)
    if t.lines > _SPREAD * fewest:
        return f"{verdict}, in {number(t.lines, 3)} lines where {number(fewest, 3)} would do", False
    return verdict, True


def _draw(t: Touches) -> Markup:
    """Draw what a request touches, as paths by class.

    Lines have four sectors, and the filled part of a touched one is what threads asked for. Wavefronts of shared memory
    are strips of 32 banks: those that the bytes need, then those that conflicts add.
    """
    paths = dict.fromkeys(("moved", "empty", "useful", "useful-shared", "conflict", "banks"), "")
    if t.space == "shared":
        width, height = 32 * _BANK, 6 * min(_STRIPS, max(1, round(t.wavefronts)))
        for k, y in enumerate(range(0, height, 6)):
            kind = "useful-shared" if k < round(t.least_wavefronts) else "conflict"
            paths[kind] += f"M0 {y}h{width}v4h-{width}z"
        paths["banks"] = "".join(f"M{_BANK * b - 0.5:g} 0V{height - 2}" for b in range(1, 32))
    else:
        lines, high = max(1, min(32, math.ceil(t.lines - 0.01))), _CELL + 2
        touched = max(1, min(4, round(t.sectors / max(t.lines, 1e-9)))) if t.sectors else 0
        width, height = min(lines, _PER_ROW) * (4 * _CELL + _GAP), math.ceil(lines / _PER_ROW) * (high + _GAP + 1)
        for k in range(4 * lines):
            line, sector = divmod(k, 4)
            x = line % _PER_ROW * (4 * _CELL + _GAP) + sector * _CELL
            foot, sides = f"M{x} {line // _PER_ROW * (high + _GAP + 1) + high}h{_CELL - 1}v-", f"h-{_CELL - 1}z"
            paths["moved" if sector < touched else "empty"] += f"{foot}{high}{sides}"
            if sector < touched:
                paths["useful"] += f"{foot}{high * min(1.0, t.useful_share):.3g}{sides}"
    cells = (tag("path", d=d, class_=kind) for kind, d in paths.items() if d)
    why = "; ".join(_touched(t))
    return tag("svg", described(why, *cells), viewBox=f"0 0 {width} {height}", width=width, height=height,
               class_="pattern", role="group", aria_label=why)  # fmt: skip
