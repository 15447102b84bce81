"""How accesses in no order are measured, what L2 keeps to write back, and what a kernel's first instructions cost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from warplens.laboratory import stamps
from warplens.laboratory.entry import Effort, Entry, Sample
from warplens.laboratory.gpu_session import GIB, MIB, Laboratory
from warplens.laboratory.plans import between_events
from warplens.laboratory.plans_memory import ELSEWHERE_BYTES
from warplens.laboratory.traffic import SLICE

_BLOCKS_PER_SM, _THREADS = 2, 1024
_TRIPS, _FEW_TRIPS = 32, 8  # of four accesses; where few words are shared by all
_AHEAD_CYCLES = 200_000  # in which all that is to be timed is asked for
LINES = (1, 8, 32, 128, 512, 2048, 8192)  # that all additions share
PLACES = 20  # where they lie, in each repetition: which parts of L2 they fall into decides
_VISITS = 12  # of each line before single ones are timed
_SINGLES, _FIRST = 512, 32  # accesses that each SM times, and others before them, which fill the instruction caches
_LINE_BYTES, _BIN_CYCLES = 128, 32


def _twice(lab: Laboratory, name: str, trips: int, **given: Any) -> dict[str, float]:
    """Return the seconds of a launch with so many trips and with twice as many."""
    seconds = []
    for turns in (trips, 2 * trips):
        lab.launch("blocks", 1, 32, size=_AHEAD_CYCLES)  # the others wait behind it, one close to the other
        lab.gpu.mark(0)
        lab.launch(name, _BLOCKS_PER_SM * lab.facts.sm_count, _THREADS, trips=turns, **given)
        lab.gpu.mark(1)
        seconds.append(lab.gpu.elapsed_seconds())
    return {"seconds_n": seconds[0], "seconds_2n": seconds[1]}


def packet_rates(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Every kernel with the entry's shapes: lanes to a place, bytes from lane to lane, bytes of a place."""
    size = entry.parameters["bytes"]
    if 2 * size + GIB > lab.data_bytes:
        return
    for kernel in entry.kernels:
        for lanes, apart, place in entry.parameters["shapes"]:
            if lanes > 1 and apart < kernel.facts["width"]:
                continue
            given = {"size": size, "a": lanes, "b": apart, "c": place}
            threads = _BLOCKS_PER_SM * lab.facts.sm_count * _THREADS
            point = {"bytes": size, "lanes": lanes, "apart": apart, "place": place, **kernel.facts,
                     "threads": threads, "trips": _TRIPS}  # fmt: skip
            _twice(lab, kernel.name, _TRIPS, **given)  # loads the kernel, fills the L2 cache
            for repetition in range(2 * effort.repetitions):
                values = lab.watched(partial(_twice, lab, kernel.name, _TRIPS, **given))
                yield {**point, "repetition": repetition}, values
    lab.forget()


