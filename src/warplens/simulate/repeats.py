"""Blocks that come and go as those before them did: after how many of them.

Where chance decides nothing the blocks of an SM soon take turns: every so many of them the same time passes from the
begin of one to that of another, and from its begin to its end. What cannot be seen in some rounds is a drift of less
than a cycle in each of them.
"""

from __future__ import annotations

import numpy as np

from warplens.simulate.code import Floats

SEEN, TURNS = 2, 3  # rounds, and turns, for which it has to be so
ALIKE = 1.01  # cycles: blocks begin at parts of one, and warps issue at whole ones


def turn(blocks: Floats, resident: int) -> int:
    """Return after how many blocks their times repeat themselves, in the last rounds; 0 where they do not.

    `blocks` are start and end of each, in the order in which they begin; an end of 0 is not known yet.
    """
    begins, ended = blocks[:, 0], blocks[:, 1] > 0
    lasts = np.where(ended, blocks[:, 1] - begins, np.nan)
    for size in range(1, len(blocks) // TURNS + 1):
        seen = max(SEEN * resident, TURNS * size)
        if seen > len(blocks) - size:
            break
        later, longer = _steps(begins[-seen:], size), _steps(lasts[-seen - resident :], size)
        if max(np.ptp(later), np.abs(longer).max(initial=0.0)) <= ALIKE and len(longer):
            return size
    return 0


def _steps(values: Floats, size: int) -> Floats:
    """Return by how much each value is more than the one so many places before it, where both are known."""
    steps = values[size:] - values[:-size]
    return steps[~np.isnan(steps)]
