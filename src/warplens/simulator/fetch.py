"""The instruction caches of an SM, for code that outgrows them: lines of eight instructions, first in, first out.

With a line the next one is asked for too, so that a lone warp has its lines at the rate of the level's latency. What is
behind the first cache serves all SMs: it takes its time for each line, of whichever warp (fetch.json.gz).
"""

from __future__ import annotations

from typing import Any

from warplens.simulator.compiled import called


@called
def fetch(line: int, now: float, setup: Any, sm: Any, lines: Any) -> float:
    """Return when a warp that comes to a line finds its instructions; it and the next are asked for, unless there."""
    begin = now
    for number in range(line, line + 2):
        if number < setup.lines:
            row = lines[number]
            if sm.fetched - row.number >= setup.first_lines:
                wait = setup.second_wait
                if sm.deep - row.deep >= setup.second_lines:
                    wait = setup.memory_wait
                    sm.deep += 1
                    row.deep = sm.deep
                sm.fetch_free = max(sm.fetch_free, now) + setup.fetch_interval
                sm.fetched += 1
                row.number = sm.fetched
                row.there = max(sm.fetch_free, begin + wait)
            begin = row.there
    there: float = lines[line].there
    return there


@called
def far_wait(line: int, back: bool, s: int, now: float, setup: Any, scheduler: Any, lines: Any) -> float:
    """Return how long a warp that jumps back to a line waits until that is in its scheduler's own cache.

    The scheduler then has it, and the two next ones, which come in time, as what lies ahead does.
    """
    first = setup.lines * (s + 1)
    if back and scheduler.filled - lines[first + line].number >= setup.near_lines:
        lines[first + line].there = now + setup.near_wait
    for number in range(line, min(line + 3, setup.lines)):
        row = lines[first + number]
        if scheduler.filled - row.number >= setup.near_lines:
            scheduler.filled += 1
            row.number = scheduler.filled
    wait: float = max(lines[first + line].there - now, 0.0) if back else 0.0
    return wait
