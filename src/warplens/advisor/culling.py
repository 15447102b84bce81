"""Remedy for loops that look at everything and use little of it: sort the elements by place, look at those nearby."""

from __future__ import annotations

import math
from statistics import median

from warplens.advisor.case import Answer, Case, Proposal, refused
from warplens.advisor.rewrite import Way, as_written, rewritten
from warplens.advisor.dataflow import from_data
from warplens.workload.profile import Path

# Cells as long as the cutoff: 27 of them are looked at for a sphere of that radius, which fills this share of them.
_USED = (4 / 3) * math.pi / 27
_LITTLE = _USED / 2  # threads that use an element, from which sorting is thought of


def sort_into_bins(case: Case) -> Answer:
    """Turns of a loop whose elements hardly any thread uses go: cells, bins, or a list of neighbours."""
    name = "sort-into-bins"
    inside = {i for i in case.inside(case.loops()) if case.executed[i]}
    turns = max((case.executed[i] for i in inside), default=0.0)
    loads = [s for s in case.global_sites if s.index in inside and s.instruction.kind == "load"]
    if not loads or any(s.sectors > 1.05 * s.requests and s.bytes_per_thread <= 4 for s in loads):
        return refused(name, "no loop in which all threads look at the same elements")
    threads = case.profile.counts["threads"]
    used = [
        threads[i] / (32 * turns) for i in inside & from_data(case.code, case.executed)
        if case.code[i].kind in ("fp32", "fp64", "sfu", "half") and 0 < threads[i] < 16 * turns
    ]  # fmt: skip
    share = median(used) if used else 1.0
    if share > _LITTLE:
        return refused(name, "threads use most of the elements that their loops look at")
    left = share / _USED

    def rewrite(path: Path) -> list[tuple[Way, float]]:
        way: Way = []
        owed = 0.0
        for s in path.segments:
            looped = any(first <= i < stop for first, stop in s.runs for i in inside)
            if not looped or s in (path.segments[0], path.segments[-1]):
                way.append((as_written(s), s.times))
                continue
            owed += left * s.times
            way.append((as_written(s), int(owed)))
            owed -= int(owed)
        return [(way, 1.0)]

    return [
        Proposal(
            name=name,
            title=f"look at fewer elements: a thread uses {share:.1%} of those that its loop passes",
            workload=rewritten(case.workload, rewrite),
            assumption=f"elements sorted into cells, 27 of which are looked at: {_USED:.0%} of these are used",
            where=case.places(inside & {s.index for s in loads}),
            changes={"turns": left},
            no_help="the loops cost little",
        )
    ]
