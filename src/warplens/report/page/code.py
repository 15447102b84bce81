"""Source and machine code side by side, and the access patterns of the instructions.

Listings say where warps spend their time, what accesses touch and which remedy is meant. A line of source and its
instructions are tied: reach one, and the other lights up. Rows are one stop for the Tab key; the arrow keys go through
them.

Access patterns are the sectors and lines that a request touches, or its wavefronts in shared memory: means over all
requests of an instruction. Which thread touches which sector or bank is not recorded; touched sectors are drawn from
the left of their line.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from warplens.advisor.memory import WORTH as _WORTH
from warplens.core.errors import FileError
from warplens.core.files import read_text
from warplens.core.units import number
from warplens.report.page.content import Content, Row, Touches
from warplens.report.page.markup import Markup, joined, tag, text, value
from warplens.report.page.svg import described
from warplens.report.simulation import in_words
from warplens.workload import Workload

_MOST_ROWS = 1200  # instructions shown; of a longer kernel those where time goes
_AROUND = 12  # lines shown around those that became instructions, in a long file
_LONG_FILE = 800
_LONG_LINE = 240
_MOST = 12  # patterns drawn
_CELL, _GAP, _PER_ROW = 9, 4, 8  # pixels of a sector, between lines; lines in a row
_STRIPS = 32  # wavefronts drawn
_SPREAD = 1.5  # lines over the fewest from which full sectors lie too far apart (advisor/memory.py)


class LineSum(Struct):
    """Sums over the instructions of one source line."""

    share: float = 0.0
    runs: float = 0.0
    sectors: float = 0.0
    requests: float = 0.0
    wavefronts: float = 0.0
    needed: float = 0.0

    def add(self, row: Row) -> None:
        """Add an instruction."""
        self.share += row.share
        self.runs = max(self.runs, row.runs_per_warp)
        t = row.touches
        if t is not None and t.space == "global":
            self.requests += t.requests_per_warp
            self.sectors += t.requests_per_warp * t.sectors
        elif t is not None:
            self.wavefronts += t.requests_per_warp * t.wavefronts
            self.needed += t.requests_per_warp * t.least_wavefronts

    @property
    def numbers(self) -> tuple[float, float, float | None, float | None]:
        """Share of the time, runs per warp, sectors per request, wavefronts over those needed."""
        sectors = self.sectors / self.requests if self.requests else None
        return self.share, self.runs, sectors, self.wavefronts / self.needed if self.needed else None


def code(content: Content) -> Markup:
    """Return the section with the annotated code."""
    if not content.instructions:
        return tag("p", "The workload has no machine code: count it with warplens analyze.", class_="dim")
    name = content.workload.source
    lines = read_source(content.workload)
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


def read_source(workload: Workload) -> list[str]:
    """Return the lines of the source that a workload was counted from, CUDA or Triton; none where it is not there."""
    path = Path(workload.source)
    if path.suffix in (".cu", ".cuh", ".py") and path.is_file():
        with contextlib.suppress(FileError):
            return read_text(path, "replace").splitlines()
    return []


def _source(content: Content, source: list[str]) -> Markup:
    sums: dict[int, LineSum] = {}
    for row in content.instructions:
        if row.line is not None:
            sums.setdefault(row.line, LineSum()).add(row)
    top = max((s.share for s in sums.values()), default=0.0) or 1.0
    remedies, shown = _remedies(content)[0], list(range(1, len(source) + 1))
    if len(source) > _LONG_FILE:
        near = {n for line in sums for n in range(line - _AROUND, line + _AROUND + 1)}
        shown = sorted(near.intersection(shown))
    rows, before = list[Markup](), 0
    for line in shown:
        if line != before + 1:
            rows.append(_gap(6, f"{line - before - 1} lines"))
        before = line
        s = sums.get(line)
        written = source[line - 1].expandtabs(4)
        written = written if len(written) <= _LONG_LINE else written[:_LONG_LINE] + " …"
        cells = [
            tag("td", line, class_="n dim"),
            *_numbers(None if s is None else s.numbers),
            tag("td", tag("code", written), _badges(remedies.get(line, ())), class_="text"),
        ]
        why = None if s is None else f"line {line}: {s.share:.1%} of all warp-cycles; {_touched(s)}"
        rows.append(_row(cells, f"L{line}", line if s else None, s.share / top if s else 0.0, why, not rows))
    left = sum(s.share for line, s in sums.items() if line > len(source))
    if left >= 0.001:
        rows.append(_gap(6, f"{left:.1%} of the time is in lines of other files"))
    return _listing("source", ("line", "time", "runs", "sectors", "conflicts", "source"), rows, "source")


def _touched(s: LineSum) -> str:
    parts = [f"{number(s.runs, 3)} runs per warp"]
    if s.requests:
        parts.append(f"{number(s.sectors / s.requests, 3)} sectors per request")
    if s.needed:
        parts.append(f"{number(s.wavefronts / s.needed, 3)} times the passes that its bytes need")
    return ", ".join(parts)


def _machine_code(content: Content) -> Markup:
    remedies, code = _remedies(content)[1], content.instructions
    top = max((r.share for r in code), default=0.0) or 1.0
    kept = sorted(range(len(code)), key=lambda i: (-code[i].share, -code[i].runs_per_warp))[:_MOST_ROWS]
    rows, before = list[Markup](), -1
    for i in sorted(kept):
        if i != before + 1:
            rows.append(_gap(7, f"{i - before - 1} instructions where little time goes"))
        before = i
        r, t = code[i], code[i].touches
        sectors = t.sectors if t and t.space == "global" else None
        conflicts = t.conflict_degree if t and t.space == "shared" else None
        cells = [
            tag("td", f"{r.offset:04x}", class_="n dim"),
            *_numbers((r.share, r.runs_per_warp, sectors, conflicts)),
            tag("td", tag("code", r.text), _badges(remedies.get(i, ())), class_="text"),
            tag("td", "" if r.line is None else r.line, class_="n dim"),
        ]
        rows.append(_row(cells, f"I{i}", r.line, r.share / top, _why(r), not rows))
    if before != len(code) - 1:
        rows.append(_gap(7, f"{len(code) - 1 - before} instructions where little time goes"))
    head = ("offset", "time", "runs", "sectors", "conflicts", "instruction", "line")
    return _listing("machine code", head, rows, "sass")


def _why(r: Row) -> str:
    """Say all that is known of an instruction."""
    parts = [f"{r.share:.2%} of all warp-cycles; runs {number(r.runs_per_warp, 3)} times per warp"]
    for reason, share in sorted(r.stalls.items(), key=lambda item: -item[1])[:4]:
        if share >= 0.0005:
            parts.append(f"{share:.2%} {in_words(reason)}")
    t = r.touches
    if t is not None:
        parts.append(f"{number(t.threads, 3)} threads of a warp, {number(t.bytes_per_thread, 3)} bytes each")
        if t.space == "global":
            parts.append(f"{number(t.sectors, 3)} sectors in {number(t.lines, 3)} lines per request")
            parts.append(f"L1 hits {t.l1_hits:.0%}, L2 hits {t.l2_hits:.0%} of what passes L1")
        else:
            parts.append(f"{number(t.wavefronts, 3)} passes per request, {number(t.least_wavefronts, 3)} needed")
    return "\n".join(parts)


_HEADS = {
    "time": "share of all warp-cycles of the simulation (docs/explain/simulator.md)",
    "runs": "executions by a mean warp, emulated (docs/explain/emulator.md); of a line: its commonest one",
    "sectors": "32-byte sectors per request of global or local memory, counted by the emulator",
    "conflicts": "passes through shared memory over those that its bytes need, counted by the emulator",
}


def _listing(label: str, head: Sequence[str], rows: Sequence[Markup], kind: str) -> Markup:
    cells = [tag("th", value(n, _HEADS[n]) if n in _HEADS else n, scope="col", class_="n" if n in _HEADS else None)
             for n in head]  # fmt: skip
    named = tag("caption", label, class_="unseen")
    body = tag("table", named, tag("thead", tag("tr", *cells)), tag("tbody", *rows), class_=f"listing {kind}")
    return tag("div", body, class_="pane", role="region", aria_label=label, tabindex="0")


def _numbers(given: tuple[float, float, float | None, float | None] | None) -> list[Markup]:
    """Return the cells of time, runs, sectors and conflicts; nothing where there is nothing to say."""
    if given is None:
        return [tag("td", class_="n")] * 4
    share, runs, sectors, conflicts = given
    shown = [
        f"{share:.1%}" if share >= 0.0005 else "",
        number(runs, 3),
        "" if sectors is None else number(sectors, 3),
        "" if conflicts is None else f"{number(conflicts, 3)}×",
    ]
    classes = ["n time", "n", "n", "n bad" if conflicts is not None and conflicts > 1.05 else "n"]
    return [tag("td", s, class_=c) for s, c in zip(shown, classes, strict=True)]


def _remedies(content: Content) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Return for source lines and for instructions which remedies (from 1 on) concern them."""
    lines, instructions = dict[int, list[int]](), dict[int, list[int]]()
    for i, a in enumerate(content.advised.helpful if content.advised else (), 1):
        for line in (p.line for p in a.where if p.line is not None):
            lines.setdefault(line, []).append(i)
        for n in {n for p in a.where for n in p.instructions}:
            instructions.setdefault(n, []).append(i)
    return lines, instructions


