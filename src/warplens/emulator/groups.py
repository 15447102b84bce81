"""Groups of lanes of a warp that go the same way: how they part, wait for one another, meet, and give way."""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.emulator.bits import compiled, trailing_zeros
from warplens.emulator.integer_parts import lane_bit
from warplens.emulator.layout import AT_SYNC, AT_WARPSYNC, DATA, GROUPS, LIVE, MASK, PC, READY, STATE, SYNC, YIELDS

_ALL = np.uint32(0xFFFFFFFF)
_PATIENCE = 100  # times that lanes give way before others stop waiting for them: see docs/explain/emulator.md


@compiled
def drop_group(s: Any, w: int, g: int) -> None:
    """Forget a group; the last one takes its number."""
    warp = s.warps[w]
    last = warp[GROUPS] - 1
    warp[PC + g], warp[MASK + g] = warp[PC + last], warp[MASK + last]
    warp[STATE + g], warp[DATA + g] = warp[STATE + last], warp[DATA + last]
    warp[GROUPS] = last


@compiled
def new_group(s: Any, w: int, pc: int, mask: Any) -> None:
    """Let lanes go their own way from a place."""
    warp = s.warps[w]
    g = warp[GROUPS]
    warp[PC + g], warp[MASK + g], warp[STATE + g], warp[DATA + g] = pc, mask, READY, 0
    warp[GROUPS] = g + 1


@compiled
def meet(s: Any, w: int) -> None:
    """Join the groups that wait for one another and have all arrived."""
    g = 0
    while g < s.warps[w, GROUPS]:
        state, data = s.warps[w, STATE + g], s.warps[w, DATA + g]
        if state in (AT_SYNC, AT_WARPSYNC):
            wanted = _wanted(s, w, g)
            waiting = np.uint32(0)
            for k in range(s.warps[w, GROUPS]):
                same = s.warps[w, STATE + k] == state and s.warps[w, DATA + k] == data
                if same and _wanted(s, w, k) == wanted:
                    waiting |= np.uint32(s.warps[w, MASK + k])
            if (wanted & s.warps[w, LIVE] & np.uint32(waiting ^ _ALL)) == 0:
                _join(s, w, state, data, waiting)
        g += 1


@compiled
def _wanted(s: Any, w: int, g: int) -> Any:
    """Return the lanes that a waiting group waits for."""
    data = s.warps[w, DATA + g]
    if s.warps[w, STATE + g] == AT_SYNC:
        return partners(s, w, data, s.warps[w, MASK + g])
    return np.uint32(s.warps[w, LIVE]) if data < 0 else np.uint32(data)


@compiled
def partners(s: Any, w: int, b: int, mask: Any) -> Any:
    """Return the lanes that a group meets at a barrier register; its lanes all hold the same."""
    return np.uint32(s.warps[w, SYNC + 32 * b + np.int64(trailing_zeros(np.uint32(mask)))])


@compiled
def set_partners(s: Any, w: int, b: int, active: Any, lanes: Any) -> None:
    """Say which lanes these meet at a barrier register."""
    for l in range(32):
        if lane_bit(active, l):
            s.warps[w, SYNC + 32 * b + l] = lanes


@compiled
def _join(s: Any, w: int, state: int, data: int, mask: Any) -> None:
    """Make one group of those in a state, of these lanes, at the same place; those at other places become ready too."""
    first = -1
    g = 0
    s.warps[w, YIELDS] = 0
    while g < s.warps[w, GROUPS]:
        there = s.warps[w, STATE + g] == state and s.warps[w, DATA + g] == data
        if there and np.uint32(s.warps[w, MASK + g]) & mask:
            s.warps[w, STATE + g] = READY
            if first >= 0 and s.warps[w, PC + g] == s.warps[w, PC + first]:
                s.warps[w, MASK + first] |= s.warps[w, MASK + g]
                drop_group(s, w, g)
                continue
            if first < 0:
                first = g
        g += 1


@compiled
def give_way(s: Any, w: int, g: int) -> None:
    """Let lanes that have waited long for these go on without them: one of them may hold the lock that these want.

    Lanes make progress though the compiler has them meet behind the loop (Volta's independent thread scheduling).
    """
    warp = s.warps[w]
    mine, waiting, wanted = np.uint32(warp[MASK + g]), np.uint32(0), np.uint32(0)
    for k in range(warp[GROUPS]):
        if warp[STATE + k] == AT_SYNC and _wanted(s, w, k) & mine and (wanted == 0 or _wanted(s, w, k) == wanted):
            wanted = _wanted(s, w, k)
            waiting |= np.uint32(warp[MASK + k])
            b = warp[DATA + k]
    warp[YIELDS] = warp[YIELDS] + 1 if waiting else 0
    if warp[YIELDS] > _PATIENCE:
        set_partners(s, w, b, wanted, np.uint32(wanted & np.uint32(waiting ^ _ALL)))
        set_partners(s, w, b, waiting, waiting)
        meet(s, w)


@compiled
def rotate(s: Any, w: int) -> None:
    """Put the first group of a warp behind the others, so that all of them go on."""
    warp = s.warps[w]
    last = warp[GROUPS] - 1
    for column in (PC, MASK, STATE, DATA):
        first = warp[column]
        for g in range(last):
            warp[column + g] = warp[column + g + 1]
        warp[column + last] = first
