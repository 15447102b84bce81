"""Pictures of where the time goes: stacked bars of the kernel's time and of a warp's, and a timeline of warps.

Parts of the time and stall reasons have one colour where they are the same thing.
"""

from __future__ import annotations

from collections.abc import Mapping

from warplens.core.units import number
from warplens.report.page.content import Content
from warplens.report.page.markup import Markup, joined, more, seconds, table, tag, value
from warplens.report.page.svg import described, picture, ticks
from warplens.report.simulation import in_words
from warplens.simulator.views import READY, Slice, Timeline

_SHOWN = 0.005  # shares below this have no bar
_ROW, _LEFT, _TOP, _RIGHT = 15, 34, 8, 16  # pixels of the timeline
_MOST = 16  # warps
_COLOURS = {
    "launch": "grey", "issue": "green", "dependency": "purple", "shared memory": "orange", "l1": "teal", "l2": "cyan",
    "dram": "blue", "barriers": "red", "tail": "pink",
    "selected": "green", "not_selected": "lime", "math": "pink", "dispatch": "grey", "wait": "purple",
    "branch_resolving": "violet", "short_sb": "amber", "mio": "orange", "long_sb": "blue", "lg": "cyan",
    "barrier": "red", READY: "lime", "drain": "teal", "no_inst": "grey",
}  # fmt: skip
_PARTS = {
    "launch": "an empty kernel, a cold start, handing out the first blocks",
    "issue": "warps issue, or wait for their turn or a busy pipe",
    "dependency": "fixed latencies and branches",
    "shared memory": "results of and queues to shared memory and SFUs",
    "l1": "waits for memory, by where sectors are found: L1", "l2": "waits for memory, by where sectors are found: L2",
    "dram": "waits for memory, by where sectors are found: DRAM", "barriers": "waits at barriers",
    "tail": "blocks that differ: the last ones run alone",
}  # fmt: skip


def _stack(shares: Mapping[str, float], whys: Mapping[str, str], label: str, names: Mapping[str, str]) -> Markup:
    """Return one bar of shares with its key; a share has its name and its origin."""
    shown = {n: s for n, s in sorted(shares.items(), key=lambda item: -item[1]) if s >= _SHOWN}
    cells = [
        tag("span", f"{s:.0%}" if s >= 0.06 else "", class_=f"cell {_colour(n)}", style=f"flex-grow:{s:.4f}",
            title=f"{names[n]}: {s:.1%}. {whys[n]}")
        for n, s in shown.items()
    ]  # fmt: skip
    alternative = f"{label}: " + ", ".join(f"{n} {s:.0%}" for n, s in shown.items())
    entries = {n: (f"{names[n]} {s:.0%}" if s >= 0.01 else f"{names[n]} {s:.1%}", f"{s:.1%}. {whys[n]}")
               for n, s in shown.items()}  # fmt: skip
    return joined((tag("div", *cells, class_="stack", role="img", aria_label=alternative), _key(entries)))


def _key(entries: Mapping[str, tuple[str, str]]) -> Markup:
    """Return what colours mean: of each name a text, and its origin."""
    items = [tag("li", tag("i", class_=f"swatch {_colour(n)}"), value(*shown)) for n, shown in entries.items()]
    return tag("ul", *items, class_="key")


def _colour(name: str) -> str:
    return f"c-{_COLOURS.get(name, 'grey')}"


def time_stack(content: Content) -> Markup:
    """Return what the predicted time is made of, and what a warp's time is made of."""
    p = content.prediction
    own = p if p.parts else content.comparison.predictions.get("warplens", p)
    if not own.parts:
        return tag("p", "No model that says what the time is made of speaks about this kernel.", class_="dim")
    total = float(own.cycles or 1.0)
    parts = {name: float(c) / total for name, c in own.parts.items()}
    whys = {
        name: f"{seconds(float(c) / total * float(own.seconds or 0), 3)}: {_PARTS.get(name, name)}; by {own.model}"
        " (docs/explain/how-a-prediction-is-made.md)"
        for name, c in own.parts.items()
    }  # fmt: skip
    names = {name: name for name in parts}
    shown = [tag("h3", "The kernel's time"), _stack(parts, whys, "what the time is made of", names)]
    run = own.simulation
    if run is not None:
        whys = {
            r: f"Nsight's stall_{r}: share of warp-cycles, simulated (docs/explain/simulator.md)" for r in run.stalls
        }
        names = {r: in_words(r) for r in run.stalls}
        shown += [tag("h3", "A warp's time: what it waits for"), _stack(run.stalls, whys, "what warps wait for", names)]
        error = run.error_cycles / run.cycles if run.cycles else 0.0
        ran = f"Simulated: {run.simulated_instructions:,} instructions of one SM, {number(run.ipc, 3)} per cycle."
        far = f" Sampling error of its cycles: ± {error:.1%} (blocks left out, and chance)." if error >= 5e-4 else ""
        shown.append(tag("p", ran + far, class_="dim"))
    return joined(shown)


def warps(content: Content) -> Markup:
    """Return the timeline: a row per warp of a scheduler, coloured by what it waits for, dark where it issues."""
    t = content.timeline
    if t is None or not t.warps:
        return tag("p", content.missing.get("timeline", content.missing.get("simulation", "unknown")), class_="dim")
    shown = list(t.warps)[:_MOST]
    said = (
        f"The first {t.cycles:,} cycles of {len(shown)} warps, those of one of the {t.schedulers} schedulers, of "
        f"{t.warps_on_sm} on the SM. The upper edge of a row is dark where the warp issues."
    )
    reasons = sorted({reason for w in shown for reason in t.shares(w)} - {"selected"})
    key = _key({reason: (in_words(reason), f"{in_words(reason)} (docs/explain/simulator.md)") for reason in reasons})
    rows = [[str(w), *(f"{t.shares(w).get(c, 0.0):.0%}" for c in ("selected", *reasons))] for w in shown]
    numbers = table(["warp", "issuing", *reasons], rows, range(len(reasons) + 2), caption="shares by warp")
    timeline = picture(said, lambda width: _draw(t, shown, width))
    return joined((tag("figure", timeline, key, tag("figcaption", said)), more("The numbers", numbers)))


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
        parts.append(described(why, hit, label, *_strips(t.warps[warp], t.cycles, bins, y, across), class_="warp"))
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
    strips = [tag("path", d=d, class_=f"strip {_colour(what)}") for what, d in paths.items()]
    return [*strips, tag("path", d=issued, class_="issued")] if issued else strips
