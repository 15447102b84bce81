"""Uniformity of blocks: proof that the corners of a box of blocks represent all blocks within it.

A value is fixed if it is the same in every block (thread indices, arguments, constants), placed if it is a linear
function of the block's index along some axes (`blockIdx.x * blockDim.x + threadIdx.x`), bent if it is another function
of that (divided, masked, compared for equality or unsigned), and data otherwise. An order between placed values that is
the same at all corners of a box of blocks is the same within it, and so is what depends on two such orders along
different axes: if no guard and no branch is bent, and neither these nor addresses depend on data, the blocks inside a
box execute what those at its corners do, where these execute the same.
"""

from __future__ import annotations

from heapq import heappop, heappush

from warplens.emulator import ops
from warplens.emulator.decode import Code
from warplens.emulator.slicing import Row, followers, row_bits, stored_rows

_AXES = {ops.SR_CTAID_X: 0, ops.SR_CTAID_Y: 1, ops.SR_CTAID_Z: 2}
_BENT, _DATA = 3, 4  # sets behind those of what is placed along each axis
_NOT_FIXED = (ops.SR_CLOCK, ops.SR_SMID, ops.SR_WARPID)
_LINEAR = (ops.MOV, ops.MOV2, ops.IADD3, ops.LEA, ops.LEA_HI, ops.UIADD64)
_PRODUCTS = (ops.IMAD, ops.IMAD_WIDE)
_ORDERS = tuple(ops.COMPARE[name] for name in ("LT", "LE", "GT", "GE"))
_RIGHT, _SIGN_BIT = 1, ("bits", 31, 0)
_FROM_OTHERS = (ops.NOTHING, ops.MEMORY, ops.ASYNC, ops.UNKNOWN)  # and what nobody computes
_ALWAYS = (7, 15)  # guards that always hold

Sets = tuple[int, int, int, int, int]  # of rows: placed along x, y, z; bent; data
_AT_FIRST: dict[int, Sets] = {0: (0, 0, 0, 0, 0)}


