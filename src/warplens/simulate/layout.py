"""Columns of the engine's arrays: what an instruction is, how the machine is set up, the state, what comes out."""

from __future__ import annotations

# Whole numbers of an instruction. SOURCES and RESULTS point into lists; READS (banks 0, 1) and WRITES count operands.
PIPE, CLASS, SOURCES, SOURCES_END, RESULTS, RESULTS_END, PAIRS, REASON, READS, READS_1, WRITES, WRITES_1 = range(12)
INSTRUCTION_COLUMNS = 12
# CLASS: where its result comes from. QUEUED: through the queue that shared memory and SFUs are served from.
FIXED, QUEUED, LOAD, STORE, BARRIER = range(5)

# Cycles and amounts of an instruction: how long it holds the issue port, when its warp may issue again, when its result
# is there, when its sources have been read (streams: when a warp that ends with it is done); passes through its pipe;
# bytes asked of L2 and DRAM; chance of a hit; cycles until the instruction behind a branch is there.
HOLDS, STALL, LATENCY, READ, PASSES, L2_BYTES, DRAM_BYTES, L1_HIT, L2_HIT, BRANCH = range(10)
TIMING_COLUMNS = 10

# A result is a slot that consumers wait for: when the value is there, when the sources have been read, or what the slot
# before it has (`asynchronous`).
VALUE, SOURCES_READ, MOVED = range(3)

# Pipes: cycles from one instruction to the next, how far ahead instructions queue for it; one per SM or per scheduler.
INTERVAL, DEPTH, SHARED = range(3)
PIPE_COLUMNS = 3

# Options, whole numbers. OPERANDS_LATE is the pipe that reads its operand only when it starts (the SFUs').
SCHEDULERS, POLICY, RESIDENT, WARPS, BLOCKS, STREAMS, BANKS, MSHRS, STRICT, GREEDY, WIDTH, OPERANDS_LATE = range(12)
OPTION_COLUMNS = 12
OLDEST, YOUNGEST, ROUND_ROBIN = range(3)

# Settings, cycles and rates per SM. An infinite rate or zero latency switches a mechanism off.
TIME_LIMIT, REPLACE, BARRIER_WAIT, BRANCH_TAKEN, STAGGER, L1_LATENCY, L2_LATENCY, L2_RATE, DRAM_RATE = range(9)
LOADED, MARK_EVERY = range(9, 11)  # LOADED: cycles that the load of the memory adds to an access to DRAM
SETTING_COLUMNS = 11

# Why a warp waits, in the names of Nsight Compute's source page (`stall_long_sb`: a long scoreboard).
REASONS = (
    "selected", "wait", "short_sb", "long_sb", "barrier", "branch_resolving", "math", "mio", "lg", "dispatch",
    "not_selected",
)  # fmt: skip
SELECTED, WAIT, SHORT, LONG, AT_BARRIER, RESOLVING, MATH, MIO, LG, DISPATCH, NOT_SELECTED = range(11)

# Events: time, kind, warp, instruction, detail. Stalls are told when they end.
EVENTS = ("issued", "stalled", "served", "barrier reached", "barrier left", "block started", "block ended")
ISSUED, STALLED, SERVED, REACHED, LEFT, STARTED, ENDED = range(7)
EVENT_COLUMNS = 5

# State of a warp (or of a stream of it), of a scheduler, of a place for a block, of the memory, of the run.
W_END, W_SEGMENT, W_TIMES, W_RUN, W_PC, W_STATE, W_BLOCK, W_SECOND = range(8)
IDLE, RUNNING, WAITING = range(3)
READY, SINCE = range(2)
S_LISTED, S_LAST, S_PORTS = range(3)
S_FREE, S_NEXT = range(2)
P_BLOCK, P_LIVE, P_ARRIVED = range(3)
M_L2_FREE, M_DRAM_FREE, M_MOVED = range(3)
OUT_STATUS, OUT_ISSUED, OUT_EVENTS, OUT_ENDED, OUT_BEGUN, OUT_MARKS, OUT_RANDOM, OUT_REQUESTS = range(8)
OUT_COLUMNS = 8
FINISHED, TIME_UP, DEADLOCK = range(3)

FOREVER = 1e300
RING = 8192  # cycles ahead for which the use of a register port is kept
READ_AFTER, WRITE_BEFORE = 2, 4  # memory and SFU read registers so long after issue, write so long before a use
