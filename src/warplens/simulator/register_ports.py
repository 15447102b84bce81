"""Register ports of a scheduler: two banks, each gives one operand a cycle (`operands`).

Arithmetic goes through three stages behind its issue and can read in each of them; what is not there in the last one
holds them all, and with them the issue stage. Memory and SFUs read through the same ports, later, and go first.
Where results are written is in `register_writes`.
"""

from __future__ import annotations

from math import floor
from typing import Any

from warplens.simulator import layout as at
from warplens.simulator.compiled import called, folded, inlined
from warplens.simulator.register_writes import come_back, hold_behind, note_late, write


@called
def take_turns(
    odd: int, s: int, cycle: int, last: int, left: int, first: int, second: int, third: int, upper: int, latches: Any
) -> int:
    """Let a bank give up to three registers, one in a cycle that is free and no sooner than each can be read.

    Return the cycle of the last read, or of the instruction's last stage. The upper half of what a wide product adds,
    the one behind so many others, holds it for one cycle at most, whenever it is read.
    """
    busy = latches[s, at.READING + odd]
    turn, most = cycle, last + 1
    while left > 0:
        if turn - cycle >= at.PORT_CYCLES or busy >> turn - cycle & 1 == 0:
            taken = -1
            if first >= 0 and first <= turn:
                first = -1
                taken = 0
            elif second >= 0 and second <= turn:
                second = -1
                taken = 1
            elif third >= 0 and third <= turn:
                third = -1
                taken = 2
            if taken >= 0:
                left -= 1
                until = most if taken == upper and turn > most else turn
                if until == turn and turn - cycle < at.PORT_CYCLES:
                    busy |= 1 << turn - cycle
                if until > last:
                    last = until
        turn += 1
    latches[s, at.READING + odd] = busy
    return last