def _badges(remedies: Iterable[int]) -> Markup:
    return joined(tag("a", i, class_="badge", href=f"#remedy-{i}", aria_label=f"remedy {i}") for i in remedies)


def _row(cells: Sequence[Markup], name: str, line: int | None, heat: float, why: str | None, first: bool) -> Markup:
    style = f"--h:{100 * heat:.0f}%" if heat >= 0.005 else None
    return tag("tr", *cells, id_=name, data_line=None if line is None else str(line), style=style, title=why,
               tabindex="0" if first else "-1")  # fmt: skip


def _gap(columns: int, what: str) -> Markup:
    return tag("tr", tag("td", text(f"… {what}"), colspan=str(columns), class_="gap"))


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
    if t.space == "shared":
        image, (verdict, good) = _draw_shared(t), judge_shared(t)
    else:
        image, (verdict, good) = _draw_global(t), judge_global(t)
    return tag("div", head, image, tag("p", verdict, class_="good" if good else "bad"), class_="card")


def judge_global(t: Touches) -> tuple[str, bool]:
    """Say whether a request touches more sectors than its bytes fill, or more lines, as the remedies see it."""
    useful = min(1.0, t.useful_share)
    shared = " (threads share sectors)" if t.useful_share > 1.01 else ""
    verdict = f"{number(t.sectors, 3)} sectors, {useful:.0%} of their bytes asked for{shared}"
    if t.sectors > _WORTH * max(1.0, t.useful_share * t.sectors):
        return verdict, False
    fewest = max(1.0, t.sectors * useful / 4)
    if t.lines > _SPREAD * fewest:
        return f"{verdict}, in {number(t.lines, 3)} lines where {number(fewest, 3)} would do", False
    return verdict, True


