"""The engine's arrays: records of what an instruction is, how the machine is set up, the state, what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np

# Where a result comes from. QUEUED: through the queue that shared memory and SFUs are served from.
FIXED, QUEUED, LOAD, STORE, BARRIER = range(5)
# What a slot that consumers wait for is: when the value is there, when the sources have been read, or what the slot
# before it is (`asynchronous`).
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

# Events: time, kind, warp, instruction, detail. Stalls are told when they end.
EVENTS = ("issued", "stalled", "served", "barrier reached", "barrier left", "block started", "block ended",
          "request sent", "pipe busy")  # fmt: skip
ISSUED, STALLED, SERVED, REACHED, LEFT, STARTED, ENDED, SENT, BUSY = range(9)
EVENT_COLUMNS = 5

FOREVER = 1e300
NOTHING = -1  # no instruction
LINE_INSTRUCTIONS, LINE_BYTES = 8, 128  # a line of the instruction cache
FOLLOW = 32.0  # cycles after which an access to DRAM looks at the load again
RING = 8192  # cycles ahead for which the use of a register port is kept
# Memory reads registers so long after its issue, an SFU after its start; both write so long before a use.
READ_AFTER, LATE_READ_AFTER, WRITE_BEFORE = 2, 1, 4
# A port's count has six bits of a word; the words of the ring have flags for late operands and the cycle above them.
PORT_BITS, PORT_MASK, LATE_BITS, CYCLE_BITS = 6, 63, 24, 31
COUNTS, EACH_PORT, BELOW_HALF = (1 << LATE_BITS) - 1, 0o01010101, 0o37373737
BY_NUMBER = 2.0**-20  # of a cycle: of warps that an arithmetic unit refused the first by number goes first
WAVEFRONT_CYCLES = 2.0  # from one wavefront of a scheduler to its next, in shared memory (shared_times.json.gz)
READS_BEHIND = 2.0  # cycles from the issue of an arithmetic instruction to its turn at the register ports
WAIT_BITS, WAIT_MASK, SETTLED = (
    2,
    3,
    3,
)  # of what follows a state of a bank: cycles to wait; idle cycles until none changes

_I, _F = np.int64, np.float64


def record(whole: str, real: str = "") -> np.dtype[Any]:
    """Return a kind of record: the names of its whole numbers, and of its real ones."""
    fields = [(name, _I) for name in whole.split()] + [(name, _F) for name in real.split()]
    return np.dtype((np.record, np.dtype(fields, align=True)))


# An instruction. Its sources and results are rows of lists; `ports` has a bit for each register port it uses (reads
# of banks 0 and 1, writes; `PORT_BITS` apart), `further` how many reads more through each; `even` and `odd` are what
# it is to the states of each bank (`reads`), `whole_even` and `whole_odd` behind another warp, `soon_even` and
# `soon_odd` if it issues no later than `slack` cycles. `both`: it takes both halves of the cores. `yields`: its warp
# lets the others go first. `holds`: cycles of the issue port; `stall`: until its warp may issue again; `latency`:
# until its result is there; `read`: until its sources have been read (streams: when a warp that ends with it is
# done); `passes` through its pipe, `takes` of the unit alone; bytes asked of L2 and DRAM, and the cycles of the SM's
# part of each; chances of a hit; `branch`: cycles until the instruction behind a branch is there. `feeds`: cycles
# until a wide product can read its result; `late`: by how much such a product, alone, then comes later than the stall
# counts say. `reason`: why others wait for its result, `room`: why it waits where its pipe, or the queue before that,
# has no room. `sends`: cycles in which a scheduler sends its registers to shared memory, `enters`: from then until its
# first wavefront.
STEP = record(
    "pipe kind sources sources_end results results_end pairs reason room ports further yields both "
    "even odd whole_even whole_odd soon_even soon_odd",
    "holds stall latency read passes takes l2_bytes dram_bytes l2_cycles dram_cycles l1_hit l2_hit branch late feeds "
    "slack sends enters",
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
# held when so many blocks have a place, to be gone on with. `alike`: so many neighbouring warps of a block wait for
# DRAM equally long (none: each for itself). `first_every`: cycles from one of the first blocks to the next.
# `yielding`: an instruction that yields ends its warp's turn. `data_path`: the unit that stands for `barrier_held`
# cycles when the warps of a block meet.
SETUP = record(
    "schedulers direction in_turn greedy by_block resident warps blocks streams banks mshrs strict width late "
    "first_lines second_lines telling results pause alike seed data_path yielding first_state",
    "time_limit mark_every window stagger replace first_start first_every launch_every barrier_wait branch_taken drain "
    "l1_latency l2_latency average fetch_interval second_wait memory_wait barrier_held",
)
# A level's latency under load, a + b x / (c - x), x in B/cycle of one SM, and `written` times the share of c written.
CURVE = record("", "unloaded a b c written")
# Eight instructions in the instruction caches: since which fetch in the first, in the second, and from when on.
CODE_LINE = record("number deep", "there")
# `counted`: when its stall count is over. `wanted`: since when it waits for its turn. `full`: how long its pipe had had
# no room when it was `seen` last.
WARP = record(
    "end segment turn run state second slots turns why pc place block barrier",
    "ready queued since stored ended fed counted wanted seen full",
)
# `latest`: the warp that issued last; `last`: the one that goes again if it can. `carry`: what of memory and SFUs
# waits for each port, `taken`: where something does; `more`: what arithmetic has still to read. `even`, `odd`: the
# states of the banks, after the cycle `read`. From the cycle `hold` on nothing issues for `held` cycles, and from
# `hold_next` on for `held_next`. `sent`: when the last registers for shared memory are sent, `lag`: and how much later
# others can be; `path`: when the next wavefront can be sent behind them.
SCHEDULER = record(
    "listed last latest turn carry port_cycle taken more even odd",
    "free next soonest half_free other_free read hold held hold_next held_next sent lag path",
)
PLACE = record("block live arrived", "start ended leave")
SM = record(
    "random issued ended begun coming requests told marks status fetched deep row",
    "next_start started l2_free dram_free moved load written l2_load load_at waited l2_waited fetch_free",
)


def rows(kind: np.dtype[Any], count: int) -> Any:
    """Return so many records, all zero, whose fields are attributes."""
    return np.zeros(count, kind).view(np.recarray)
