"""The instruction caches of an SM, for code that outgrows them: lines of eight instructions, first in, first out.

With a line the next one is asked for too, so that a lone warp has its lines at the rate of the level's latency. What is
behind the first cache serves all SMs: it takes its time for each line, of whichever warp (data/h200/fetch.json.gz).
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


# Cycles from the issue of a branch until it asks for its target's line, until it asks again, and from when a line has
# the port until it is there (data/h200/branches.json.gz).
ASKS, AGAIN, COMES = 5.0, 2.0, 6.0


@called
def target_wait(now: float, setup: Any, scheduler: Any) -> float:
    """Return the cycles from a taken branch's issue until its target's line is there, if the port is taken; else 0.

    The warps of a scheduler share one port to their instructions, which each line takes for some cycles: targets first,
    then the two lines that are asked for behind each of them. Who finds it taken asks again.
    """
    asks = now + ASKS
    begin = asks
    if scheduler.lines > asks:
        begin = max(asks + AGAIN, scheduler.targets)
    scheduler.targets = begin + setup.port
    scheduler.lines = max(scheduler.lines, begin) + 3.0 * setup.port
    return begin + COMES - now if begin > asks else 0.0
