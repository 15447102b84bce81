"""Branches on which blocks may differ, and the error of a sample that did not see all of their sides.

A value is fixed if it is the same in every block (thread indices, arguments, constants), affine if it is a linear
function of the block's index along some axes (`blockIdx.x * blockDim.x + threadIdx.x`), nonlinear if it is another
function of that (divided, masked, compared for equality or unsigned), and data otherwise. An order between affine
values that is the same at all corners of a box of blocks is the same within it, and so is what depends on two such
orders along different axes. A branch that is decided by data or by nonlinear values is undecided: blocks that were not
sampled may take its other side. Where no block at the corners of the grid was sampled, so is one that is decided by
affine values.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from warplens.emulator import ops
from warplens.emulator.decode import Code
from warplens.emulator.slicing import ALWAYS, Flow, Row, followers, row_bits

_AXES = {ops.SR_CTAID_X: 0, ops.SR_CTAID_Y: 1, ops.SR_CTAID_Z: 2}
_NONLINEAR, _DATA = 3, 4  # sets behind those of rows that are affine along each axis
_NOT_FIXED = (ops.SR_CLOCK, ops.SR_SMID, ops.SR_WARPID)
_LINEAR = (ops.MOV, ops.MOV2, ops.IADD3, ops.LEA, ops.LEA_HI, ops.UIADD64)
_PRODUCTS = (ops.IMAD, ops.IMAD_WIDE)
_ORDERS = tuple(ops.COMPARE[name] for name in ("LT", "LE", "GT", "GE"))
_RIGHT, _SIGN_BIT = 1, ("bits", 31, 0)
_FROM_OTHERS = (ops.NOTHING, ops.MEMORY, ops.ASYNC, ops.UNKNOWN)  # and instructions that nobody computes

Sets = tuple[int, ...]  # of rows: affine along x, y, z; nonlinear; data


def undecided(code: Code, *, corners: bool = True) -> set[int]:
    """Return the branches on which blocks may differ, in a code of `needed_only`; `corners`: those of the grid ran.

    Values that are written where such a branch leads or not are as undecided as it is. Where the program does not say
    what comes next, all branches are.
    """
    rows: list[Row] = code.table.tolist()
    flow = Flow(rows)
    control = {i for i, row in enumerate(rows) if row[ops.GROUP] == ops.CONTROL and code.reads[i]}
    asked = [row_bits(code.reads[i]) | row_bits((-1 - rows[i][ops.GUARD],)) for i in range(len(rows))]
    calls = [i for i, row in enumerate(rows) if row[ops.GROUP] == ops.CONTROL and row[ops.OP] == ops.CALL]
    returns = [flow.number[i + 1] for i in calls if i + 1 in flow.number]
    under = set[int]()
    while True:
        found, before, todo = set[int](), dict[int, Sets]({0: (0,) * 5}), [0]
        while todo:
            run = heappop(todo)
            sets = before[run]
            for i in range(flow.firsts[run], flow.stops[run]):
                differing = sets[_NONLINEAR] | sets[_DATA] | (0 if corners else sets[0] | sets[1] | sets[2])
                if i in control and asked[i] & differing:
                    found.add(i)
                sets = _after(code, i, rows[i], sets, i in under)
            following = flow.next[run]
            if following is None:
                if rows[flow.stops[run] - 1][ops.OP] != ops.RET:
                    return control
                following = returns
            for other in following:
                old = before.get(other)
                joined = sets if old is None else tuple(map(int.__or__, old, sets))
                if joined != old:
                    before[other] = joined
                    heappush(todo, other)
        jumps = [(i, rows[i][ops.TARGET]) for i in found if rows[i][ops.OP] == ops.BRA]
        more = {k for i, to in jumps for k in range(min(i, to), max(i, to))}
        if more <= under:
            return found
        under |= more


def _after(code: Code, i: int, row: Row, sets: Sets, undecided: bool) -> Sets:
    """Return the sets behind an instruction; `undecided`: a branch on which blocks may differ leads around it."""
    written = row_bits(code.writes[i])
    if not written:
        return sets
    kept = ~written if row[ops.GUARD] in ALWAYS else -1  # under a guard lanes may keep the value before
    kinds = _kinds(code, i, row, sets)
    behind = [old & kept | (written if kinds >> which & 1 else 0) for which, old in enumerate(sets)]
    if undecided:
        behind[_DATA] |= written
    return tuple(behind)


def _kinds(code: Code, i: int, row: Row, sets: Sets) -> int:
    """Return in which sets the results of an instruction are, a bit for each."""
    group, op, reads = row[ops.GROUP], row[ops.OP], row_bits(code.reads[i])
    if reads & sets[_DATA] or group in _FROM_OTHERS or (group == ops.CONTROL and op == ops.B2R):
        return 1 << _DATA
    if group == ops.LANES and op == ops.S2R + 100:
        special = row[ops.X]
        return 1 << _AXES[special] if special in _AXES else (special in _NOT_FIXED) << _DATA
    if reads & sets[_NONLINEAR]:
        return 1 << _NONLINEAR
    axes = _axes(reads, sets)
    straight = (group == ops.LANES and op == ops.R2UR) or _is_linear(code, row, sets) or _is_order(row, sets)
    return axes if straight or not axes else 1 << _NONLINEAR


def _axes(rows: int, sets: Sets) -> int:
    """Return along which axes some of these rows are affine, a bit for each."""
    return sum(1 << axis for axis in range(3) if rows & sets[axis])


def _of(row: Row, which: int, sets: Sets, wide: bool = False) -> int:
    """Return along which axes a source is affine."""
    return _axes(row_bits((row[which], row[which] + wide)), sets)


def _is_linear(code: Code, row: Row, sets: Sets) -> bool:
    """Return whether the result is a linear function of linear ones; upper words are parts of a linear number."""
    op = row[ops.OP]
    if row[ops.GROUP] != ops.INTEGER:
        return False
    if op in _PRODUCTS:
        return not (_of(row, ops.A, sets) and _of(row, ops.B, sets))
    if op == ops.SHF:
        by = code.pool[row[ops.B] - code.row_count] if row[ops.B] >= code.row_count else None
        return not _of(row, ops.B, sets) and (not row[ops.X] & _RIGHT or by == _SIGN_BIT)
    return op in _LINEAR


def _is_order(row: Row, sets: Sets) -> bool:
    """Return whether it compares signed numbers by less or more, joined only with values affine along other axes."""
    wide = row[ops.GROUP] == ops.PACKED and row[ops.OP] == ops.ISETP2
    if not wide and (row[ops.GROUP] != ops.INTEGER or row[ops.OP] not in (ops.ISETP, ops.PLOP3)):
        return False
    first, second = (_axes(row_bits((-1 - row[which],)), sets) for which in (ops.PS, ops.PS2))
    if not wide and row[ops.OP] == ops.PLOP3:
        third = _axes(row_bits((-1 - row[ops.A],)), sets)
        return not (first & second | first & third | second & third)
    compared = _of(row, ops.A, sets, wide) | _of(row, ops.B, sets, wide)
    lower = second if row[ops.MODE] & ops.EXTENDED else 0  # of the same comparison
    in_order = row[ops.X] in _ORDERS and row[ops.MODE] & ops.SIGNED  # others: x - 3 < 5u is asked of both ends
    return not first & (compared | lower) and (not compared or bool(in_order))


def sides_not_seen(code: Code, executed: npt.NDArray[np.float64], branches: Collection[int]) -> dict[int, set[int]]:
    """Return by branch the instructions behind it that no block executed, up to those that some block did."""
    rows: list[Row] = code.table.tolist()
    sides = {}
    for branch in branches:
        if not executed[branch]:
            continue
        found, todo = set[int](), list(followers(branch, rows[branch]) or ())
        while todo:
            k = todo.pop()
            if 0 <= k < len(rows) and not executed[k] and k not in found:
                found.add(k)
                todo += followers(k, rows[k]) or ()
        if found:
            sides[branch] = found
    return sides


def share_not_seen(blocks: int, seen: int) -> float:
    """Return the share of all blocks that may take another side of a branch than all those that were seen there.

    Before any were seen, that no block does is as likely as that some share does, any share as likely as another
    (Wrinch and Jeffreys 1921). When n did not, the mean square of the share is 2 / ((n + 2)^2 (n + 3)).
    """
    return (1 - seen / blocks) * (2 / (seen + 3)) ** 0.5 / (seen + 2)


def error_of(
    sides: dict[int, set[int]], branches: Collection[int], code: Code, executed: npt.NDArray[np.float64], share: float
) -> float:
    """Return the relative error of all executions if this share of blocks takes another side of a branch.

    Such a block is taken to do so whenever it comes to the branch: to leave out the instructions that the branch may
    jump over, or to execute each instruction of a side that nobody took once, in a loop as often as the commonest.
    """
    more, most = 0.0, float(executed.max(initial=0.0))
    for branch, side in sides.items():
        repeated = len(_in_loops(code, side))
        more += repeated * most + (len(side) - repeated) * float(executed[branch])
    jumped_over = np.zeros(len(executed), np.bool_)
    for branch in branches:
        if executed[branch]:
            low, high = _jumps_over(code, branch)
            jumped_over[low:high] = True
    return share * (more + float(executed[jumped_over].sum())) / max(1.0, float(executed.sum()))


def _jumps_over(code: Code, branch: int) -> tuple[int, int]:
    """Return from where to where the instructions stand that a branch decides about: behind it, or of its loop."""
    row = code.table[branch]
    if row[ops.OP] == ops.EXIT:
        return branch + 1, len(code.table)
    to = int(row[ops.TARGET])
    return (min(branch + 1, to), max(branch + 1, to)) if row[ops.OP] == ops.BRA else (0, 0)


def _in_loops(code: Code, side: set[int]) -> set[int]:
    """Return the instructions of a side that a jump of it goes back over."""
    table, found = code.table, set[int]()
    for i in side:
        to = int(table[i, ops.TARGET])
        if table[i, ops.GROUP] == ops.CONTROL and table[i, ops.OP] == ops.BRA and to in side and to < i:
            found.update(range(to, i + 1))
    return found & side
