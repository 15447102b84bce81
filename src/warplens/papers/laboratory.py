"""The laboratory's journals that ship: a GPU's machine file beside the samples that it was derived from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import WarplensError
from warplens.laboratory.catalogue import entries
from warplens.laboratory.derive import borrowed, derive
from warplens.laboratory.instructions import best, curve, needed_warps
from warplens.laboratory.journal import ENDINGS
from warplens.laboratory.samples import Reading, Samples, load
from warplens.machine import Machine, load_machine

JOURNALS = {"h200": "h200/journal/measured.jsonl.xz"}


class Laboratory(Struct, frozen=True):
    """A machine and its samples, with the readings that tables and figures share.

    Of the repetitions at one occupancy the best counts, as in the dissertation; the journal has all of them.
    """

    machine: Machine
    samples: Samples
    complete: bool = True  # the full form: every entry is there
    borrowed: str = ""  # what is not this journal's, if anything

    @property
    def name(self) -> str:
        """The generation, as the dissertation names GPUs."""
        return self.machine.architecture

    @property
    def sms(self) -> float:
        """SMs of the device."""
        return self.machine.chip.sm_count

    def streamed(self, entry: str) -> dict[int, Reading]:
        """Loads of a warp per cycle and SM, by warps per SM, of all chains together."""
        return _best(self.samples.take(entry, lambda p, v: v["rate"] * p["chains"] / self.sms, "warps"), max)

    def stream_latency(self, entry: str) -> dict[int, Reading]:
        """Cycles of a warp from one load to the next, by warps per SM."""
        return _best(self.samples.take(entry, lambda p, v: float(v["mean_cycles_per_count"]), "warps"), min)

    def chained(self, entry: str, stride: int = 1) -> dict[int, Reading]:
        """Links of a chain per cycle and SM, by warps per SM."""
        return _best(curve(self.samples, entry, stride), max)

    def peak(self, entry: str) -> float:
        """The best of these over occupancies and chains per warp."""
        top = best(self.samples, entry)
        if top is None:
            raise WarplensError(f"the journal of {self.machine.name} has no {entry}")
        return top[2].median

    def gigabytes(self, loads_per_cycle: float, width: int = 4) -> float:
        """GB/s of the device at so many loads of a warp per cycle and SM."""
        return loads_per_cycle * 32 * width * self.sms * self.machine.chip.clock_hz / 1e9


def _best(found: dict[int, Reading], best_of: Callable[[tuple[float, ...]], float]) -> dict[int, Reading]:
    return {warps: Reading((best_of(reading.all),)) for warps, reading in found.items()}


@cache
def laboratory(gpu: str) -> Laboratory:
    """Return the laboratory of a GPU whose journal ships, or of a journal of one's own."""
    if gpu.endswith(ENDINGS):
        machine, samples = derive(Path(gpu)), load(Path(gpu))
        complete = {entry.name for entry in entries()} <= set(samples.entries)
        own = {k: x for k, x in machine.sources.items() if not k.startswith(("hong_kim.", "sim.", "kothapalli."))}
        return Laboratory(
            machine, samples, complete, borrowed(replace(machine, sources=own), gpu)
        )  # no item reads these
    machine = load_machine(gpu)
    if machine.id not in JOURNALS:
        raise WarplensError(
            f"no journal of {machine.name} ships with warplens; there are some of: {', '.join(JOURNALS)}; "
            "`warplens machine measure` makes one, to be named here"
        )
    package, name = Path(__file__).parents[1], JOURNALS[machine.id]
    for folder in (package / "data", package.parents[1] / "data"):
        if (folder / name).is_file():
            return Laboratory(machine, load(folder / name))
    raise WarplensError(f"data/{name} is not in the installed package: run from a checkout of warplens")


def beside() -> Laboratory | None:
    """Return the laboratory of the H200, to stand beside the papers' GPUs; None where its journal is not installed."""
    try:
        return laboratory("h200")
    except WarplensError:
        return None


def reached(rates: dict[int, Reading], goal: float) -> str:
    """Say at how many warps per SM a rate is reached, or that it is not."""
    found = needed_warps(rates, goal)
    return f"{found:.1f}" if found is not None else f"more than {max(rates)}" if rates else "-"
