"""The instruction cache of an SM, for code that outgrows it: lines of eight instructions, the first to come goes first.

What the second level holds comes at its rate, all else at the memory's. With a line the next one is asked for too.
"""

from __future__ import annotations

from typing import Any

from warplens.simulate import layout as at
from warplens.simulate.compiled import called


@called
def fetch(line: int, now: float, setup: Any, sm: Any, lines: Any) -> float:
    """Return when a warp that comes to a line finds its instructions; it and the next are asked for, unless there."""
    for number in range(line, line + 2):
        if number < lines.shape[0]:
            row = lines[number]
            age = sm.fetched - row.number
            if age >= setup.first_lines:
                each = setup.second_interval if age < setup.second_lines else setup.memory_interval
                sm.fetch_free = max(sm.fetch_free, now) + at.LINE_INSTRUCTIONS * each
                sm.fetched += 1
                row.number = sm.fetched
                row.there = sm.fetch_free
    there: float = lines[line].there
    return there
