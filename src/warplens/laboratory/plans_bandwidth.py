"""How bandwidth is measured: DRAM by reads and writes, the caches by width and stride, what is written back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from warplens.laboratory.entry import Effort, Entry, Sample
from warplens.laboratory.gpu_session import GIB, KIB, MIB, Laboratory, Unfit
from warplens.laboratory.plans import kept, some_sm, trips_for
from warplens.laboratory.traffic import SLICE

_FIRST_LEVEL_BYTES = 200 * KIB  # what surely lies in the first level, if it is given all that it may have


def dram_bandwidth(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Stream through arrays of N and 2N bytes: the difference of the times is that of N bytes."""
    for kernel in entry.kernels:
        reads, writes, width = (kernel.facts[key] for key in ("reads", "writes", "width"))
        piece = 256 * kernel.facts["slice"] * width * kernel.facts["stride"]
        size = min(GIB, (lab.data_bytes - GIB) // (reads + writes) // 2) // piece * piece
        lab.launch(kernel.name, 1, 256, size=2 * size, trips=1, c=0x7FC12345)  # loads the kernel
        for repetition in range(4 * effort.repetitions):  # each is known to a percent, and the best counts
            point = {"bytes": size * (reads + writes), **kernel.facts, "repetition": repetition}
            yield point, lab.watched(partial(_streamed, lab, kernel.name, size, piece))
            if writes:
                lab.forget()


def _streamed(lab: Laboratory, name: str, size: int, piece: int) -> dict[str, float]:
    """Return the seconds of streaming through so many bytes of each array, and through twice as many."""
    seconds = []
    for bytes_each in (size, 2 * size):
        lab.flush()
        lab.gpu.mark(0)
        lab.launch(name, bytes_each // piece, 256, size=2 * size, trips=1, c=0x7FC12345)
        lab.gpu.mark(1)
        seconds.append(lab.gpu.elapsed_seconds())
    return {"seconds_n": seconds[0], "seconds_2n": seconds[1]}


def copy_bandwidth(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """The driver's own copy within the GPU's memory, to compare with; counted both ways."""
    size = min(2 * GIB, (lab.data_bytes - GIB) // 2)
    lab.gpu.copy(lab.data + size, lab.data, size)
    for repetition in range(effort.repetitions):
        yield {"bytes": 2 * size, "repetition": repetition}, lab.watched(partial(_copied, lab, size))
    lab.forget()


def _copied(lab: Laboratory, size: int) -> dict[str, float]:
    lab.gpu.mark(0)
    lab.gpu.copy(lab.data + size, lab.data, size)
    lab.gpu.mark(1)
    return {"seconds": lab.gpu.elapsed_seconds()}


def written_back(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Write the same bytes over and over, four times and eight, over growing footprints: what stays in the L2 cache."""
    kernel = entry.kernels[0]
    piece = 256 * SLICE * kernel.facts["width"]
    for size in [MIB * n for n in (2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 192, 256, 512)]:
        for repetition in range(effort.repetitions):
            point = {"bytes": size, "passes": 4, **kernel.facts, "repetition": repetition}
            yield point, lab.watched(partial(_overwritten, lab, kernel.name, size, size // piece))
    lab.forget()


def _overwritten(lab: Laboratory, name: str, size: int, blocks: int) -> dict[str, float]:
    seconds = []
    for passes in (4, 8):
        lab.flush()
        lab.launch("blocks", 1, 32, size=1_000_000)  # the launches wait behind it, one close to the other
        lab.gpu.mark(0)
        for _ in range(passes):
            lab.launch(name, blocks, 256, size=size, trips=1, c=0x7FC12345)
        lab.gpu.mark(1)
        seconds.append(lab.gpu.elapsed_seconds())
    return {"seconds_n": seconds[0], "seconds_2n": seconds[1]}


def cache_bandwidth(lab: Laboratory, entry: Entry, effort: Effort) -> Iterator[Sample]:
    """Loads and stores of the same lines over and over: T and 2T trips, all SMs and one."""
    where = entry.parameters["where"]
    for kernel in entry.kernels:
        reach = kernel.facts["reach"]
        for warps in (32, lab.facts.warps_per_sm_max):
            try:
                place = lab.place(kernel.name, warps, limit=where != "l1")
            except Unfit:
                continue
            if where == "l1":
                lab.gpu.carve_out(lab.function(kernel.name), 0)
            each = reach * place.blocks_per_sm
            if (
                each > _FIRST_LEVEL_BYTES
                if where == "l1"
                else 3 * each * lab.facts.sm_count > lab.facts.attributes["l2_bytes"]
            ):
                continue
            given = {"a": reach, "c": 0x7FC12345}
            trips = max(8, trips_for(lab, kernel.name, place, **given))
            for sms in (lab.facts.sm_count, 1):
                if sms == 1 and place.blocks_per_sm > 1:  # not all blocks would be on an SM of their own
                    continue
                point = {"where": where, "warps": warps, "sms": sms, "trips": trips, **kernel.facts}
                blocks = place.blocks_per_sm * lab.facts.sm_count
                for repetition in range((2 if sms == 1 else 1) * effort.repetitions):
                    values: dict[str, float] = {}
                    given["size"] = some_sm(lab, repetition) + 1 if sms == 1 else 0
                    for suffix, turns in (("_n", trips), ("_2n", 2 * trips)):
                        made = lab.sample(kernel.name, blocks, place.threads, place.shared, trips=turns, **given)
                        values |= {**kept(made, suffix), f"mean_span_cycles{suffix}": made["mean_span_cycles"]}
                    yield {**point, "repetition": repetition}, values
    lab.forget()
