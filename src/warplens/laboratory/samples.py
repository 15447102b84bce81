"""Samples of a journal, entry by entry; readings of repetitions; numbers on their way into a machine file."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warplens.core.errors import WarplensError
from warplens.laboratory import journal, stamps

Point = dict[str, Any]
FORMAT = 2
Take = Callable[[Point, dict[str, Any]], float]


@dataclass(frozen=True)
class Reading:
    """Repetitions of one quantity at one point: the median counts, the others say how sure it is."""

    all: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return float(np.median(self.all))

    @property
    def spread(self) -> float:
        """Largest less smallest, over the median."""
        return (max(self.all) - min(self.all)) / abs(self.median) if self.median else 0.0

    def __str__(self) -> str:
        """Say what the number is worth: `median of 5, spread 0.3 %`."""
        return f"median of {len(self.all)}, spread {100 * self.spread:.2g} %"


def load(path: Path, *more: Path) -> Samples:
    """Read a journal, plain, gzipped or by xz; a head that lacks what is needed is one line.

    `more`: journals of such GPUs, in which entries are looked for that the first one lacks.
    """
    samples = _one(path)
    for other in map(_one, more):
        if other.head["gpu"] != samples.head["gpu"]:
            kinds = f"{other.head['gpu']}, than {path}: {samples.head['gpu']}"
            raise WarplensError(f"{other.name} is of another kind of GPU, {kinds}")
        samples.fill(other)
    return samples


def _one(path: Path) -> Samples:
    from warplens.laboratory.head import checked  # reading needs msgspec, measuring does not

    samples = Samples(journal.read(path), str(path))
    head = checked(samples.head, path)
    if head.format != FORMAT:
        raise WarplensError(f"{path}: format {head.format} of the journal is not known here, {FORMAT} is: measure anew")
    if "sm_count" not in head.facts.attributes:
        raise WarplensError(f"{path}: the journal's head does not say what the driver says about the GPU")
    return samples


class Samples:
    """Samples of a journal, without those that do not count.

    Of an entry that was measured more than once, the last time counts. Left out: entries that did not come to an end;
    those of another GPU than the last one; samples at another clock; samples in which fewer or more warps were on an
    SM at once than were meant, or twice as much took no longer.
    """

    def __init__(self, events: Iterable[dict[str, Any]], name: str = "the journal") -> None:
        """Sort the events of a journal. Its head is that of the run which measured something last."""
        self.name = name
        self.head: dict[str, Any] = {}
        self.failed = set[str]()  # entries that were tried, and are not there
        running: dict[str, Any] = {}
        found: dict[str, tuple[str, list[tuple[Point, dict[str, Any]]]]] = {}
        begun: dict[str, list[tuple[Point, dict[str, Any]]]] = defaultdict(list)
        for event in events:
            if event["is"] == "head":
                running = event
                self.head = self.head or event
            elif event["is"] == "begin":
                begun[event["entry"]] = []
            elif event["is"] == "sample":
                begun[event["entry"]].append((event["point"], event["values"]))
            elif event["is"] == "done":
                found[event["entry"]], self.head = (_gpu(running), begun[event["entry"]]), running
            elif event["is"] == "error":
                self.failed.add(event["entry"])
        if not self.head:
            raise WarplensError(f"{name} has no head")
        own = _gpu(self.head)
        self.entries = {k: [s for s in samples if counts(*s)] for k, (gpu, samples) in found.items() if gpu == own}
        self.off_clock = {k: [s for s in samples if _slower(*s)] for k, (gpu, samples) in found.items() if gpu == own}
        self.impossible = {k: sum(not stamps.possible(v) for _, v in samples) for k, (_, samples) in found.items()}
        self.others: dict[str, Samples] = {}  # where entries come from that are not this journal's

    def fill(self, other: Samples) -> None:
        """Take from another journal the entries that this one lacks."""
        for entry in (entry for entry in other.entries if entry not in self.entries):
            self.entries[entry], self.off_clock[entry] = other.entries[entry], other.off_clock[entry]
            self.others[entry] = other

    def repetitions(self) -> list[Samples]:
        """Return one of these for each repetition that all launches have; what has more has a share in each."""
        last = [max(p.get("repetition", 0) for p, _ in found) for found in self.entries.values() if found]
        many = min((n + 1 for n in last if n), default=0)
        return [self._part(k, many) for k in range(many)]

    def _part(self, k: int, of: int) -> Samples:
        part = copy.copy(self)
        part.entries, part.off_clock = (
            {entry: [s for s in found if s[0].get("repetition", k) % of == k] for entry, found in all_of_them.items()}
            for all_of_them in (self.entries, self.off_clock)
        )
        return part

    def origin(self, entry: str) -> Samples:
        """Return the journal that an entry is from."""
        return self.others.get(entry, self)

    def take(self, entry: str, take: Take, *keys: str, off_clock: bool = False, **only: Any) -> dict[Any, Reading]:
        """Return readings of a quantity by the point's keys, of the points where `only` holds; one key is no tuple.

        With `off_clock` of samples at another clock instead: for cycles of what lies within an SM, where nothing else
        is known, and whoever takes them says so.
        """
        groups: dict[Any, list[float]] = defaultdict(list)
        wanted = list(only.items())
        for point, values in (self.off_clock if off_clock else self.entries).get(entry, []):
            for key, value in wanted:
                if point.get(key) != value:
                    break
            else:
                at = point[keys[0]] if len(keys) == 1 else tuple(point[k] for k in keys)
                groups[at].append(take(point, values))
        return {key: Reading(tuple(values)) for key, values in groups.items()}

    def one(self, entry: str, take: Take, **only: Any) -> Reading | None:
        """Return the reading of a quantity over all points where `only` holds."""
        return self.take(entry, take, **only).get(())


def _gpu(head: dict[str, Any]) -> str:
    """Return which GPU a run was on: one folder may hold a run on another one before."""
    facts = head.get("facts")
    return str(facts.get("uuid", "")) if isinstance(facts, dict) else ""


def counts(point: Point, values: dict[str, Any]) -> bool:
    """Return whether a sample may be used: at the reference clock, with the warps meant, and 2N longer than N."""
    if not stamps.possible(values):
        return False
    meant = point.get("warps")
    for key, value in values.items():
        if key.startswith("off_clock") or (not value and key.startswith("rate")):  # no warp came to the end of a trip
            return False
        if meant and value != meant and key.startswith(("warps_least", "warps_most")):
            return False
    return True


def _slower(point: Point, values: dict[str, Any]) -> bool:
    """Return whether nothing but its clock is wrong with a sample."""
    if not any(key.startswith("off_clock") for key in values):
        return False
    return counts(point, {key: value for key, value in values.items() if not key.startswith("off_clock")})


def per_link(point: Point, values: dict[str, Any]) -> float:
    """Return a warp's cycles per link of a chain: of a trip of 2N links less one of N, or of so many trips of each."""
    if "mean_cycles_per_count_n" in values:
        return float(values["mean_cycles_per_count_2n"] - values["mean_cycles_per_count_n"]) / float(point["links"])
    longer: float = values["mean_warp_cycles_2n"] - values["mean_warp_cycles_n"]
    links: int = point["trips"] * point["links"]
    return longer / links


