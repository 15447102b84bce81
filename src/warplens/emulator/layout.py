"""Columns and offsets of the emulator's tables, as plain numbers for compiled code."""

from __future__ import annotations

# What is counted per instruction. Of what passes L1: accesses; pairs of sectors, as DRAM gives them; accesses, and
# those that keep a stride seen before; then the number of the array touched last, and one; the line of the last one,
# and its last strides.
(EXECUTED, THREADS, REQUESTS, USEFUL_BYTES, SECTORS, LINES, WAVEFRONTS, QUEUE, L1_HITS, L2_SECTORS, L2_HITS, REPLAYS,
 PASSED, PAIRS, LOOKUPS, REGULAR, ARRAY, LAST_LINE, STRIDE) = range(19)  # fmt: skip
STRIDES = 4
STATISTICS = STRIDE + STRIDES

# Places in the scratch array: an address per lane, lines touched with their sectors, what failed, the last array, how
# the addresses lie, for each bank of shared memory its first word and how many different ones it has to serve, and a
# small hash table (see wavefronts.py): its keys, its slots, and the number of its use; the row of its pattern (see
# wavefronts.py), or -1; rows of the trace; where in shared memory each lane copies to; the wavefronts of the access;
# where in L1 the lines of the last one were.
(ADDRESS, LINE, LINE_SECTORS, ERROR, HINT, PATTERN, WORD, COUNT, KEYS, SLOTS, USE, RECALLED, TRACED, INTO, PASSES,
 FOUND, SCRATCH) = (0, 32, 64, 96, 104, 105, 106, 138, 170, 234, 362, 363, 364, 365, 397, 398, 430)  # fmt: skip
SCATTERED, CONTIGUOUS, SAME = range(3)
PATTERN_ROWS, PATTERN_COLUMNS = 512, 166  # of the table of patterns: a power of two, see wavefronts.py

# Columns of the table of warps: block x, y, z, SM, warp in block, number in the grid; which resident block; lanes that
# have not ended; groups and instructions so far; what a barrier's reduction gave; then the groups: place, lanes, state,
# what it waits for; then for each lane the lanes that it meets at B0 to B15.
PLACE, SM, WARP, NUMBER, SLOT, LIVE, GROUPS, WORK, RESULT = 0, 3, 4, 5, 6, 7, 8, 9, 10
PC, MASK, STATE, DATA = 28, 61, 94, 127
DELAY, YIELDS, SYNC = 12, 13, 160  # turns to wait before the first instruction; how often lanes gave way in vain
WARP_COLUMNS = 160 + 16 * 32
# Columns of the table of blocks: threads that have not ended; of each of sixteen barriers the threads there, those that
# it waits for (0: all), and of its predicate: how many said yes, whether one said no, whether any was asked for.
ALIVE, ARRIVED, EXPECTED, REDUCED, SAID_NO, ASKED_ANY = 0, 4, 20, 36, 52, 68
BLOCK_COLUMNS = 84
# Counters: whether some value is unknown, instructions, unknown ones, stores of unknown values; where to go on after
# memory has grown: warp, group, what is left of its turn; bytes of the heap in use; accesses that were assumed; all
# accesses but those to shared memory; the number of an instruction that read beyond a constant bank, and one.
(SOME_UNKNOWN, EXECUTED_ALL, EXECUTED_UNKNOWN, STORED_UNKNOWN, NEXT_WARP, NEXT_GROUP, NEXT_TURN, HEAP_USED,
 ASSUMED_ACCESSES, ACCESSES, BEYOND, FLAGS) = range(12)  # fmt: skip
# The state of a group.
READY, AT_SYNC, AT_WARPSYNC, AT_BARRIER, AT_PHASE = 1, 2, 3, 4, 5
# How an instruction went.
FINE, OUT_OF_RANGE, MISALIGNED, NO_PAGES, SHARED_RANGE, LOCAL_RANGE = range(6)
TRAPPED, UNKNOWN_BRANCH, UNKNOWN_ADDRESS, BAD_TARGET, WAITS, BAD_CALL = 20, 21, 22, 23, 24, 25
# Generic addresses, by their upper words: where the windows of shared and local memory lie, and the functions of the
# system. Below them the variables of the module, the heap, then the arrays.
SHARED_WINDOW, LOCAL_WINDOW, SYSTEM_WINDOW = 0x7F00, 0x7F01, 0x7
PARAMETERS = 0xB_0000_0000
BANKS, BANK_BYTES = 8, 1 << 16  # of constants
HEAP, HEAP_BYTES = 0xC_0000_0000, 8 << 20  # as large as CUDA's by default
# What a launch file assumes of a branch that nobody knows: the share taken (in parts of 2^20), or turns of its loop; of
# an access to places that nobody knows: bytes from a thread to the next.
ASSUMED_SHARE, ASSUMED_TRIPS, ASSUMED_STRIDE = 1, 2, 3
# Of some accesses to global memory the places are kept: lanes, how many bytes each asks for, then its places.
SAMPLE_LANES, SAMPLE_SIZE, SAMPLE_PLACES, SAMPLE_COLUMNS = 0, 1, 2, 34
