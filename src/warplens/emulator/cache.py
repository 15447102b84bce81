"""Caches as sets of lines with sectors: which sectors of an access hit, what goes on to the next level.

A cache is a table of ways per set: tag, which of its four 32-byte sectors are there, which are dirty, when it was last
used; the line used longest ago makes room. L1 belongs to an SM, keeps what it writes and writes it through; L2 is one
for the chip, keeps what is written and writes it back when the line is replaced. What passes L1 is also marked in a map
of sectors per page, read and written apart: the footprint of what has run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warplens.emulator import ops
from warplens.emulator.bits import compiled
from warplens.emulator.handlers import CACHES, service
from warplens.emulator.layout import (
    ARRAY,
    FINE,
    FOUND,
    L1_HITS,
    L2_HITS,
    L2_SECTORS,
    LAST_LINE,
    LINE,
    LINE_SECTORS,
    LOOKUPS,
    PAIRS,
    PASSED,
    PASSES,
    REGULAR,
    REPLAYS,
    STRIDE,
    STRIDES,
)
from warplens.emulator.pages import BASE, BYTES, find_array, page_of

# Planes of a cache: tags, sectors present, sectors dirty, time of last use; the way behind the last one counts.
TAG, PRESENT, DIRTY, USED = range(4)
TIME = 0  # the set in whose extra way the last plane counts accesses
# Kinds of access.
LOAD, STORE, ATOMIC = range(3)
# Words of the map per page: sectors read, sectors written.
READ, WRITTEN, MAP_WORDS = 0, 1, 2

# Lines that L1 is asked for, within which DRAM has not answered: so many of a warp's are some 64 times as many where
# all warps of an SM take turns, a cycle and more each.
_UNDER_WAY = 12
# Lines that a warp stores in between, so that a sector that it stored still waits in L1. Counted by ncu on an H200
# (partial_stores.json): if 64 warps store in turn to 2 lines each, every sector is sent once; to 4 lines,
# between once (where other instructions spread them) and twice; to 8 lines, every time. Few warps join more.
_WAITING_LINES = 4

_EXACT = np.uint64(1 << 53)  # up to here floats are whole numbers

Cache = npt.NDArray[np.int64]  # [planes, caches, sets, ways + 1]


def new_cache(count: int, size_bytes: int, ways: int, line_bytes: int = 128) -> Cache:
    """Make `count` empty caches of this size; the least is two sets of one way."""
    ways = min(ways, max(1, size_bytes // line_bytes))
    sets = max(2, size_bytes // (line_bytes * ways))
    made = np.zeros((4, count, sets, ways + 1), np.int64)
    made[TAG] = -1
    return made


@compiled
def _index(line: Any, sets: int) -> Any:
    """Spread lines over the sets: strides that are powers of two must not all meet in one."""
    mixed = np.uint64(line)
    mixed ^= mixed >> np.uint64(17)
    mixed ^= (mixed >> np.uint64(9)) * np.uint64(0x9E37)
    if mixed >= _EXACT:
        return np.int64(mixed % np.uint64(sets))
    whole = np.int64(mixed)  # dividing floats is faster, and off by one at most, where a quotient is rounded up
    left = whole - np.int64(np.float64(whole) / np.float64(sets)) * sets
    return left + sets if left < 0 else left


@compiled
def _bits(mask: Any) -> int:
    return (mask & 1) + (mask >> 1 & 1) + (mask >> 2 & 1) + (mask >> 3 & 1)


@compiled
def _keep(cache: Any, which: int, line: Any, wanted: Any, write: bool, guess: Any) -> Any:
    """Ask a cache for sectors of a line, keep them; return which of them were there, all that were, their age, and
    where the line is (256 times the set, and the way). It is looked for first where it is guessed to be.
    """
    ways = cache.shape[3] - 1
    now = cache[USED, which, TIME, ways] + 1
    cache[USED, which, TIME, ways] = now
    at, way, present = guess >> np.uint64(8), guess & np.uint64(255), np.int64(0)
    if cache[TAG, which, at, way] == line:
        present = cache[PRESENT, which, at, way]
    else:
        at = np.uint64(_index(line, cache.shape[2]))
        tags, used = cache[TAG, which, at], cache[USED, which, at]
        oldest, when, there = 0, np.int64(2**62), -1
        for k in range(ways):
            if tags[k] == line:
                there = k
                break
            if used[k] < when:
                oldest, when = k, used[k]
        if there >= 0:
            way = np.uint64(there)
            present = cache[PRESENT, which, at, way]
        else:
            way = np.uint64(oldest)
            tags[oldest] = line
            cache[DIRTY, which, at, way] = 0
    age = now - cache[USED, which, at, way]
    cache[PRESENT, which, at, way] = present | wanted
    if write:
        cache[DIRTY, which, at, way] |= wanted
    cache[USED, which, at, way] = now
    return present & wanted, present, age, at << np.uint64(8) | way


@compiled
def _joined(l1: Any, which: int, line: Any, wanted: Any) -> Any:
    """Take note of sectors of a line in L1 that are stored; return which of them go to L2 with an earlier store.

    What is stored waits, and a sector that is stored again meanwhile, whole or in parts, is sent once. It waits until
    its warp has stored some other lines, or loads something, which takes long. The plane of dirty sectors, of which L1
    has none, holds the sectors that wait and, above them, when they came, by the count of lines in its extra way.
    """
    ways = l1.shape[3] - 1
    at = _index(line, l1.shape[2])
    l1[DIRTY, which, 0, ways] += 1
    now = l1[DIRTY, which, 0, ways]
    for k in range(ways):
        if l1[TAG, which, at, k] == line:
            pending = l1[DIRTY, which, at, k]
            waiting = pending & 15 if now - (pending >> 4) <= _WAITING_LINES else 0
            l1[DIRTY, which, at, k] = now << 4 | waiting | wanted
            return waiting & wanted
    return np.int64(0)


@compiled
def _mark(memory: Any, line: Any, sectors: Any, kind: int, hint: int) -> Any:
    """Mark sectors in the map of their page; return the array that they are of, mostly that of those before them."""
    arrays = memory.pages.arrays
    offset, array = (line << 7) - arrays[max(hint, 0), BASE], hint
    if hint < 0 or offset < 0 or offset >= arrays[hint, BYTES]:
        array = find_array(memory.pages, line << 7, np.int64(1))
        if array < 0:
            return hint
        offset = (line << 7) - arrays[array, BASE]
    page = page_of(memory, array, offset, np.uint32(0))  # of what nobody moves it is new
    if page < 0 or page >= memory.touched.shape[0]:
        return array
    bits = np.uint32(sectors) << np.uint32(4 * (line & 7))
    if kind != STORE:
        memory.touched[page, READ] |= bits
    if kind != LOAD:
        memory.touched[page, WRITTEN] |= bits
    return array


@compiled
def _follow_stride(row: Any, line: Any) -> None:
    """Count an access, and whether it is as far from the last one of this instruction as one shortly before was."""
    step = line - row[LAST_LINE]
    row[LAST_LINE] = line
    row[LOOKUPS] += 1
    for k in range(STRIDES):
        if row[STRIDE + k] == step:
            row[REGULAR] += 1
            return
    row[STRIDE + row[LOOKUPS] % STRIDES] = step


@service(CACHES)
def _lookup(memory: Any, pc: int, count: int, sm: int, how: Any) -> int:
    """Send the lines of one access (in the scratch array) through the caches; atomics are done in L2.

    how: twice the kind of access, plus one if it is local. Where some of a load hits, what misses is done by itself
    when it is there: a wavefront more for each that has some of it (data/experiments/l1_data_path/data_path.json).
    """
    l1, l2, s, row = memory.l1, memory.l2, memory.scratch, memory.stats[pc]
    kind, local = np.int64(how >> np.uint32(1)), how & np.uint32(1) != 0
    if count > 0 and not local:
        _follow_stride(row, s[LINE])
    code, passes = memory.table[pc], s[PASSES]
    passes_by = code[ops.GROUP] == ops.MEMORY and code[ops.OP] == ops.COPY and code[ops.MODE] & 1 != 0  # BYPASS
    asks_l1, which = l1.shape[1] > 0 and kind != ATOMIC and not passes_by, np.int64(0)
    if asks_l1 and l1.shape[1] > 1:
        which = sm % l1.shape[1]
    l1_hits, l2_sectors, l2_hits, pairs = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    replays, last, array = np.int64(0), np.int64(-1), np.int64(-1)
    for i in range(count):
        line, wanted = s[LINE + i], s[LINE_SECTORS + i]
        missing = wanted
        under_way = np.int64(0)
        if asks_l1:
            hits, present, age, place = _keep(l1, which, line, wanted, False, np.uint64(s[FOUND + i]))
            s[FOUND + i] = np.int64(place)  # the next access often is to the same lines
            if kind == STORE and present:  # it needs no data of the line (data/experiments/l1_stores/stores.json)
                hits = wanted
            under_way = present if age <= _UNDER_WAY else under_way
            l1_hits += _bits(hits)
            if kind == LOAD:
                missing = wanted & ~hits
            elif not local:
                missing = wanted & ~_joined(l1, which, line, wanted)
        if missing == 0:
            continue
        wavefront = i * passes // count if passes > 1 else np.int64(0)
        if wavefront != last:
            replays, last = replays + 1, wavefront
        for pair in (3, 12):  # a sector whose neighbour was asked for just before is looked up with it
            pairs += missing & pair != 0 and under_way & pair == 0
        l2_sectors += _bits(missing)
        if not local:
            array = _mark(memory, line, missing, kind, array)
        if l2.shape[1] > 0:
            for half in range(2):  # L2 keeps halves of a line, and DRAM gives them whole
                sectors = missing >> 2 * half & 3
                if sectors == 0:
                    continue
                hits, _, _, place = _keep(l2, 0, 2 * line + half, sectors, kind != LOAD, np.uint64(0))
                if kind == STORE:  # a sector that is written needs not be read
                    hits = sectors
                elif hits != sectors:
                    _keep(l2, 0, 2 * line + half, 3, False, place)
                l2_hits += _bits(hits)
    if asks_l1 and kind == LOAD:  # what is stored waits no longer
        l1[DIRTY, which, 0, l1.shape[3] - 1] += count * _WAITING_LINES
    if array >= 0:
        row[ARRAY] = array + 1
    row[L1_HITS] += l1_hits
    row[L2_SECTORS] += l2_sectors
    row[L2_HITS] += l2_hits
    row[PAIRS] += pairs
    row[PASSED] += last >= 0
    if kind == LOAD and l1_hits:
        row[REPLAYS] += replays
    return FINE