class Ways:
    """The ways through a program (that of `needed_only`), and what is known of the values on them.

    Instructions that do nothing, one behind the other, are gone over at once: what they leave out to write is data.
    """

    def __init__(self, code: Code) -> None:
        self.code = code
        self.rows: list[Row] = code.table.tolist()
        self.idle = _idle_runs(code, self.rows)
        self.next_ones = [followers(i, row) for i, row in enumerate(self.rows)]
        self.reads, self.writes = [row_bits(x) for x in code.reads], [row_bits(x) for x in code.writes]
        self._known: dict[frozenset[int], dict[int, Sets] | None] = {}

    def are_steady(self) -> bool:
        """Whether no guard and no branch is bent, and no address depends on data."""
        code, rows, before, todo = self.code, self.rows, dict[int, Sets](_AT_FIRST), [0]
        i = -1
        while i >= 0 or todo:
            i = heappop(todo) if i < 0 else i
            if i not in self.idle and not _decides_steadily(code, i, rows[i], before[i]):
                return False
            behind, next_ones = self._behind(i, before[i])
            if next_ones is None:
                return False
            i = self._go(before, todo, behind, next_ones)
        return True

    def undecided(self, *, corners: bool = True) -> set[int]:
        """Return the branches on whose way blocks may differ whatever those at the corners do: by data or what is bent.

        Without `corners` nobody looked at these: then also by what is placed. Values that are written where such a
        branch leads or not are as undecided as it is. Where the program does not say what comes next, all branches are.
        """
        code, rows = self.code, self.rows
        control = [i for i, row in enumerate(rows) if row[ops.GROUP] == ops.CONTROL and code.reads[i]]
        found, under = set[int](), frozenset[int]()
        while True:
            before = self._before(under)
            if before is None:
                return set(control)
            found = {i for i in control if i in before and not _decides_steadily(code, i, rows[i], before[i], corners)}
            jumps = [(i, rows[i][ops.TARGET]) for i in found if rows[i][ops.OP] == ops.BRA]
            more = {k for i, to in jumps for k in range(min(i, to), max(i, to))}
            if more <= under:
                return found
            under |= more

    def _before(self, under: frozenset[int]) -> dict[int, Sets] | None:
        """Return what is placed, bent and data before what is reached; None: any instruction may be next somewhere."""
        if under not in self._known:
            self._known[under] = self._followed(under)
        return self._known[under]

    def _followed(self, under: frozenset[int]) -> dict[int, Sets] | None:
        rows, before, todo = self.rows, dict[int, Sets](_AT_FIRST), [0]
        calls = tuple(i + 1 for i, row in enumerate(rows) if row[ops.GROUP] == ops.CONTROL and row[ops.OP] == ops.CALL)
        i = -1
        while i >= 0 or todo:
            i = heappop(todo) if i < 0 else i
            behind, next_ones = self._behind(i, before[i])
            if next_ones is None and rows[i][ops.OP] != ops.RET:
                return None
            if i in under and i not in self.idle:
                behind = (*behind[:_DATA], behind[_DATA] | self.writes[i])
            i = self._go(before, todo, behind, calls if next_ones is None else next_ones)
        return before

    def _behind(self, i: int, here: Sets) -> tuple[Sets, tuple[int, ...] | None]:
        """What is behind an instruction, or behind those that do nothing from it on, and what comes next; None: any."""
        if i in self.idle:
            last, replaced, left_out = self.idle[i]
            x, y, z, bent, data = here
            return (x & ~replaced, y & ~replaced, z & ~replaced, bent & ~replaced, data | left_out), (last + 1,)
        written = self.writes[i]
        if not written:
            return here, self.next_ones[i]
        row, reads, (x, y, z, bent, data) = self.rows[i], self.reads[i], here
        kept = ~written if row[ops.GUARD] in _ALWAYS else -1  # under a guard lanes may keep what they had
        made = 1 << _DATA if reads & data else _made(self.code, reads, row, here)
        if made == 1 << _DATA:
            behind = x & kept, y & kept, z & kept, bent & kept, data & kept | written
        else:
            in_x, in_y, in_z, in_bent = [-(made >> which & 1) & written for which in range(_DATA)]
            behind = x & kept | in_x, y & kept | in_y, z & kept | in_z, bent & kept | in_bent, data & kept
        return behind, self.next_ones[i]

    def _go(self, before: dict[int, Sets], todo: list[int], behind: Sets, next_ones: tuple[int, ...]) -> int:
        """Go on with what comes next, where that is new: return the only one, if none before it waits, or -1."""
        for k in next_ones:
            old = before.get(k)
            joined = behind if old is None else _joined(old, behind)
            if joined != old and k < len(self.rows):
                before[k] = joined
                if len(next_ones) == 1 and (not todo or k < todo[0]):
                    return k
                heappush(todo, k)
        return -1


def _idle_runs(code: Code, rows: list[Row]) -> dict[int, tuple[int, int, int]]:
    """Return, by the first of instructions that do nothing, the last, the rows that they replace, and those they leave.

    Where a jump leads begins another run.
    """
    control = [i for i, row in enumerate(rows) if row[ops.GROUP] == ops.CONTROL]
    targets = {k for i in control for k in followers(i, rows[i]) or ()}
    found: dict[int, tuple[int, int, int]] = {}
    first = -1
    for i, row in enumerate(rows):
        if row[ops.GROUP] != ops.NOTHING:
            first = -1
            continue
        if first < 0 or i in targets:
            first, replaced, left_out = i, 0, 0
        written = row_bits(code.writes[i])
        left_out |= written
        if row[ops.GUARD] in _ALWAYS:
            replaced |= written
        found[first] = i, replaced, left_out
    return found


