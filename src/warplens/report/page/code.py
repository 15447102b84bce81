"""Source and machine code side by side: where warps spend their time, what accesses touch, which remedy is meant.

A line of source and its instructions are tied: reach one, and the other lights up. Rows are one stop for the Tab key;
the arrow keys go through them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from warplens.core.errors import FileError
from warplens.core.files import read_text
from warplens.core.units import number
from warplens.report.page.colours import in_words
from warplens.report.page.content import Content
from warplens.report.page.instructions import Row
from warplens.report.page.markup import Markup, joined, tag, text, value
from warplens.report.page.remedies import remedy_of_instruction, remedy_of_line
from warplens.workload import Workload

_MOST_ROWS = 1200  # instructions shown; of a longer kernel those where time goes
_AROUND = 12  # lines shown around those that became instructions, in a long file
_LONG_FILE = 800
_LONG_LINE = 240


class LineSum(Struct):
    """What the instructions of one source line do together."""

    share: float = 0.0
    runs: float = 0.0
    sectors: float = 0.0
    requests: float = 0.0
    passes: float = 0.0
    needed: float = 0.0
    first: int = -1

    @property
    def numbers(self) -> tuple[float, float, float | None, float | None]:
        """Share of the time, runs per warp, sectors per request, passes over those needed."""
        sectors = self.sectors / self.requests if self.requests else None
        return self.share, self.runs, sectors, self.passes / self.needed if self.needed else None


def code(content: Content) -> Markup:
    """Return the section with the annotated code."""
    if not content.instructions:
        return tag("p", "The workload has no machine code: count it with warplens analyze.", class_="dim")
    source = read_source(content.workload)
    sums = by_line(content.instructions)
    tops = max((s.share for s in sums.values()), default=0.0) or 1.0
    panes = []
    if source:
        panes.append(tag("div", tag("h3", Path(content.workload.source).name), _source(content, source, sums, tops)))
    else:
        why = "is not a source that can be read" if content.workload.source else "is not known"
        panes.append(tag("p", f"The source {content.workload.source} {why}: machine code only.", class_="dim"))
    panes.append(tag("div", tag("h3", "Machine code"), _machine_code(content)))
    said = (
        "Colour is the share of all warp-cycles that warps spend in front of an instruction. Use the arrow keys inside "
        "a listing; a line and its instructions light up together."
    )
    return joined((tag("p", said, class_="dim"), tag("div", *panes, class_="code" if source else "code alone")))


def read_source(workload: Workload) -> list[str]:
    """Return the lines of the source that a workload was counted from, CUDA or Triton; none where it is not there."""
    path = Path(workload.source)
    if path.suffix not in (".cu", ".cuh", ".py") or not path.is_file():
        return []
    with contextlib.suppress(FileError):
        return read_text(path, "replace").splitlines()
    return []


def by_line(rows: Iterable[Row]) -> dict[int, LineSum]:
    """Sum instructions by their source line."""
    found: dict[int, LineSum] = {}
    for row in rows:
        if row.line is None:
            continue
        s = found.setdefault(row.line, LineSum(first=row.number))
        s.share += row.share
        s.runs = max(s.runs, row.runs_per_warp)
        t = row.touches
        if t is not None:
            s.requests += t.requests_per_warp if t.space == "global" else 0.0
            s.sectors += t.requests_per_warp * t.sectors if t.space == "global" else 0.0
            s.passes += t.requests_per_warp * t.wavefronts if t.space == "shared" else 0.0
            s.needed += t.requests_per_warp * t.least_wavefronts if t.space == "shared" else 0.0
    return found


_HEADS = {
    "time": "share of all warp-cycles of the simulation (docs/explain/simulator.md)",
    "runs": "executions by a mean warp, emulated (docs/explain/emulator.md); of a line: its commonest one",
    "sectors": "32-byte sectors per request of global or local memory, counted by the emulator",
    "conflicts": "passes through shared memory over those that its bytes need, counted by the emulator",
}


def _head(*names: str) -> Markup:
    cells = [tag("th", value(n, _HEADS[n]) if n in _HEADS else n, scope="col", class_="n" if n in _HEADS else None)
             for n in names]  # fmt: skip
    return tag("thead", tag("tr", *cells))


def _listing(label: str, head: Markup, rows: Sequence[Markup], kind: str) -> Markup:
    made = tag("table", tag("caption", label, class_="unseen"), head, tag("tbody", *rows), class_=f"listing {kind}")
    return tag("div", made, class_="pane", role="region", aria_label=label, tabindex="0")


def _source(content: Content, source: list[str], sums: Mapping[int, LineSum], top: float) -> Markup:
    remedies, rows = remedy_of_line(content), list[Markup]()
    shown = _shown_lines(len(source), sums)
    before = 0
    for line in shown:
        if line != before + 1:
            rows.append(_gap(6, f"{line - before - 1} lines"))
        before = line
        s = sums.get(line)
        written = source[line - 1].expandtabs(4)
        written = written if len(written) <= _LONG_LINE else written[:_LONG_LINE] + " …"
        why = None if s is None else f"line {line}: {s.share:.1%} of all warp-cycles; {_touched(s)}"
        cells = [
            tag("td", line, class_="n dim"),
            *_numbers(None if s is None else s.numbers),
            tag("td", tag("code", written), _badges(remedies.get(line, ())), class_="text"),
        ]
        rows.append(_row(cells, f"L{line}", line if s else None, s.share / top if s else 0.0, why, not rows))
    left = sum(s.share for line, s in sums.items() if line > len(source))
    if left >= 0.001:
        rows.append(_gap(6, f"{left:.1%} of the time is in lines of other files"))
    return _listing("source", _head("line", "time", "runs", "sectors", "conflicts", "source"), rows, "source")


def _touched(s: LineSum) -> str:
    parts = [f"{number(s.runs, 3)} runs per warp"]
    if s.requests:
        parts.append(f"{number(s.sectors / s.requests, 3)} sectors per request")
    if s.needed:
        parts.append(f"{number(s.passes / s.needed, 3)} times the passes that its bytes need")
    return ", ".join(parts)


def _shown_lines(count: int, sums: Mapping[int, LineSum]) -> list[int]:
    if count <= _LONG_FILE:
        return list(range(1, count + 1))
    near = {n for line in sums for n in range(line - _AROUND, line + _AROUND + 1)}
    return sorted(n for n in near if 1 <= n <= count)


def _machine_code(content: Content) -> Markup:
    remedies, rows = remedy_of_instruction(content), content.instructions
    top = max((r.share for r in rows), default=0.0) or 1.0
    kept = set(sorted(range(len(rows)), key=lambda i: (-rows[i].share, -rows[i].runs_per_warp))[:_MOST_ROWS])
    made, before = list[Markup](), -1
    for i in sorted(kept):
        r = rows[i]
        if i != before + 1:
            made.append(_gap(7, f"{i - before - 1} instructions where little time goes"))
        before = i
        t = r.touches
        cells = [
            tag("td", f"{r.offset:04x}", class_="n dim"),
            *_numbers((r.share, r.runs_per_warp, t.sectors if t and t.space == "global" else None,
                       t.conflict_degree if t and t.space == "shared" else None)),
            tag("td", tag("code", r.text), _badges(remedies.get(i, ())), class_="text"),
            tag("td", "" if r.line is None else r.line, class_="n dim"),
        ]  # fmt: skip
        made.append(_row(cells, f"I{i}", r.line, r.share / top, _why(r), not made))
    if before != len(rows) - 1:
        made.append(_gap(7, f"{len(rows) - 1 - before} instructions where little time goes"))
    head = _head("offset", "time", "runs", "sectors", "conflicts", "instruction", "line")
    return _listing("machine code", head, made, "sass")


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


def _badges(remedies: Iterable[int]) -> Markup:
    return joined(tag("a", i, class_="badge", href=f"#remedy-{i}", aria_label=f"remedy {i}") for i in remedies)


def _row(cells: Sequence[Markup], name: str, line: int | None, heat: float, why: str | None, first: bool) -> Markup:
    style = f"--h:{100 * heat:.0f}%" if heat >= 0.005 else None
    return tag("tr", *cells, id_=name, data_line=None if line is None else str(line), style=style, title=why,
               tabindex="0" if first else "-1")  # fmt: skip


def _gap(columns: int, what: str) -> Markup:
    return tag("tr", tag("td", text(f"… {what}"), colspan=str(columns), class_="gap"))
