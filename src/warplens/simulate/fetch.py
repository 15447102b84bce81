"""The instruction cache of an SM, for code that outgrows it: lines of eight instructions, the first to come goes first.

What the second level holds comes at its rate, all else at the memory's. With a line the next one is asked for too.
"""

from __future__ import annotations

from typing import Any

from warplens.simulate import layout as at
from warplens.simulate.compiled import called, inlined


@inlined
def bring(line: int, now: float, setup: Any, sm: Any, lines: Any) -> None:
    """Ask for a line unless it is there or on its way."""
    row = lines[line]
    age = sm.fetched - row.number
    if age >= setup.first_lines:
        begin = sm.fetch_free if sm.fetch_free > now else now
        each = setup.second_interval if age < setup.second_lines else setup.memory_interval
        sm.fetch_free = begin + at.LINE_INSTRUCTIONS * each
        sm.fetched += 1
        row.number = sm.fetched
        row.there = sm.fetch_free


@called
def fetch(line: int, now: float, setup: Any, sm: Any, lines: Any) -> float:
    """Return when a warp that comes to a line finds its instructions."""
    bring(line, now, setup, sm, lines)
    if line + 1 < lines.shape[0]:
        bring(line + 1, now, setup, sm, lines)
    there: float = lines[line].there
    return there
