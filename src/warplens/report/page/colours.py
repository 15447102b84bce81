"""Which colour stands for what: parts of the time and reasons to wait share a hue where they are the same thing."""

from __future__ import annotations

from warplens.report.page.markup import Markup, joined, tag, value
from warplens.simulator.views import READY

_COLOURS = {
    "launch": "grey", "issue": "green", "dependency": "purple", "shared memory": "orange", "l1": "teal", "l2": "cyan",
    "dram": "blue", "barriers": "red", "tail": "pink",
    "selected": "green", "not_selected": "lime", "math": "pink", "dispatch": "grey", "wait": "purple",
    "branch_resolving": "violet", "short_sb": "amber", "mio": "orange", "long_sb": "blue", "lg": "cyan",
    "barrier": "red", READY: "lime", "drain": "teal", "no_inst": "grey",
}  # fmt: skip

# Nsight Compute's stall reasons, in words.
REASONS = {
    "selected": "issuing",
    "wait": "a fixed latency",
    "short_sb": "a result of shared memory, an SFU or alike (short scoreboard)",
    "long_sb": "data from global or local memory (long scoreboard)",
    "barrier": "the other warps at a barrier",
    "branch_resolving": "a branch",
    "math": "a busy arithmetic pipe",
    "mio": "a full queue to shared memory or the SFUs",
    "lg": "a full queue to global memory",
    "dispatch": "a register port",
    "not_selected": "its turn: another warp issued",
    "drain": "its stores, at its end",
    "no_inst": "instructions that are not in the instruction cache",
    READY: "a full pipe or queue, or its turn",
}


def in_words(reason: str) -> str:
    """Return a reason with what it means."""
    return f"{reason}: {REASONS[reason]}" if reason in REASONS else reason


def colour(name: str) -> str:
    """Return the class of a name's colour."""
    return f"c-{_COLOURS.get(name, 'grey')}"


def key(entries: dict[str, str], words: dict[str, str] | None = None) -> Markup:
    """Return what colours mean; the entries have the origin of each."""
    items = [
        tag("li", tag("i", class_=f"swatch {colour(n)}"), value((words or {}).get(n, n), why))
        for n, why in entries.items()
    ]
    return tag("ul", joined(items), class_="key")
