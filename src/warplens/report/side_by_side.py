"""Predictions side by side: with a change, of two kernels, on several GPUs, of a space of configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict
from rich.console import RenderableType
from rich.text import Text

from warplens.advisor import Advised
from warplens.advisor.differences import Change, Difference, WhatIf
from warplens.core.units import number, printable, quantity, seconds
from warplens.machine import Machine
from warplens.models import Prediction
from warplens.report.terminal import notes, sure, table, timed

if TYPE_CHECKING:
    from warplens.tuner.expression import Value
    from warplens.tuner.run import Outcome
    from warplens.tuner.timing import Candidate, Measured
    from warplens.tuner.tune import Tuned

_LEAST = 0.005  # of the time: a limit or part below that is left out
_LONGEST_REASON = 200  # characters
_MOST_AS_FAST = 6  # configurations
_MOST_BEST = 60  # lines: the rest is in the files


def what_if(found: WhatIf, machine: Machine, then: Machine) -> list[RenderableType]:
    """Render the prediction before and after, on the machines that they are for."""
    before, after = found.before, found.after
    about = machine.id != then.id and not (machine.base is None and then.base is None)
    changed = ", ".join(f"{key} = {x if isinstance(x, str) else number(x)}" for key, x in found.changes.items())
    title = Text(f"{printable(before.workload)}, if {printable(changed)}: {_times(found.speedup, about)}", "bold")
    speedup, both = f"{found.speedup:.2g}x" if about else f"{found.speedup:.2f}x", (before, after)
    rows = [
        ["time", timed(float(before.seconds or 0), machine), timed(float(after.seconds or 0), then), speedup],
        ["machine", *(p.machine for p in both), ""], ["limited by", *(p.limited_by for p in both), ""],
        ["warps per SM", *(number(float(p.warps_per_sm)) for p in both), ""],
        *([f"{name} alone", *cells] for name, *cells in _limits(before, after)),
    ]  # fmt: skip
    said = _notes([(f"{before.machine}, as it is", before), (f"{after.machine}, then", after)])
    return [title, "", table(["", "as it is", "then", ""], rows, right={1, 2, 3}), *said]


def _notes(found: Sequence[tuple[str, Prediction]]) -> list[RenderableType]:
    """Return what was assumed or is not modelled of all of them, and what of some, which seem faster for it."""
    everywhere = set.intersection(*(set(p.notes) for _, p in found))
    parts: list[RenderableType] = []
    if shared := [x for x in found[0][1].notes if x in everywhere]:
        parts += ["", *notes(shared, before="note: ")]
    if lines := [f"  {printable(name)}: {printable(x)}" for name, p in found for x in p.notes if x not in everywhere]:
        parts += ["", "Not the same for all, so compare with care:", *lines]
    return parts


def _times(speedup: float, about: bool = False) -> str:
    """Say how much faster; `about` where no launch was timed on one of two GPUs."""
    factor = f"about {max(speedup, 1 / speedup):.2g}x" if about else f"{max(speedup, 1 / speedup):.2f}x"
    return f"{factor} {'as fast' if speedup >= 1 else 'slower'}"


def _limits(a: Prediction, b: Prediction) -> list[list[str]]:
    rows = []
    for name in [*a.limits, *(name for name in b.limits if name not in a.limits)]:
        x, y = (_seconds(p, name) for p in (a, b))
        if max(x, y) >= _LEAST * max(float(a.seconds or 0), float(b.seconds or 0)):
            known = [seconds(n) if n else "-" for n in (x, y)]  # none, or the machine file does not say
            rows.append([name, *known, f"{x / y:.2f}x" if x and y else ""])
    return rows


def _seconds(p: Prediction, limit: str) -> float:
    return float(p.limits.get(limit, 0.0)) * float(p.seconds or 0.0) / float(p.cycles or 1.0)


def difference(found: Difference, names: tuple[str, str], machine: Machine) -> list[RenderableType]:
    """Render what changed between two kernels."""
    a, b = found.before, found.after
    first, second = (printable(name) for name in names)
    parts: list[RenderableType] = [
        Text(f"{first} to {second} on {machine.name}: {_times(found.speedup)}", "bold"),
        Text(f"  {seconds(float(a.seconds or 0))} to {seconds(float(b.seconds or 0))}: {found.why}"),
    ]
    groups = {"code": found.code, "what the grid does": found.counts, "alone, each limit would take": found.limits,
              "the time is made of": found.parts}  # fmt: skip
    for title, changes in groups.items():
        most = max((max(c.before, c.after) for c in changes), default=0.0)
        least = 0.0 if changes is found.code else _LEAST * most
        shown = [c for c in changes if max(c.before, c.after) >= least or c.unit == "B"]
        parts += ["", table([title, first, second, "ratio"], [_row(c) for c in shown], right={1, 2, 3})]
    return [*parts, *_notes([(first, a), (second, b)])]


def _row(c: Change) -> list[str]:
    ratio = "" if c.ratio is None else f"{c.ratio:.3g}" if c.ratio != 1 else "="
    before, after = (quantity(x, c.unit, 4) if c.unit else number(x, 4) for x in (c.before, c.after))
    return [c.what, before, after, ratio]


def gpus(
    kernel: str, found: Sequence[tuple[Machine, Prediction, Advised | None]], silent: Mapping[str, str]
) -> list[RenderableType]:
    """Render one kernel on several GPUs, the fastest marked; `silent`: by GPU, why our own model says nothing there."""
    best = min(float(p.seconds or 0.0) for _, p, _ in found)
    rows = []
    for machine, p, advised in found:
        time = float(p.seconds or 0.0)
        sure_of = "" if p.interval_seconds is None else sure(p.interval_seconds, machine)
        first = advised.helpful[0] if advised is not None and advised.helpful else None
        remedy = "" if first is None else f"{first.speedup:.2f}x {first.name.replace('-', ' ')}"
        rows.append([machine.name, timed(time, machine), sure_of, f"{time / best:.2f}x", p.limited_by,
                     number(float(p.warps_per_sm)), p.model, remedy])  # fmt: skip
    said: list[RenderableType] = []
    if len({p.model for _, p, _ in found}) > 1:
        said = ["", "The times are by different models: compare them with care, or choose one with --model."]
        why = {m.name: silent[m.name] for m, _, _ in found if m.name in silent}
        said += [f"  {printable(name)}: {printable(reason)}" for name, reason in why.items()]
    said += _notes([(machine.name, p) for machine, p, _ in found])
    unsure = {p.interval_about: None for _, p, _ in found if p.interval_seconds is None and p.interval_about}
    said += [printable(reason) for reason in unsure]
    headers = ["GPU", "time", "", "of the best", "limited by", "warps per SM", "by", "best remedy"]
    title = Text(f"{printable(kernel)} on {len(found)} GPUs", "bold")
    return [title, "", table(headers, rows, right={1, 3, 5}), *said]


def data(found: WhatIf | Difference) -> dict[str, Any]:
    """Return the same for machines."""
    return {**asdict(found), "speedup": found.speedup}


def outcome(found: Outcome) -> list[RenderableType]:
    """Return the answer of `warplens sweep`."""
    heads = ["kernel", "GPU", "fastest", "time", "limited by", "of", "slowest"]
    rows = [
        [printable(b.kernel), b.gpu, _values(b.values), seconds(b.seconds), b.bound, f"{b.points:,}",
         f"{b.slowest_seconds / b.seconds:.1f} x"]
        for b in found.best[:_MOST_BEST]
    ]  # fmt: skip
    more, best = len(found.best) - len(rows), list[RenderableType]()
    if rows:
        best += [f"the fastest configurations by {found.best[0].model}", table(heads, rows, {3, 5, 6})]
        best += [f"  and {more:,} more in the results"] if more else []
    earlier = f", {found.earlier:,} of them by an earlier run" if found.earlier else ""
    failed = f"; {found.failed:,} failed" if found.failed else ""
    why = sorted(found.reasons.items(), key=lambda item: -item[1])
    said = [f"  {count:,} times: {_short(reason)}" for reason, count in why[:3]]
    said += ["  and for other reasons, which their rows say"] if len(why) > 3 else []
    said += [f"  {printable(str(file))}" for file in found.files]
    said += [f"note: {printable(note)}" for note in found.notes]
    return [*best, f"{found.points:,} points{earlier}{failed}", *said]


def _short(reason: str) -> str:
    """Return as much of a reason as fits two lines: compilers may say more than a page."""
    return printable(reason if len(reason) <= _LONGEST_REASON else reason[:_LONGEST_REASON] + " ...")


def tuned(found: Tuned, measured: Sequence[Measured], top: int) -> list[RenderableType]:
    """Return the answer of `warplens tune`: what to take, then the table, then what it took."""
    best = measured[0].candidate if measured else found.best
    times = {m.candidate.number: m.seconds for m in measured}
    time = f"{seconds(times[best.number])} measured" if times else f"{seconds(best.seconds)} predicted"
    parts: list[RenderableType] = [printable(f"{found.kernel} on {found.machine}: {_written(best)}, {time}")]
    parts += [f"warning: {printable(text)}" for text in found.warnings]
    rows = []
    for c in [m.candidate for m in measured] or found.candidates[:top]:
        predicted = f"{seconds(c.seconds)}{'' if c.emulated else ' (estimated)'}"
        rows.append([_written(c), predicted, *([seconds(times[c.number])] if measured else []), c.bound])
    heads = ["configuration", "predicted", *(["measured"] if measured else []), "limited by"]
    parts.append(table(heads, rows, {1, 2} if measured else {1}))
    if len(same := found.as_fast(times)) > 1:
        few = "; ".join(_values(c.values) for c in same[:_MOST_AS_FAST])
        few += f" and {len(same) - _MOST_AS_FAST} more" if len(same) > _MOST_AS_FAST else ""
        parts.append(f"as fast, within 0.5 %: {few}: keep what you have if it is among them")
    illegal = sum(found.illegal.values())
    parts.append(
        f"{found.configurations} configurations, {illegal} illegal; {found.emulated} emulated "
        f"({100 * found.share:.1f} % of the legal ones), {found.pruned} ruled out by their bound"
    )
    parts += [f"  {count} times: {_short(reason)}" for reason, count in list(found.illegal.items())[:3]]
    return [*parts, *(f"note: {printable(note)}" for note in found.notes)]


def _values(values: Mapping[str, Value]) -> str:
    return printable(" ".join(f"{name}={f'{v:.6g}' if isinstance(v, float) else v}" for name, v in values.items()))


def _written(c: Candidate) -> str:
    grid, block = (" x ".join(str(n) for n in shape) for shape in (c.grid, c.block))
    return f"{_values(c.values)}  (grid {grid}, block {block})"
