"""Two runs of the laboratory on GPUs of one kind side by side: which numbers agree, and within what.

    warplens machine agree measured.jsonl other.jsonl

What is promised: fixed latencies and peak rates of what lies within an SM agree within 1 %, memory rates and latencies
with nothing else going on within 3 %. Of other numbers (warps needed, percentiles, fits, launches from the host) it is
said how far apart they are. `WHY` has the reasons that are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.laboratory.derive import numbers
from warplens.laboratory.samples import Samples, load

FIXED, MEMORY = 1.0, 3.0  # percent
_NAMED = 4  # of the numbers that one run alone has
_LISTED = re.compile(r"\.\d+/\d+$")  # a place in a list, and how long it is
# The first pattern that fits a key decides what is promised; a key that none fits has no promise.
_PROMISED: tuple[tuple[str, float | None], ...] = (
    (r"instructions\.load\.latency_cycles", MEMORY),
    (r".*needed_warps.*|.*percent_warps.*|operations\.\w+\.instructions", None),
    (r"(operations|instructions|tensor)\..*", FIXED),
    (r"shared_memory\..*|atomics\.shared.*|sm\.(barrier|branch|divergence)\w*", FIXED),
    (r"(bandwidth|atomics|random_access|packets|scattered)\..*|cache\.\w+_(latency_cycles|per_second)", MEMORY),
    (r"memory\.(sustained_bytes_per_second|extra_transaction_cycles)", MEMORY),
    (r"contention\w*\.(a_cycles|c_bytes_per_second)", MEMORY),
    (r"constant_cache\.\w+_cycles|instruction_cache\.\w+_cycles", MEMORY),
)
# Why numbers that should agree may not, by pattern: found on thirty H200s, see docs/reference/data.md.
WHY = {
    r"bandwidth\.l2.*|constant_cache.*|contention_l2.*|packets.*": "how far an SM is from the parts of L2 differs from "
    "GPU to GPU",
    r"atomics\.global.*": "which parts of L2 few words fall into differs from GPU to GPU",
    r"(instructions\.load|memory|contention|bandwidth\.dram|random_access|scattered).*": "DRAM is not of one kind: on "
    "fourteen of thirty H200s it takes 704 cycles instead of 681 and moves 4.74 TB/s instead of 4.64",
}


class Pair(Struct, frozen=True):
    """One number of two runs: the difference, what was promised (None: nothing), why it is more where that is known."""

    key: str
    first: float
    second: float
    promised_percent: float | None = None

    @property
    def percent(self) -> float:
        """Excess of the first over the second, in percent of the smaller one."""
        least = min(abs(self.first), abs(self.second))
        return 100 * (self.first - self.second) / least if least else 0.0 if self.first == self.second else 100.0

    @property
    def agrees(self) -> bool:
        """True if the promise is kept."""
        return self.promised_percent is None or abs(self.percent) <= self.promised_percent

    @property
    def why(self) -> str:
        """The reason why it may not."""
        return next((text for pattern, text in WHY.items() if re.fullmatch(pattern, self.key)), "")


def promised(key: str) -> float | None:
    """Return within how many percent two runs agree on a number, or None."""
    return next((percent for pattern, percent in _PROMISED if re.fullmatch(pattern, key)), None)


def agree(first: dict[str, float], second: dict[str, float]) -> list[Pair]:
    """Return the numbers that both runs give, in the order of the first."""
    return [Pair(key, value, second[key], promised(key)) for key, value in first.items() if key in second]


def plain(samples: Samples) -> dict[str, float]:
    """Return the numbers of a run by their keys; the members of a list by their number and how many there are."""
    found = dict[str, float]()
    for one in numbers(samples):
        if isinstance(one.value, list):
            found |= {f"{one.key}.{i}/{len(one.value)}": value for i, value in enumerate(one.value)}
        elif not isinstance(one.value, str):
            found[one.key] = one.value
    return found


def agree_files(first: Path, second: Path) -> tuple[list[Pair], list[str]]:
    """Compare two journals of GPUs of one kind; with a line for each that has what the other lacks."""
    samples = [load(path) for path in (first, second)]
    names = [one.head["gpu"] for one in samples]
    if names[0] != names[1]:
        raise WarplensError(f"these are of two kinds of GPU: {first} of {names[0]}, {second} of {names[1]}")
    found = [plain(one) for one in samples]
    pairs = agree(*found)
    if not pairs:
        raise WarplensError(f"{first} and {second} have no number in common: was one of them measured with --only?")
    return pairs, list(_differences(first, second, *found))


def _differences(first: Path, second: Path, *found: dict[str, float]) -> Iterator[str]:
    """Say in a line each which numbers one journal alone has, and which lists are not as long in both."""
    keys, others = (
        dict.fromkeys(_LISTED.sub("", key) for key in own if key not in other) for own, other in (found, found[::-1])
    )
    for text, some in (
        (f"only {first} has", [key for key in keys if key not in others]),
        (f"only {second} has", [key for key in others if key not in keys]),
        ("not as long in both", [key for key in keys if key in others]),
    ):
        if some:
            more = f" and {len(some) - _NAMED} more" if len(some) > _NAMED else ""
            yield f"{text}: {', '.join(some[:_NAMED])}{more}"


def told(pairs: Iterable[Pair]) -> Iterator[str]:
    """Say how many of the promised numbers agree, and list those that do not with the reason, where it is known."""
    pairs = list(pairs)
    for percent, what in ((FIXED, "fixed latencies and peak rates"), (MEMORY, "memory rates and latencies")):
        known = [pair for pair in pairs if pair.promised_percent == percent]
        good = sum(pair.agrees for pair in known)
        yield f"{what}: {good} of {len(known)} agree within {percent:g} %"
    for pair in pairs:
        if not pair.agrees:
            yield f"  {pair.key}: {pair.first:g} and {pair.second:g}, {pair.percent:+.1f} %" + (
                f" ({pair.why})" if pair.why else ""
            )
