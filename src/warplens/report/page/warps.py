"""The simulated warp timeline: a row per warp of a scheduler, coloured by what it waits for, dark where it issues."""

from __future__ import annotations

from warplens.report.page.axes import picture, ticks, told
from warplens.report.page.colours import colour, in_words, key
from warplens.report.page.content import Content
from warplens.report.page.markup import Markup, joined, more, table, tag
from warplens.simulator.views import Slice, Timeline

_ROW, _LEFT, _TOP, _RIGHT = 15, 34, 8, 16
_MOST = 16


def warps(content: Content) -> Markup:
    """Return the section on the timeline."""
    t = content.timeline
    if t is None or not t.warps:
        return tag("p", content.missing.get("timeline", content.missing.get("simulation", "unknown")), class_="dim")
    shown = list(t.warps)[:_MOST]
    said = (
        f"The first {t.cycles:,} cycles of {len(shown)} warps, those of one of the {t.schedulers} schedulers, of "
        f"{t.warps_on_sm} on the SM. The upper edge of a row is dark where the warp issues."
    )
    found = {what for w in shown for what in t.shares(w)} - {"selected"}
    made = picture(said, lambda width: _draw(t, shown, width))
    entries = {what: f"{in_words(what)} (docs/explain/simulator.md)" for what in sorted(found)}
    words = {what: in_words(what) for what in entries}
    columns = sorted(found)
    rows = [[str(w), *(f"{t.shares(w).get(c, 0.0):.0%}" for c in ("selected", *columns))] for w in shown]
    numbers = table(["warp", "issuing", *columns], rows, range(len(columns) + 2), caption="shares by warp")
    figure = tag("figure", made, key(entries, words), tag("figcaption", said))
    return joined((figure, more("The numbers", numbers)))


def _draw(t: Timeline, shown: list[int], width: float) -> tuple[float, Markup]:
    across = width - _LEFT - _RIGHT
    bins = int(across // 2)  # two pixels each
    per_pixel = across / t.cycles
    parts, bottom = list[Markup](), _TOP + _ROW * len(shown)
    for cycle in ticks(0, t.cycles, 8 if width > 400 else 4):
        x = _LEFT + cycle * per_pixel
        parts.append(tag("path", class_="grid", d=f"M{x:.1f} {_TOP}V{bottom}"))
        parts.append(tag("text", f"{cycle:,.0f}", class_="tick", x=x, y=bottom + 16, text_anchor="middle"))
    for k, warp in enumerate(shown):
        y = _TOP + _ROW * k
        ordered = sorted(t.shares(warp).items(), key=lambda item: -item[1])
        why = f"warp {warp}: " + ", ".join(f"{what} {share:.0%}" for what, share in ordered)
        label = tag("text", warp, class_="tick", x=_LEFT - 6, y=y + 11, text_anchor="end")
        hit = tag("rect", x=_LEFT, y=y, width=across, height=_ROW, class_="reach")
        parts.append(told(why, hit, label, *_strips(t.warps[warp], t.cycles, bins, y, across), class_="warp"))
    parts.append(tag("text", "warp", class_="axis", x=0, y=bottom + 32))
    parts.append(tag("text", "cycles", class_="axis", x=width - _RIGHT, y=bottom + 32, text_anchor="end"))
    return bottom + 38.0, joined(parts)


def _strips(slices: list[Slice], cycles: int, bins: int, y: float, across: float) -> list[Markup]:
    """Return a path per colour: each bin has that of what took most of it; and a path of ticks where it issued."""
    spent: list[dict[str, float]] = [{} for _ in range(bins)]
    size = cycles / bins
    for s in slices:
        first, last = int(s.first_cycle / size), min(bins - 1, int((s.end_cycle - 1e-9) / size))
        for b in range(first, last + 1):
            part = min(s.end_cycle, (b + 1) * size) - max(s.first_cycle, b * size)
            spent[b][s.what] = spent[b].get(s.what, 0.0) + part
    waits = [max((w for w in bin_ if w != "selected"), key=lambda w: bin_[w], default="") for bin_ in spent]
    paths: dict[str, str] = {}
    wide, start = across / bins, 0
    for b in range(1, bins + 1):
        if b == bins or waits[b] != waits[start]:
            if waits[start]:
                x, w = _LEFT + start * wide, (b - start) * wide
                paths[waits[start]] = paths.get(waits[start], "") + f"M{x:.1f} {y + 4:g}h{w:.1f}v9h-{w:.1f}z"
            start = b
    issued = "".join(
        f"M{_LEFT + b * wide:.1f} {y + 1:g}h{wide:.1f}v3h-{wide:.1f}z" for b in range(bins) if "selected" in spent[b]
    )
    made = [tag("path", d=d, class_=f"strip {colour(what)}") for what, d in paths.items()]
    return [*made, tag("path", d=issued, class_="issued")] if issued else made