def addition_rates(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Additions to so many lines that all share, each alone in its sector, in many places."""
    for kernel in entry.kernels:
        for lines in LINES:
            lanes, words = (1 if lines < 64 else 8), (1 if lines == 1 else 32 * lines)
            trips = _FEW_TRIPS if words < 1024 else _TRIPS
            adds = _BLOCKS_PER_SM * lab.facts.sm_count * _THREADS // 32 * lanes * kernel.facts["accesses"] * trips
            _twice(lab, kernel.name, 1, size=words, a=lanes)
            for repetition in range(effort.repetitions):
                given = {"name": kernel.name, "trips": trips, "size": words, "a": lanes}
                point = {"lines": lines, "lanes": lanes, "words": words, "adds": adds, **kernel.facts}
                values = lab.watched(partial(_in_places, lab, repetition, **given))
                yield {**point, "repetition": repetition}, values
    lab.forget()


def _in_places(lab: Laboratory, repetition: int, **given: Any) -> dict[str, list[int]]:
    """Return the nanoseconds of additions in many places, N and 2N of them."""
    taken = []
    for place in range(repetition * PLACES, (repetition + 1) * PLACES):
        taken.append(_twice(lab, offset=place * ELSEWHERE_BYTES % (lab.data_bytes - GIB), **given))
    return {
        key: [round(1e9 * one[f"seconds_{end}"]) for one in taken]
        for key, end in (("nanoseconds_n", "n"), ("nanoseconds_2n", "2n"))
    }


def left_to_write(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Write some bytes, then read many others: how much longer that takes by how much was written.

    While the L2 cache keeps all that was written, each further byte must be written back while the others are read;
    beyond, it was written back before.
    """
    write, read = entry.kernels
    many = 256 * MIB
    for size in [MIB * n for n in (0, 8, 16, 20, 24, 28, 32, 40, 64, 96, 128)]:
        for repetition in range(8 * effort.repetitions):
            values = lab.watched(partial(_read_behind, lab, write.name, read.name, size, many))
            yield {"bytes": size, "read": many, "repetition": repetition}, values
    lab.forget()


def _read_behind(lab: Laboratory, write: str, read: str, size: int, many: int) -> dict[str, float]:
    lab.launch("blocks", 1, 32, size=500_000)  # the others wait behind it, one close to the other
    lab.flush()
    if size:
        lab.launch(write, size // (256 * SLICE * 16), 256, size=size, trips=1, c=0x7FC12345)
    lab.gpu.mark(0)
    lab.launch(read, many // (256 * SLICE * 16), 256, size=many, trips=1, c=0x7FC12345, offset=GIB)
    lab.gpu.mark(1)
    return {"seconds": lab.gpu.elapsed_seconds()}


def first_instructions(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """A kernel of one load and one store of each thread, and an empty one, from event to event in a full queue."""
    for repetition in range(20 * effort.repetitions):
        for kernel in entry.kernels:
            values = lab.watched(partial(between_events, lab, kernel.name, lab.facts.sm_count, 256))
            yield {"kernel": kernel.name, "repetition": repetition}, values
    lab.forget()


def residence(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """All SMs visit the lines of a footprint in no order, then each times some: how many of them L2 still has.

    A line that is asked for by atomics is at one place; one that is read may be kept in both halves of L2.
    """
    whole = lab.facts.attributes["l2_bytes"]
    for visit, single in (entry.kernels[:2], entry.kernels[2:]):
        for part in entry.parameters["quick_parts" if effort.quick else "parts"]:
            lines = whole * part // entry.parameters["of"] // _LINE_BYTES
            if lines * _LINE_BYTES + GIB > lab.data_bytes:
                continue
            for repetition in range(effort.repetitions):
                found = lab.watched(partial(_visited, lab, visit.name, single.name, lines, repetition))
                point = {"bytes": lines * _LINE_BYTES, **single.facts, "repetition": repetition}
                yield point, found


def _visited(lab: Laboratory, visit: str, single: str, lines: int, repetition: int) -> dict[str, Any]:
    lab.flush()
    sms, seed = lab.facts.sm_count, repetition * 7919 + 12345
    threads = _BLOCKS_PER_SM * sms * _THREADS
    trips = -(-min(_VISITS * lines, 1 << 24) // (4 * threads))
    lab.launch(visit, _BLOCKS_PER_SM * sms, _THREADS, size=lines, trips=trips, c=seed)
    place, many = lab.place(single, 1), _FIRST + _SINGLES
    stamps.columns(lab.stamped(single, sms, 32, place.shared, size=lines, trips=many, c=seed + 1))
    taken = lab.results(sms * many).reshape(sms, many)[:, _FIRST:]
    counts = np.bincount(np.minimum(taken // _BIN_CYCLES, 63).ravel().astype(int))
    return {"mean_cycles": round(float(taken.mean()), 2), "bin_cycles": _BIN_CYCLES, "histogram": counts.tolist()}