def links_per_cycle(point: Point, values: dict[str, Any]) -> float:
    """Return links per cycle of an SM.

    Where warps ran for a time and counted trips: from the cycles of a trip, of all warps together. Where they ran so
    many trips: by the smaller of two estimates, from the SM's span and from the mean warp.
    """
    if "rate_n" in values:
        longer: float = values["sms_2n"] / values["rate_2n"] - values["sms_n"] / values["rate_n"]
        return float(point["links"] * point["chains"] / longer)
    longer = max(values[f"{key}_2n"] - values[f"{key}_n"] for key in ("span_cycles", "mean_warp_cycles"))
    return float(point["trips"] * point["links"] * point["chains"] * point["warps"] / longer)


@dataclass(frozen=True)
class Number:
    """One field of a machine file: dotted key, value, entry of the journal, statistic with its spread."""

    key: str
    value: float | list[float] | str
    entry: str = ""
    how: str = ""


Step = Callable[[Samples], Iterator[Number]]


def digits(value: float, significant: int = 4) -> float:
    """Round to so many significant digits: what a measurement is worth."""
    return float(f"{value:.{significant}g}")


def number(
    key: str, reading: Reading | None, entry: str, how: str = "", scale: float = 1.0, worth: int = 4
) -> Iterator[Number]:
    """Yield a number from a reading's median, or nothing where there was none."""
    if reading is not None:
        text = f"{how}; {reading}" if how else str(reading)
        yield Number(key, digits(reading.median * scale, worth), entry, text)
