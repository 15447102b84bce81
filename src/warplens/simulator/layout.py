"""The engine's arrays: records of what an instruction is, how the machine is set up, the state, what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np

# Where a result comes from. QUEUED: through the queue that shared memory and SFUs are served from.
FIXED, QUEUED, LOAD, STORE, BARRIER = range(5)
# What a slot that consumers wait for is: when the value is there, when the sources have been read, or what the slot
# before it is (`matrix`).
VALUE, SOURCES_READ, MOVED = range(3)
OLDEST, YOUNGEST = range(2)  # which warp goes first
IDLE, RUNNING, WAITING = range(3)  # a warp's state
FINISHED, TIME_UP, DEADLOCK = range(3)  # how a run ended

# Why a warp waits, in the names of Nsight Compute's source page (`stall_long_sb`: a long scoreboard).
REASONS = (
    "selected", "wait", "short_sb", "long_sb", "barrier", "branch_resolving", "math", "mio", "lg", "dispatch",
    "not_selected", "drain", "no_inst",
)  # fmt: skip
SELECTED, WAIT, SHORT, LONG, AT_BARRIER, RESOLVING, MATH, MIO, LG, DISPATCH, NOT_SELECTED, DRAIN, NO_INST = range(13)

ROOM = np.array([MATH, MIO, LG, LG, LG])  # no room, by the kind of the instruction

# Events: time, kind, warp, instruction, detail. Stalls are told when they end. An issue stage is held (of no warp): its
# scheduler in place of an instruction, and for how many cycles.
EVENTS = ("issued", "stalled", "served", "barrier reached", "barrier left", "block started", "block ended",
          "request sent", "pipe busy", "issue held")  # fmt: skip
ISSUED, STALLED, SERVED, REACHED, LEFT, STARTED, ENDED, SENT, BUSY, HELD = range(10)
EVENT_COLUMNS = 5

FOREVER = 1e300
NOTHING = -1  # no instruction
LINE_INSTRUCTIONS, LINE_BYTES = 8, 128  # a line of the instruction cache
FOLLOW = 32.0  # cycles after which an access to DRAM looks at the load again
# How arithmetic reads its registers (`operands`): stages before the first in which it can read, and from there to its
# last one; latches of each scheduler (for both kinds of units, both banks and three lanes), and results that a warp
# remembers the time of.
AHEAD, STAGES, LATCHES, BANK, REMEMBERED = 2, 2, 12, 3, 8
# Behind the latches of a scheduler, for each bank: a bit for each cycle from `read` on in which it is read; then
# (`register_writes`) one for each in which a result of an SFU is due, and which one gave way; the last cycle in which
# arithmetic wrote; the first and the end of the results of shared memory that wait, when the last one was written, and
# since when a stop for it is known. From which cycle on a stop is to come, and for how long. The warps that issued in
# the last eight cycles, and their blocks. The results that come back, of both banks: when, the warp, and the slot that
# it waits for. Then the cycles from which on the issue stage will be held, and for how many. The last results of SFUs,
# as those that come back, and when they are there.
READING, DUE, PASSED, WROTE, FIRST, BEHIND, LEFT_AT, KNOWN = 24, 26, 28, 30, 32, 34, 36, 38
STOP, STOPS, WENT, ISSUES, BACK, PLACES, SLOT_BITS, WARP_BITS = 40, 41, 42, 8, 50, 32, 20, 12
CAME_AT = SLOT_BITS + WARP_BITS
HOLD, HOLDS = BACK + 2 * PLACES, 8
LATE, LATE_KEPT = HOLD + 2 * HOLDS, 4
LATCH_COLUMNS = LATE + 2 * LATE_KEPT
MADE = 10  # cycles from the issue of an instruction until its result is in its register
# A register of an instruction in a word of its bank: its number, the lanes that read it, how many instructions before
# it was made (0: long ago), and the lanes that keep it.
LANES_AT, BACK_AT, KEEPS_AT, READ_BITS = 8, 11, 14, 17
KEPT_AT = LANES_AT + WARP_BITS  # what a latch keeps: how often all were dropped, the warp and the register
FRESH = 0o7 << BACK_AT | 0o7 << BACK_AT + READ_BITS | 0o7 << BACK_AT + 2 * READ_BITS
SEVERAL = 1 << 3 * READ_BITS  # above them: not one register for one lane alone
WAVEFRONT_CYCLES = 2.0  # from one wavefront of a scheduler to its next, in shared memory
PORT_CYCLES = 60  # ahead for which ports are kept
# Cycles before they can be read in which results of shared memory are written, for which one gives way to arithmetic;
# later the issue stops, for so long at most.
RETURNS, PATIENCE, UNHEARD, STOPPED = 4, 15, 5, 3
SFU_READS, SFU_WRITES = 6, 13  # cycles from the start of an SFU's instruction to its port, and to that of its result
MOST_EXTRA = 8  # cycles in the last stage; what takes more issue slots, or parts of one, holds the issue port instead

_I, _F = np.int64, np.float64


def record(whole: str, real: str = "") -> np.dtype[Any]:
    """Return a kind of record: the names of its whole numbers, and of its real ones."""
    fields = [(name, _I) for name in whole.split()] + [(name, _F) for name in real.split()]
    return np.dtype((np.record, np.dtype(fields, align=True)))


# An instruction. Its sources and results are rows of lists; `even` and `odd` are the registers it reads of each bank
# (`operands`), or how many, if it is one of memory or SFUs; `writes`: a bit for each bank of its result; `apart`: has
# the units of double precision, with latches of their own; `made`: cycles until its result is in its register; `extra`:
# of its issue slots those in which it stays in the last stage. `both`: it takes both halves of the cores. `rows`: of
# uniform registers that it reads. `yields`: its warp lets the others go first (2: with a stall of one). `holds`: cycles
# of the issue port; `stall`: until its warp may issue again; `latency`: until its result is there; `read`: until its
# sources have been read (streams: when a warp that ends with it is done); `passes` through its pipe, `takes` of the
# unit alone; bytes asked of L2 and DRAM, and the cycles of the SM's part of each; chances of a hit; `branch`: cycles
# until the instruction behind a branch is there. `late`: by how much a wide product, alone, comes later than the stall
# counts say for a factor that was made just before, in the fluid form. `reason`: why others wait for its result,
# `room`: why it waits where its pipe, or the queue before that, has no room. `sends`: cycles in which a scheduler sends
# its registers to shared memory, `enters`: from then until its first wavefront. `moves`: registers that a product of a
# warp group moves in each cycle.
STEP = record(
    "pipe kind sources sources_end results results_end pairs reason room yields both even odd writes apart rows",
    "holds stall latency read passes takes l2_bytes dram_bytes l2_cycles dram_cycles l1_hit l2_hit branch late "
    "made extra sends enters moves",
)
SOURCE = record("slot", "delta")
RESULT = record("slot kind")
# A pipe, of the SM or of each scheduler: cycles from one instruction to the next, places in each scheduler's queue
# before it (none: an instruction issues when the pipe takes it; -1: without end), the unit that it leads to. A place
# is free `held` cycles after the pipe took what was in it. `half`: it takes two cycles of EITHER half of the cores, or
# of that ONE half all of its passes.
EITHER, ONE = 1, 2
PIPE = record("shared places unit half", "interval held")
SEGMENT = record("first end times")  # of a way: straight runs from `first` to before `end`, so many times
RUN = record("first stop")
SLOT = record("reason", "value")

# How to run. `late` is the pipe that reads its operand only when it starts (the SFUs'). Cycles and rates per SM; an
# infinite rate or zero latency switches a mechanism off. `window`: warps leave at the end of a turn from then on.
# `telling`: whether events are kept. `results`: slots whose values a warp has to have when it ends. `pause`: the run is
# held when so many blocks have a place, to be gone on with. `counting`: issues that are counted for each warp, one more
# halves the counts of all, and `counted_after`: cycles until one counts. `queues`: warps of a block are
# served in the order in which they came to wait. `alike`: so many neighbouring warps of a block wait for DRAM equally
# long (none: each for itself). `note_every`: cycles from one block whose end is noted to the next. `yielding`: an
# instruction that yields ends its warp's turn. `data_path`: the unit that stands for `barrier_held` cycles when the
# warps of a block meet. `lines` of all code. `port`: cycles for which a line of instructions takes a scheduler's port.
SETUP = record(
    "schedulers direction in_turn greedy counting counted_after queues resident warps blocks streams banks mshrs "
    "strict width late first_lines second_lines telling results pause alike seed data_path yielding lines",
    "time_limit mark_every window stagger replace first_start note_every barrier_wait branch_taken drain "
    "l1_latency l2_latency average fetch_interval second_wait memory_wait barrier_held port",
)
# A level's latency under load, a + b x / (c - x), x in B/cycle of one SM, and `written` times the share of c written.
CURVE = record("", "unloaded a b c written")
# Eight instructions in the instruction caches: since which fetch in the first, in the second, and from when on.
CODE_LINE = record("number deep", "there")
# `counted`: when its stall count is over. `full`: how long its pipe had had no room when it was `seen` last. `count`:
# instructions it has issued, `used`: of late, by its scheduler's count. `yielded`: it lets others go first. `home`: its
# scheduler. What is looked at to choose a warp (`scheduler.pick_least`) lies side by side.
WARP = record(
    "end segment turn run state second slots turns barrier count home why block pc place used yielded",
    "ready since seen full queued stored ended counted",
)
# `last`: the warp that goes again if it can. `read`: the cycle up to which its ports are known; `dropped`: how often
# all that latches keep was dropped; `apart`: when an instruction of double precision had its last stage; `asked`: when
# memory can read its next register; `pending`: whether results of others are due; `holds`, `holds_end`: which holds are
# to come. `sent`: when the last registers for shared memory are sent, `lag`: and how much later others can be, `path`:
# when the next wavefront can be sent behind them (`memory`). `targets`: up to when lines of branches' targets take the
# port of its instructions, `lines`: all lines (`memory`).
# Products move registers up to the cycle `moving`, so many in each as `moves` says, of either `bank` in turn; up to
# `moved` that is known, `part` is left of one. `counted`: up to which cycle issues count. `uniform`: up to which one
# rows of uniform registers are read.
SCHEDULER = record(
    "listed last turn read apart asked pending moved moving bank counted uniform dropped holds holds_end",
    "free next soonest half_free other_free moves part sent lag path targets lines",
)
PLACE = record("block live arrived", "start ended noted")
SM = record(
    "random issued ended begun coming requests told marks status fetched deep row",
    "next_start noted l2_free dram_free moved load written l2_load load_at waited l2_waited fetch_free",
)


def rows(kind: np.dtype[Any], count: int | tuple[int, int]) -> Any:
    """Return so many records, all zero, whose fields are attributes."""
    return np.zeros(count, kind).view(np.recarray)
