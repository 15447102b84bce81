"""Parts of the engine that run now and then: blocks that begin and end, barriers, events, the paper's streams."""

from __future__ import annotations

from math import floor
from typing import Any

from warplens.simulator import layout as at
from warplens.simulator.compiled import called, inlined


@called
def tell(events: Any, sm: Any, time: float, kind: int, warp: int, instruction: int, detail: int) -> None:
    """Keep an event while there is room, and count it."""
    row = sm.told
    sm.told = row + 1
    if row < events.shape[0]:
        events[row, 0] = floor(time)
        events[row, 1] = kind
        events[row, 2] = warp
        events[row, 3] = instruction
        events[row, 4] = detail


@inlined
def draw(sm: Any) -> Any:
    """Return the next random number of [0, 1)."""
    sm.random = (sm.random * 1103515245 + 12345) & 0x7FFFFFFF
    drawn: float = sm.random / 2147483648.0
    return drawn


@inlined
def wake(scheduler: Any, when: float) -> None:
    """Let a scheduler look again at the cycle `when`, or when its issue port is free."""
    scheduler.next = min(scheduler.next, max(when, scheduler.free))


@called
def queue(w: int, s: int, when: float, setup: Any, scheduler: Any, warps: Any, order: Any) -> None:
    """Put a warp that can go at the cycle `when` behind those of its block that can go sooner.

    Of those that can go in the same cycle the youngest is the first.
    """
    warp = warps[w]
    warp.queued = when
    row = 0
    while order[s, row] != w:
        row += 1
    last = row
    first, end = warp.place * setup.warps, (warp.place + 1) * setup.warps
    while last + 1 < scheduler.listed and order[s, last + 1] >= first and order[s, last + 1] < end:
        last += 1
    while last > row:
        other = warps[order[s, last]]
        if other.queued < when or (other.queued == when and order[s, last] > w):
            break
        last -= 1
    while row < last:
        order[s, row] = order[s, row + 1]
        row += 1
    order[s, row] = w


@inlined
def home_of(lane: int, block: int, setup: Any) -> int:
    """Return the scheduler of a warp of an SM's block: one after the other, and blocks of whole rounds begin one later.

    So it is in the places of an H200's warps (data/experiments/block_scheduling/block_slots.json.gz, warp_slots.json).
    """
    later = block if setup.streams == 1 and setup.warps % setup.schedulers == 0 else 0
    home: int = (lane + later) % setup.schedulers
    return home


@called
def list_warp(w: int, s: int, when: float, setup: Any, schedulers: Any, order: Any) -> None:
    """Put a new warp on its scheduler's list, which looks at it from the cycle `when` on."""
    scheduler = schedulers[s]
    row = scheduler.listed
    if setup.direction == at.YOUNGEST:
        while row > 0:
            order[s, row] = order[s, row - 1]
            row -= 1
    order[s, row] = w
    scheduler.listed += 1
    wake(scheduler, when)