def _joined(a: Sets, b: Sets) -> Sets:
    """What is so on one of two ways."""
    return a[0] | b[0], a[1] | b[1], a[2] | b[2], a[3] | b[3], a[4] | b[4]


def _decides_steadily(code: Code, i: int, row: Row, here: Sets, corners: bool = True) -> bool:
    """Whether neither what an instruction executes or touches depends on data, nor its way on what is bent.

    Without `corners` its way must not depend on what is placed either.
    """
    if row[ops.GROUP] == ops.NOTHING:
        return True
    guard, reads = row_bits((-1 - row[ops.GUARD],)), 0
    if row[ops.GROUP] == ops.MEMORY and row_bits(frozenset(code.reads[i]) - stored_rows(row)) & here[_DATA]:
        return False
    if row[ops.GROUP] in (ops.CONTROL, ops.ASYNC):
        reads = row_bits(code.reads[i])
    placed = 0 if corners else here[0] | here[1] | here[2]
    return not (guard | reads) & (here[_BENT] | here[_DATA] | placed)


def _made(code: Code, reads: int, row: Row, here: Sets) -> int:
    """Return in which sets what an instruction that reads no data writes is, a bit for each."""
    group, op = row[ops.GROUP], row[ops.OP]
    if group in _FROM_OTHERS or (group == ops.CONTROL and op == ops.B2R):
        return 1 << _DATA
    if group == ops.LANES and op == ops.S2R + 100:
        special = row[ops.X]
        return 1 << _AXES[special] if special in _AXES else (special in _NOT_FIXED) << _DATA
    axes = _axes(reads, here)
    if reads & here[_BENT]:
        return 1 << _BENT
    straight = (group == ops.LANES and op == ops.R2UR) or _is_linear(code, row, here) or _is_order(row, here)
    return axes if straight or not axes else 1 << _BENT


def _axes(rows: int, here: Sets) -> int:
    """Along which axes some of these rows are placed, a bit for each."""
    return sum(1 << axis for axis in range(3) if rows & here[axis])


def _of(row: Row, which: int, here: Sets, wide: bool = False) -> int:
    """Along which axes a source is placed."""
    return _axes(row_bits((row[which], row[which] + wide)), here)


def _is_linear(code: Code, row: Row, here: Sets) -> bool:
    """Whether an instruction makes a linear function of linear ones; upper words are parts of what they belong to."""
    op = row[ops.OP]
    if row[ops.GROUP] != ops.INTEGER:
        return False
    if op in _PRODUCTS:
        return not (_of(row, ops.A, here) and _of(row, ops.B, here))
    if op == ops.SHF:
        by = code.pool[row[ops.B] - code.row_count] if row[ops.B] >= code.row_count else None
        return not _of(row, ops.B, here) and (not row[ops.X] & _RIGHT or by == _SIGN_BIT)
    return op in _LINEAR


def _is_order(row: Row, here: Sets) -> bool:
    """Whether it compares signed numbers by less and more, and joins that only with what is placed along other axes."""
    wide = row[ops.GROUP] == ops.PACKED and row[ops.OP] == ops.ISETP2
    if not wide and (row[ops.GROUP] != ops.INTEGER or row[ops.OP] not in (ops.ISETP, ops.PLOP3)):
        return False
    first, second = (_axes(row_bits((-1 - row[which],)), here) for which in (ops.PS, ops.PS2))
    if not wide and row[ops.OP] == ops.PLOP3:
        third = _axes(row_bits((-1 - row[ops.A],)), here)
        return not (first & second | first & third | second & third)
    compared = _of(row, ops.A, here, wide) | _of(row, ops.B, here, wide)
    lower = second if row[ops.MODE] & ops.EXTENDED else 0  # of the same comparison
    in_order = row[ops.X] in _ORDERS and row[ops.MODE] & ops.SIGNED  # others: x - 3 < 5u is asked of both ends
    return not first & (compared | lower) and (not compared or bool(in_order))
