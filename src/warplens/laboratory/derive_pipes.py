"""From what stands among adds to issue slots; from addresses to loads; the register file's banks."""

from __future__ import annotations

from collections.abc import Iterator

from warplens.laboratory.chains import ADDRESSES
from warplens.laboratory.numbers import Number, digits
from warplens.laboratory.pipes import ADDS, AMONG
from warplens.laboratory.samples import Reading, Samples, links_per_cycle, per_link

_SCHEDULERS = 4
_LIMITED = 0.25  # slots more among few adds than among many: there the unit itself is the limit
_CONFLICT = 1.3  # cycles per instruction, as compared with those without, from which on it is one


def _cycles(samples: Samples, entry: str) -> Reading | None:
    """Return a scheduler's cycles per body, or per link, where they are least over occupancies."""
    by_warps = samples.take(entry, lambda p, v: _SCHEDULERS / links_per_cycle(p, v), "warps")
    return min(by_warps.values(), key=lambda reading: reading.median, default=None)


def slots(samples: Samples) -> Iterator[Number]:
    """Issue slots of memory instructions, special functions and others among adds (Volkov 2016 §4.7, §4.12).

    What a trip takes longer than that of the same loop without them: so what the loop itself loses does not matter.
    """
    for name in AMONG:
        taken = []
        for adds in ADDS if name else ():
            both, alone = (_trips(samples, f"slots.{one}.k{adds}") for one in (name, "adds"))
            bodies = 2 * next((p["links"] for p, _ in samples.entries.get(f"slots.{name}.k{adds}", [])), 0)
            more = {n: (both[n].median - alone[n].median) / bodies for n in both.keys() & alone.keys()}
            if more:
                warps = max(more)  # a full block: all that one warp leaves another takes
                taken.append((more[warps], adds, both[warps]))
        if not taken:
            continue
        cycles, adds, reading = taken[0] if taken[0][0] < taken[-1][0] + _LIMITED else taken[-1]
        among = " and ".join(f"{n} adds {c:.2f}" for c, n, _ in taken)
        how = f"cycles of a scheduler, less those of the adds alone in the same loop: among {among}; {reading}"
        if name == "ldg":  # the others are chains of their own, too
            yield Number("operations.ldg.kind", "load")
        yield Number(f"operations.{name}.issue_slots", digits(cycles), f"slots.{name}.k{adds}", how)
        if name == "imad_wide":
            yield Number("instructions.imul_wide.issue_slots", float(round(cycles)), f"slots.{name}.k{adds}",
                         f"in whole slots; {how}")  # fmt: skip


def _trips(samples: Samples, entry: str) -> dict[int, Reading]:
    """Return a scheduler's cycles for a trip of 2N bodies of one warp, by warps per SM."""
    return samples.take(entry, lambda p, v: v["span_cycles_2n"] / (p["trips"] * p["warps"] / _SCHEDULERS), "warps")


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


def addresses(samples: Samples) -> Iterator[Number]:
    """From what makes an address to the load from there."""
    alone = samples.one("instruction.ldl", per_link, warps=1)
    for kind in ADDRESSES:
        both = samples.one(f"address.{kind}", per_link, warps=1)
        if both and alone:
            how = f"a pair, less instruction.ldl, in whole cycles; {both}"
            key = f"instructions.{kind}.latency_to.load"
            yield Number(key, float(round(both.median - alone.median)), f"address.{kind}", how)


STEPS = (slots, banks, addresses)
