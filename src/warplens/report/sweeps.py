"""Results of a sweep and of a search for the best configuration, for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import RenderableType

from warplens.core.units import printable, seconds
from warplens.report import terminal
from warplens.tuner.expression import Value
from warplens.tuner.run import Outcome
from warplens.tuner.timing import Candidate, Measured
from warplens.tuner.tune import Tuned

_LONGEST_REASON = 200  # characters
_MOST_AS_FAST = 6  # configurations
_MOST_BEST = 60  # lines: the rest is in the files


def outcome(found: Outcome) -> list[RenderableType]:
    """Return the answer of `warplens sweep`."""
    heads = ["kernel", "GPU", "fastest", "time", "limited by", "of", "slowest"]
    rows = [
        [
            printable(b.kernel), b.gpu, _values(b.values), seconds(b.seconds), b.bound, f"{b.points:,}",
            f"{b.slowest_seconds / b.seconds:.1f} x",
        ]
        for b in found.best[:_MOST_BEST]
    ]  # fmt: skip
    more = len(found.best) - len(rows)
    best: list[RenderableType] = []
    if rows:
        best = [f"the fastest configurations by {found.best[0].model}", terminal.table(heads, rows, {3, 5, 6})]
        best += [f"  and {more:,} more in the results"] if more else []
    earlier = f", {found.earlier:,} of them by an earlier run" if found.earlier else ""
    failed = f"; {found.failed:,} failed" if found.failed else ""
    why = sorted(found.reasons.items(), key=lambda item: -item[1])
    said = [f"  {count:,} times: {_short(reason)}" for reason, count in why[:3]]
    said += ["  and for other reasons, which their rows say"] if len(why) > 3 else []
    files = [f"  {printable(str(file))}" for file in found.files]
    notes = [f"note: {printable(note)}" for note in found.notes]
    return [*best, f"{found.points:,} points{earlier}{failed}", *said, *files, *notes]


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
    parts.append(terminal.table(heads, rows, {1, 2} if measured else {1}))
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
    return printable(
        " ".join(f"{name}={v:.6g}" if isinstance(v, float) else f"{name}={v}" for name, v in values.items())
    )


def _written(c: Candidate) -> str:
    values = _values(c.values)
    grid, block = (" x ".join(str(n) for n in shape) for shape in (c.grid, c.block))
    return f"{values}  (grid {grid}, block {block})"