@called
def read_bank(odd: int, kept: int, s: int, row: int, cycle: int, last: int, step: Any, warp: Any, latches: Any) -> int:
    """Let an instruction read its registers of one bank; return the cycle of the last read, or of its last stage.

    The bank gives one of them in a cycle, in the order of lanes as far as their latches are free: a latch holds its
    operand until the instruction leaves its last stage. A register that the lane has kept is not read again. One that
    is not in its place yet comes from the units, in the last stage; of two such ones the older has to be in its place.
    So has a factor of a wide product, and what is added to it; the upper half of that is read in the last stage alone.
    """
    word = (step.odd if odd else step.even) & at.SEVERAL - 1
    bank = odd * at.BANK + (at.LATCHES // 2 if step.apart else 0)
    youngest = last - 1
    rest = word if word & at.FRESH else 0
    while rest != 0:
        back = rest >> at.BACK_AT & 7
        if back != 0:
            there = latches[row, (warp.count - back) & (at.REMEMBERED - 1)]
            if there > youngest:
                youngest = there
        rest >>= at.READ_BITS
    first = second = third = -1  # from when on each of up to three registers can be read
    upper, late = -1, False  # of a wide product: which is the upper half of what it adds, whether a factor is fresh
    rest, place, left = word, 0, 0
    while rest != 0:
        there = cycle
        back = rest >> at.BACK_AT & 7
        if back != 0:
            there = latches[row, (warp.count - back) & (at.REMEMBERED - 1)]
        fresh = there >= last
        if fresh:
            behind = at.STAGES  # the older of two
            if step.extra and (late or rest >> at.LANES_AT & 3):
                behind = 1
                late = True
            elif there == youngest or step.apart:
                behind = 0
            there = max(last, there + behind) if behind else last
        if odd and step.extra and rest >> at.LANES_AT & 4:
            upper = place
            there = max(there, last)
        number = kept | rest & 255
        needed = False
        for lane in range(3):
            if rest >> at.LANES_AT + lane & 1 and (fresh or latches[s, at.LATCHES + bank + lane] != number):
                needed = True
                there = max(there, latches[s, bank + lane])
        if needed:
            left += 1
            if place == 0:
                first = max(there, cycle)
            elif place == 1:
                second = max(there, cycle)
            else:
                third = max(there, cycle)
        place += 1
        rest >>= at.READ_BITS
    end: int = take_turns(odd, s, cycle, last, left, first, second, third, upper, latches)
    return end


@called
def move(s: int, cycle: int, scheduler: Any, latches: Any) -> None:
    """Let products of warp groups have the registers that they add to, of both banks in turn, before all others."""
    turn = max(scheduler.moved, cycle)
    while turn < scheduler.moving and turn < cycle + at.PORT_CYCLES:
        scheduler.part += scheduler.moves
        while scheduler.part >= 1.0:
            scheduler.part -= 1.0
            latches[s, at.READING + scheduler.bank] |= 1 << turn - cycle
            scheduler.bank ^= 1
        turn += 1
    scheduler.moved = turn


@inlined
def begin_moving(start: float, until: float, step: Any, scheduler: Any) -> None:
    """Note from when until when a product of a warp group moves registers, behind those that do so already."""
    if scheduler.moved >= scheduler.moving:
        scheduler.moved = floor(start)
    scheduler.moving = floor(until)
    scheduler.moves = step.moves


@called
def return_to(s: int, cycles: int, latches: Any) -> None:
    """Bring what is kept of both banks back to so many cycles before."""
    back = min(cycles, at.PORT_CYCLES)
    for bank in range(2):
        latches[s, at.READING + bank] = latches[s, at.READING + bank] << back & (1 << at.PORT_CYCLES) - 1
        latches[s, at.DUE + bank] = latches[s, at.DUE + bank] << back & (1 << at.PORT_CYCLES) - 1


@inlined
def follow(s: int, now: int, scheduler: Any, latches: Any) -> int:
    """Bring what is kept of both banks up to when an instruction that issues now comes to them: `read`.

    Return when it has its last stage. A hold stops all that is on its way.
    """
    first = now + at.AHEAD
    due: int = first + at.STAGES
    for k in range(scheduler.holds, scheduler.holds_end):
        place = at.HOLD + (k & at.HOLDS - 1)
        if latches[s, place] <= due + 1:
            due += latches[s, place + at.HOLDS]
            if latches[s, place] <= first:
                first += latches[s, place + at.HOLDS]
    ahead = first - scheduler.read
    if ahead > at.PORT_CYCLES:
        ahead = at.PORT_CYCLES
    scheduler.read = first
    if ahead < 0:  # what was to be held is not any more
        return_to(s, -ahead, latches)
        ahead = 0
    latches[s, at.READING] >>= ahead
    latches[s, at.READING + 1] >>= ahead
    if scheduler.pending:
        latches[s, at.DUE] >>= ahead
        latches[s, at.DUE + 1] >>= ahead
    if scheduler.moved < scheduler.moving:
        move(s, first, scheduler, latches)
    return due


@inlined
def leave(kept: int, s: int, last: int, side: int, step: Any, latches: Any) -> None:
    """Free the latches of an instruction when it has left its last stage; they keep what is marked."""
    for odd in range(2):
        rest = (step.odd if odd else step.even) & at.SEVERAL - 1
        while rest != 0:
            latch = side + odd * at.BANK
            lanes = rest >> at.LANES_AT & 7
            keeps = rest >> at.KEEPS_AT & 7
            while lanes != 0:
                if lanes & 1:
                    latches[s, latch] = last + 1
                    latches[s, at.LATCHES + latch] = 0
                    if keeps & 1:
                        latches[s, at.LATCHES + latch] = kept | rest & 255
                lanes >>= 1
                keeps >>= 1
                latch += 1
            rest >>= at.READ_BITS


@folded
def read(
    w: int, s: int, row: int, now: int, scheduler: Any, step: Any, warp: Any, latches: Any, pipe_free: Any, sfu: int,
    steps: Any, sources: Any, warps: Any, slots: Any, stalls: Any,
) -> None:  # fmt: skip
    """Let an instruction that issues now read its registers in the next cycles; what it waits for is held for.

    It goes through three stages, one a cycle, and can read in each of them; what is not there in the last one holds all
    stages. Behind one of double precision the last stage is taken two cycles later. A register that is read alone of
    its bank, as most are, is read here.
    """
    due = follow(s, now, scheduler, latches)
    last, cycle = due, scheduler.read
    kept = scheduler.dropped + 1 << at.KEPT_AT | w << at.LANES_AT
    side = at.LATCHES // 2 if step.apart else 0
    for odd in range(2):
        word = step.odd if odd else step.even
        if word & at.SEVERAL or (word != 0 and step.extra > 0.0):
            turn = read_bank(odd, kept, s, row, cycle, due, step, warp, latches)
            if turn > last:
                last = turn
        elif word != 0:
            latch = side + odd * at.BANK + (word >> at.LANES_AT + 1 & 3)
            there = cycle
            if word & at.FRESH:
                there = latches[row, (warp.count - (word >> at.BACK_AT & 7)) & (at.REMEMBERED - 1)]
            if there >= due or latches[s, at.LATCHES + latch] != kept | word & 255:
                turn = latches[s, latch]
                if there > due:
                    there = due
                if turn < there:
                    turn = there
                if turn < cycle:
                    turn = cycle
                while turn - cycle < at.PORT_CYCLES and latches[s, at.READING + odd] >> turn - cycle & 1:
                    turn += 1
                if turn - cycle < at.PORT_CYCLES:
                    latches[s, at.READING + odd] |= 1 << turn - cycle
                if turn > last:
                    last = turn
    if step.rows:
        turn = scheduler.uniform if scheduler.uniform > last else last
        if turn > last + 1:  # one row can wait
            last = turn - 1
        scheduler.uniform = turn + step.rows
    if step.apart:
        scheduler.apart = last
    elif last == scheduler.apart + at.STAGES:
        last += 1
    if scheduler.pending:
        scheduler.pending = 0
        turn = last + floor(step.made) - at.MADE
        ahead = turn - cycle
        meets = False
        for odd in range(2):
            due_bits = latches[s, at.DUE + odd]
            first = latches[s, at.FIRST + odd]
            back = latches[s, at.BEHIND + odd] - first
            if due_bits | back:
                scheduler.pending = 1
                if step.writes >> odd & 1:
                    came = turn + 1
                    if back:
                        came = latches[s, at.BACK + odd * at.PLACES + (first & at.PLACES - 1)] >> at.CAME_AT
                    if ahead < at.PORT_CYCLES and (due_bits >> ahead & 1 or due_bits >> ahead - 1 & 1):
                        came = turn
                    if came <= turn:
                        meets = True
                    else:
                        latches[s, at.WROTE + odd] = turn
        if meets:
            last = write(last, s, cycle, step, latches, pipe_free, sfu, steps, sources, warps, slots, stalls)
            stops = latches[s, at.STOPS]
            if stops > 0:
                latches[s, at.STOPS] = 0
            if stops > 0 and latches[s, at.STOP] + at.PATIENCE > now:  # not long ago
                hold_behind(s, latches[s, at.STOP] - 1, latches[s, at.STOP] - 1 + stops, scheduler, latches)
                if last >= latches[s, at.STOP]:
                    last += stops
                    due += stops
    last += floor(step.extra)
    leave(kept, s, last, side, step, latches)
    latches[row, warp.count & (at.REMEMBERED - 1)] = last - at.STAGES - at.AHEAD + floor(step.made)
    if last > due:
        hold_behind(s, due, last, scheduler, latches)


@inlined
def waiting(w: int, step: Any, first_slot: int, results: Any) -> int:
    """Return a warp and the slot in which it waits for the value of an instruction, 0 if in none."""
    waits = 0
    for r in range(step.results, step.results_end):
        if results[r].kind == at.VALUE:
            waits = w << at.SLOT_BITS | first_slot + results[r].slot + 1
    return waits


@called
def bring(
    w: int, s: int, done: float, scheduler: Any, step: Any, first_slot: int, results: Any, latches: Any
) -> float:  # fmt: skip
    """Let results of memory come back to their banks in the cycle `done`; return when they are there at the soonest.

    They wait for those that came before, and these for arithmetic.
    """
    waits = waiting(w, step, first_slot, results)
    there = floor(done)
    for bank in range(2):
        if step.writes >> bank & 1:
            scheduler.pending = 1
            there = max(there, come_back(bank, s, floor(done) - at.RETURNS, waits, latches) + at.RETURNS)
    return float(there)


@called
def ask(
    w: int, s: int, now: int, start: float, done: float, sfu: bool, scheduler: Any, step: Any, first_slot: int,
    results: Any, latches: Any,
) -> None:  # fmt: skip
    """Let an instruction of memory or SFUs have the registers it reads, one in two cycles, before all arithmetic.

    Memory asks for them in the cycle behind its last stage, an SFU two cycles behind it or, where it waits, before its
    start; when its results come is noted.
    """
    turn = follow(s, now, scheduler, latches) + 1
    cycle = scheduler.read
    turn = max(turn + 1, floor(start) + at.SFU_READS - 1) if sfu else max(turn, scheduler.asked)
    written = max(turn, floor(start) + at.SFU_READS) + at.SFU_WRITES - at.SFU_READS - cycle
    for bank in range(2):
        if sfu and step.writes >> bank & 1:
            scheduler.pending = 1
            if written < at.PORT_CYCLES:
                latches[s, at.DUE + bank] |= 1 << written
    if sfu and step.writes:
        note_late(s, cycle + written, floor(done), waiting(w, step, first_slot, results), latches)
    even, odd = step.even, step.odd
    while even + odd > 0 and turn - cycle < at.PORT_CYCLES:
        if even > 0:
            latches[s, at.READING] |= 1 << turn - cycle
            even -= 1
        else:
            latches[s, at.READING + 1] |= 1 << turn - cycle
            odd -= 1
        turn += 2
    if not sfu:
        scheduler.asked = turn