def _draw_global(t: Touches) -> Markup:
    """Draw lines of four sectors; the filled part of a touched one is what threads asked for."""
    lines = max(1, min(32, math.ceil(t.lines - 0.01)))
    per_line = max(1, min(4, round(t.sectors / max(t.lines, 1e-9)))) if t.sectors else 0
    high = _CELL + 2
    tall = high * min(1.0, t.useful_share)
    cells = []
    for k in range(lines):
        x, y = (k % _PER_ROW) * (4 * _CELL + _GAP), (k // _PER_ROW) * (_CELL + _GAP + 3)
        for s in range(4):
            kind, box = "moved" if s < per_line else "empty", {"x": x + s * _CELL, "width": _CELL - 1}
            cells.append(tag("rect", **box, y=y, height=high, class_=kind))
            if s < per_line:
                cells.append(tag("rect", **box, y=y + high - tall, height=tall, class_="useful"))
    why = (
        f"{number(t.threads, 3)} threads ask for {number(t.bytes_per_thread, 3)} bytes each: {number(t.sectors, 3)} "
        f"sectors in {number(t.lines, 3)} lines per request. L1 hits {t.l1_hits:.0%}, L2 hits {t.l2_hits:.0%} of "
        "what passes L1."
    )
    across, down = min(lines, _PER_ROW) * (4 * _CELL + _GAP), math.ceil(lines / _PER_ROW) * (_CELL + _GAP + 3)
    return _pattern(across, down, why, cells)


def judge_shared(t: Touches) -> tuple[str, bool]:
    """Say whether a request takes more wavefronts than it needs."""
    if t.conflict_degree <= 1.05:
        return "no bank conflicts", True
    return f"{number(t.wavefronts, 3)} passes where {number(t.least_wavefronts, 3)} would do", False


def _draw_shared(t: Touches) -> Markup:
    """Draw each wavefront as a strip of 32 banks: those that the bytes need, then those that conflicts add."""
    strips, needed = min(_STRIPS, max(1, round(t.wavefronts))), round(t.least_wavefronts)
    cells = [
        tag("rect", x=0, y=k * 6, width=32 * 7, height=4, class_="useful-shared" if k < needed else "conflict")
        for k in range(strips)
    ]
    banks = "".join(f"M{7 * b - 0.5:g} 0V{strips * 6 - 2}" for b in range(1, 32))
    why = (
        f"{number(t.threads, 3)} threads, {number(t.bytes_per_thread, 3)} bytes each: {number(t.wavefronts, 3)} passes "
        f"through the 32 banks per request, {number(t.least_wavefronts, 3)} needed without conflicts. "
        "Which banks collide is not recorded."
    )
    return _pattern(32 * 7, strips * 6, why, [*cells, tag("path", d=banks, class_="banks")])


def _pattern(width: float, height: float, why: str, cells: Sequence[Markup]) -> Markup:
    return tag("svg", described(why, *cells), viewBox=f"0 0 {width:g} {height:g}", width=width, height=height,
               class_="pattern", role="group", aria_label=why)  # fmt: skip
