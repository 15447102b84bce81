"""Global memory made when touched: pages of 1 KiB, filled by sectors of 32 bytes from the launch file's functions.

The same functions as `warplens.workload.contents`, for compiled code; a test holds the two together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from warplens.emulator.bits import bits_of, bits_of_double, compiled, inlined
from warplens.emulator.half import to_half
from warplens.emulator.handlers import FILL, call, service
from warplens.emulator.layout import FINE
from warplens.workload.contents import parse_fill
from warplens.workload.launch import SCALAR_BYTES, Argument

PAGE_WORDS = 256
PAGE_BYTES = 4 * PAGE_WORDS
SECTOR_WORDS = 8
ZEROS, ONES, IOTA, LINEAR, RANDOM, RANDOM_INT, HASH_MOD, PERMUTATION, CYCLE, GIVEN, UNIFORM = range(11)
KINDS = {"zeros": ZEROS, "ones": ONES, "iota": IOTA, "linear": LINEAR, "random": RANDOM, "random_int": RANDOM_INT,
         "hash_mod": HASH_MOD, "permutation": PERMUTATION, "cycle": CYCLE, "file": GIVEN,
         "uniform": UNIFORM}  # fmt: skip
# Columns of the table of arrays.
BASE, BYTES, FIRST_PAGE, SIZE, KIND, SEED, COUNT, IS_FLOAT, IS_BF16, START, STEP, GIVEN_AT, CHANGED = range(13)
COLUMNS = 13
_KEPT_PAGES = 1 << 16  # of arrays that are only read: 64 MiB need not be made again


class Pages(NamedTuple):
    """Arrays (a row each, see the columns), their page table, the pages.

    An entry of the page table is one more than the number of a page, or 0; the last entry counts the pages in use.
    """

    arrays: Any
    numbers: Any  # start and step of linear() as floats, start and span of uniform()
    table: Any
    words: Any
    filled: Any  # per page: which of its 32 sectors are filled, a bit each
    slots: Any  # per page: its entry of the page table
    given: Any  # bytes of arrays read from files


def array_row(argument: Argument, seed: int) -> tuple[Any, tuple[float, float]]:
    """Return the row of an array in the table of arrays."""
    name, numbers = parse_fill(argument)
    row = np.zeros(COLUMNS, np.int64)
    size = SCALAR_BYTES[argument.element]
    row[BYTES] = (argument.count or 0) * size
    row[SIZE], row[KIND], row[SEED] = size, KINDS[name], seed
    row[COUNT] = argument.count or 0
    row[IS_FLOAT], row[IS_BF16] = argument.element[0] in "fb", argument.element == "bf16"
    pair = (0.0, 0.0)
    if name == "uniform":
        pair = (float(numbers[0]), float(numbers[1] - numbers[0]))
    elif name == "linear" and not all(isinstance(n, int) for n in numbers):
        pair = (float(numbers[0]), float(numbers[1]))
    elif name in ("linear", "random_int"):
        low, high = numbers
        row[START], row[STEP] = low, high if name == "linear" else high - low
    elif name == "hash_mod":
        row[STEP] = numbers[0]
    return row, pair


def forget(pages: Pages) -> int:
    """Let all arrays have their first contents again; return how many pages were in use."""
    used = int(pages.table[-1])
    slots = pages.slots[:used]
    if used > _KEPT_PAGES:
        pages.table[slots] = pages.table[-1] = 0
        pages.filled[:used] = 0
    else:
        array = np.searchsorted(pages.arrays[:, FIRST_PAGE], slots, side="right") - 1
        pages.filled[:used][pages.arrays[array, CHANGED] != 0] = 0
    pages.arrays[:, CHANGED] = 0
    return used


def doubled(rows: Any) -> Any:
    """Return so many rows again, of zeros, behind those that are there."""
    made = np.zeros((2 * len(rows), *rows.shape[1:]), rows.dtype)
    made[: len(rows)] = rows
    return made


@compiled
def _mixed(index: Any, seed: int) -> Any:
    z = np.uint64(index) + np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled
def _permuted(index: Any, count: int, seed: int) -> Any:
    half = np.int64(1)
    while (np.int64(1) << (2 * half)) < max(np.int64(2), np.int64(count)):
        half += 1
    mask = (np.int64(1) << half) - 1
    value = np.int64(index)
    while True:
        left, right = value >> half, value & mask
        for turn in range(4):
            left, right = right, left ^ (np.int64(_mixed(right, seed * 4 + turn + 1)) & mask)
        value = (left << half) | right
        if value < count or count == 0:
            return value


@compiled
def _element(a: Any, numbers: Any, index: Any) -> Any:
    """Return the bits of one element."""
    kind, size, seed = a[KIND], a[SIZE], a[SEED]
    whole, real, is_real = np.int64(0), 0.0, False
    if kind == ONES:
        whole = np.int64(1)
    elif kind == IOTA:
        whole = np.int64(index)
    elif kind == LINEAR:
        if a[START] or a[STEP] or (numbers[0] == 0.0 and numbers[1] == 0.0):
            whole = a[START] + a[STEP] * np.int64(index)
        else:
            real, is_real = numbers[0] + numbers[1] * np.float64(index), True
    elif kind == PERMUTATION:
        whole = _permuted(index, a[COUNT], seed)
    elif kind == CYCLE:
        whole = (np.int64(index) * 1664525 + 1013904223) & max(np.int64(0), a[COUNT] - 1)
    elif kind in (RANDOM, UNIFORM):
        bits = _mixed(index, seed)
        if not a[IS_FLOAT]:
            return bits
        real, is_real = np.float64(bits >> np.uint64(40)) * 2.0**-24, True
        if kind == UNIFORM:
            real = numbers[0] + numbers[1] * real
    elif kind != ZEROS:
        whole = np.int64(_mixed(index, seed) % np.uint64(a[STEP])) + a[START]
    if not a[IS_FLOAT]:
        return np.uint64(np.int64(real)) if is_real else np.uint64(whole)
    if size == 4:
        return np.uint64(bits_of(np.float32(real)) if is_real else bits_of(np.float32(whole)))
    value = real if is_real else np.float64(whole)
    if size == 8:
        return bits_of_double(value)
    return np.uint64(to_half(np.float64(np.float32(value)) if a[IS_BF16] else value, a[IS_BF16], 0))


@compiled
def _fill_sector(pages: Any, array: int, words: Any, at: int, offset: Any) -> None:
    """Fill one sector; `offset` is where it starts in the array, in bytes."""
    a, numbers = pages.arrays[array], pages.numbers[array]
    kind, size, seed = a[KIND], a[SIZE], a[SEED]
    if kind == ZEROS:
        for w in range(SECTOR_WORDS):
            words[at + w] = 0
        return
    if kind == GIVEN:
        for w in range(SECTOR_WORDS):
            value = np.uint32(0)
            for k in range(4):
                place = offset + 4 * w + k
                if place < a[BYTES]:
                    value |= np.uint32(pages.given[a[GIVEN_AT] + place]) << np.uint32(8 * k)
            words[at + w] = value
        return
    first = offset // size
    if size == 8:
        for e in range(SECTOR_WORDS // 2):
            bits = _element(a, numbers, first + e)
            words[at + 2 * e] = np.uint32(bits & np.uint64(0xFFFFFFFF))
            words[at + 2 * e + 1] = np.uint32(bits >> np.uint64(32))
        return
    if kind == RANDOM and size == 4 and a[IS_FLOAT]:  # the most frequent: a loop that the compiler makes vectors of
        for w in range(SECTOR_WORDS):
            words[at + w] = bits_of(np.float32(np.float64(_mixed(first + w, seed) >> np.uint64(40)) * 2.0**-24))
        return
    per_word = 4 // size
    keep = np.uint64(0xFFFFFFFF) >> np.uint64(32 - 8 * size)
    for w in range(SECTOR_WORDS):
        value = np.uint64(0)
        for k in range(per_word):
            value |= (_element(a, numbers, first + w * per_word + k) & keep) << np.uint64(8 * size * k)
        words[at + w] = np.uint32(value)


@service(FILL)
def _fill(m: Any, array: int, page: int, offset: int, missing: Any) -> int:
    """Fill the missing sectors of a page, which starts at `offset` in the array."""
    pages = m.pages
    words = pages.words[page]
    for sector in range(32):
        if missing >> np.uint32(sector) & np.uint32(1):
            _fill_sector(pages, array, words, SECTOR_WORDS * sector, offset + 32 * sector)
    pages.filled[page] |= missing
    return FINE


@inlined
def no_pages(m: Any) -> bool:
    """Whether there may be too few pages left for what one instruction touches."""
    return m.pages.table[-1] + 64 > m.pages.words.shape[0]


@compiled
def find_array(pages: Any, address: Any, size: Any) -> int:
    """Return the array that holds some bytes, or -1."""
    arrays = pages.arrays
    for i in range(arrays.shape[0]):
        offset = address - arrays[i, BASE]
        if 0 <= offset <= arrays[i, BYTES] - size:
            return i
    return -1


@compiled
def page_of(m: Any, array: int, offset: Any, wanted: Any) -> Any:
    """Return the page of a place in an array, with these of its sectors filled; -2: no pages left."""
    pages = m.pages
    slot = pages.arrays[array, FIRST_PAGE] + (offset >> 10)
    page = np.int64(pages.table[slot]) - 1
    if page < 0:
        page = np.int64(pages.table[-1])
        if page >= pages.words.shape[0]:
            return np.int64(-2)
        pages.table[-1] = page + 1
        pages.table[slot] = page + 1
        pages.slots[page] = slot
    missing = np.uint32(wanted & np.uint32(pages.filled[page] ^ np.uint32(0xFFFFFFFF)))
    if missing:
        call(m.services[FILL], m, array, page, (offset >> 10) << 10, missing)
    return page


@compiled
def array_of(m: Any, address: Any, size: Any, hint: int) -> int:
    """Return the array that holds some bytes, mostly this one; -1: none."""
    offset = address - m.pages.arrays[hint, BASE]
    return hint if 0 <= offset <= m.pages.arrays[hint, BYTES] - size else find_array(m.pages, address, size)


@compiled
def locate(m: Any, address: Any, size: Any, hint: int) -> Any:
    """Return (page, word in it, array) of some bytes of a page; page -1: no array holds them, -2: no pages left."""
    array = array_of(m, address, size, hint)
    if array < 0:
        return np.int64(-1), np.int64(0), hint
    offset = address - m.pages.arrays[array, BASE]
    first, last = np.uint32((offset >> 5) & 31), np.uint32(((offset + size - 1) >> 5) & 31)
    wanted = np.uint32((np.uint32(0xFFFFFFFF) >> np.uint32(np.uint32(31) - last + first)) << first)
    return page_of(m, array, offset, wanted), (offset >> 2) & (PAGE_WORDS - 1), array


@compiled
def locate_line(m: Any, line: Any, sectors: Any, end: Any, hint: int) -> Any:
    """Return (page, array) of some sectors of a line, up to so many bytes of it; page as `locate` has it."""
    array = array_of(m, line << 7, end, hint)
    if array < 0:
        return np.int64(-1), hint
    return page_of(m, array, (line << 7) - m.pages.arrays[array, BASE], sectors << np.uint32(4 * (line & 7))), array