@called
def begin_blocks(
    now: float, setup: Any, sm: Any, steps: Any, path_at: Any, segments: Any, runs: Any, warp_paths: Any, warps: Any,
    slots: Any, schedulers: Any, order: Any, places: Any, blocks: Any, events: Any,
) -> None:  # fmt: skip
    """Put the next block on each place that takes one now: all of its warps are ready."""
    per_block = setup.warps
    wide = slots.shape[0] // warps.shape[0] * setup.streams
    sm.next_start = at.FOREVER
    for number in range(places.shape[0]):
        place = places[number]
        if place.start > now:
            sm.next_start = min(sm.next_start, place.start)
            continue
        place.start = at.FOREVER
        place.ended = 0.0
        place.block = sm.begun
        place.live = per_block
        place.arrived = 0
        sm.begun += 1
        if place.block < blocks.shape[0]:
            blocks[place.block, 0] = now
            blocks[place.block, 2] = number
        tell(events, sm, now, at.STARTED, number * per_block, at.NOTHING, place.block)
        for k in range(per_block):
            lane = number * per_block + k
            stream = k % setup.streams
            path = warp_paths[place.block % warp_paths.shape[0], k // setup.streams] * setup.streams + stream
            if path_at[path] == path_at[path + 1]:  # a stream without instructions
                place.live -= 1
                continue
            warp = warps[lane]
            warp.slots = lane // setup.streams * wide
            if stream == 0:
                for slot in range(warp.slots, warp.slots + wide):
                    slots[slot].value = at.FOREVER if setup.streams > 1 else 0.0
            warp.segment = path_at[path]
            warp.end = path_at[path + 1]
            warp.turn = 0
            warp.turns = 0
            warp.run = segments[warp.segment].first
            warp.pc = runs[warp.run].first
            warp.state = at.RUNNING
            warp.place = number
            warp.block = place.block
            warp.second = 0
            warp.stored = 0.0
            warp.since = now + float(floor(setup.stagger * draw(sm)))
            warp.ready = warp.since
            warp.queued = now
            warp.used = 0
            warp.yielded = 1
            warp.seen = 0.0
            warp.full = 0.0
            first = steps[warp.pc]
            if setup.streams > 1 and first.sources_end > first.sources:
                warp.ready = at.FOREVER
            warp.home = home_of(lane, place.block, setup)
            list_warp(lane, warp.home, warp.since, setup, schedulers, order)


@called
def end_warp(
    w: int, s: int, now: float, end: float, setup: Any, sm: Any, warps: Any, schedulers: Any, order: Any, places: Any,
    blocks: Any, events: Any,
) -> None:  # fmt: skip
    """Take a warp off its scheduler; with the last one the block ends and its place takes the next.

    The chip notes the ends of blocks one by one, here as they are known: only then another can come.
    """
    warp, scheduler = warps[w], schedulers[s]
    place = places[warp.place]
    warp.state = at.IDLE
    warp.ready = at.FOREVER
    warp.ended = end
    gone = 0
    for k in range(scheduler.listed):
        if order[s, k] == w:
            gone = 1
        elif gone == 1:
            order[s, k - 1] = order[s, k]
    scheduler.listed -= 1
    if scheduler.last == w:
        scheduler.last = -1
    place.live -= 1
    place.ended = max(place.ended, end)
    if place.live:
        return
    if place.block < blocks.shape[0]:
        blocks[place.block, 1] = place.ended
    sm.ended += 1
    tell(events, sm, place.ended, at.ENDED, warp.place * setup.warps, at.NOTHING, place.block)
    sm.noted = max(now, sm.noted + setup.note_every)
    place.noted = max(place.ended, sm.noted)
    if sm.coming < setup.blocks:
        sm.coming += 1
        place.start = place.noted + setup.replace
        sm.next_start = min(sm.next_start, place.start)


@called
def open_barrier(
    number: int, w: int, leave: float, setup: Any, sm: Any, warps: Any, schedulers: Any, order: Any, stalls: Any,
    events: Any,
) -> None:  # fmt: skip
    """Let all warps of a block leave its barrier."""
    for v in range(number * setup.warps, (number + 1) * setup.warps):
        warp = warps[v]
        if warp.state != at.WAITING:
            continue
        warp.state = at.RUNNING
        if v == w:
            continue
        if leave > warp.since:
            stalls[warp.pc, at.AT_BARRIER] += leave - warp.since
            warp.since = leave
        tell(events, sm, warp.since, at.LEFT, v, warp.pc, at.NOTHING)
        warp.ready = warp.since
        s = warp.home
        if setup.queues:
            queue(v, s, warp.ready, setup, schedulers[s], warps, order)
        wake(schedulers[s], warp.ready)


@called
def wake_streams(
    group: int, now: float, setup: Any, steps: Any, sources: Any, slots: Any, warps: Any, schedulers: Any
) -> None:
    """Let results of one pipe wake the same warp's instructions in the others (the paper's graph)."""
    for v in range(group * setup.streams, (group + 1) * setup.streams):
        warp = warps[v]
        if warp.state == at.RUNNING and warp.ready >= at.FOREVER:
            step = steps[warp.pc]
            when = now
            for k in range(step.sources, step.sources_end):
                source = sources[k]
                when = max(when, slots[warp.slots + source.slot].value + source.delta)
            warp.ready = when
            warp.since = when
            wake(schedulers[warp.home], when)
