"""What Nsight Compute's sampler sees of a run: every so many cycles one of the warps on an SM, and what it waits for.

So every moment counts alike, however many warps there are, and a tail of few warps more than its warp-cycles: of the
139 launches of the train set that take 50 us and more 122 have one sample per SM and 2048 cycles, within 8 %, with a
quarter of a warp per scheduler to 16 (kernels/ncu.json.gz). Here a run is held as often, and what its warps
have waited for since then is shared out over that time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from warplens.simulator import layout as at
from warplens.simulator.code import Floats

INTERVAL, LOOKS = 2048.0, 64  # cycles; of a long run a part


class Seen(Struct, frozen=True):
    """Up to when was looked, warp-cycles by reason until then, and the time by reason."""

    until: float
    waited: Floats
    cycles: Floats


NOTHING = Seen(0.0, np.zeros(len(at.REASONS)), np.zeros(len(at.REASONS)))


def look(seen: Seen, now: float, stalls: Floats) -> Seen:
    """Return what has been seen up to now, with all stalls until then."""
    waited = stalls.sum(axis=0)
    behind = (waited - seen.waited).clip(0)
    return Seen(now, waited, seen.cycles + (now - seen.until) * behind / (behind.sum() or 1.0))


def told(now: float, steps: Any, warps: Any, full: Floats, stalls: Floats) -> Floats:
    """Return the stalls up to now: with what the engine tells of a warp only when it goes on.

    That is why it waits at a barrier, or for its turn and for room, as in `engine.issue`.
    """
    made, late = stalls.copy(), np.flatnonzero((warps.since < now) & (warps.state != at.IDLE))
    here, waited = warps[late], now - warps.since[late]
    halted, turn = here.state == at.WAITING, (here.state == at.RUNNING) & (here.ready < at.FOREVER)
    np.add.at(made, (here.pc[halted], at.AT_BARRIER), waited[halted])
    here, waited = here[turn], waited[turn]
    step = steps[here.pc]
    without = (full[here.home, step.pipe + 1] - here.full) * waited / (now - here.seen)
    without = np.minimum(without, waited)
    np.add.at(made, (here.pc, step.room), without)
    np.add.at(made, (here.pc, at.NOT_SELECTED), waited - without)
    return made
