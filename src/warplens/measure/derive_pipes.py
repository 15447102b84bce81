"""From what stands among adds to issue slots; the register file's banks."""

from __future__ import annotations

from collections.abc import Iterator

from warplens.measure.numbers import Number, digits
from warplens.measure.pipes import ADDS, AMONG
from warplens.measure.samples import Reading, Samples, links_per_cycle

_SCHEDULERS = 4
_CONFLICT = 1.3  # cycles per instruction, as compared with those without, from which on it is one


def _cycles(samples: Samples, entry: str) -> Reading | None:
    """Return a scheduler's cycles per body, or per link, where they are least over occupancies."""
    by_warps = samples.take(entry, lambda p, v: _SCHEDULERS / links_per_cycle(p, v), "warps")
    return min(by_warps.values(), key=lambda reading: reading.median, default=None)


def slots(samples: Samples) -> Iterator[Number]:
    """Issue slots of memory instructions, special functions and others among adds (Volkov 2016 §4.7, §4.12)."""
    for name in AMONG:
        taken = []
        for adds in ADDS if name else ():
            both, alone = _cycles(samples, f"issue.{name}.k{adds}"), _cycles(samples, f"issue.adds.k{adds}")
            if both and alone:
                taken.append((adds, both.median - alone.median, both))
        if not taken:
            continue
        adds, cycles, reading = min(taken, key=lambda one: one[1])
        among = " and ".join(f"{n} adds {c:.2f}" for n, c, _ in taken)
        how = f"cycles of a scheduler, less those of the adds alone: among {among}; {reading}"
        if name == "ldg":  # the others are chains of their own, too
            yield Number("operations.ldg.kind", "load")
        yield Number(f"operations.{name}.issue_slots", digits(cycles, 3), f"issue.{name}.k{adds}", how)
        if name == "imad_wide":
            yield Number("instructions.imul_wide.issue_slots", float(round(cycles)), f"issue.{name}.k{adds}",
                         f"in whole slots; {how}")  # fmt: skip


def banks(samples: Samples) -> Iterator[Number]:
    """Whether the register file has two banks: by FFMA with three registers that are even or odd alike, or not."""
    found = {classes: _cycles(samples, f"issue.banks.{classes}") for classes in ("same4", "same2", "mixed")}
    cycles = {classes: reading.median for classes, reading in found.items() if reading}
    if len(cycles) == 3 and min(cycles["same4"], cycles["same2"]) > _CONFLICT * cycles["mixed"]:
        how = (
            f"FFMA with three registers, all even or all odd: {cycles['same4']:.2f} cycles of a scheduler, though not "
            f"the same modulo four: {cycles['same2']:.2f}; even and odd: {cycles['mixed']:.2f}"
        )
        yield Number("sm.register_banks", 2.0, "issue.banks.same4, same2 and mixed", how)


STEPS = (slots, banks)
