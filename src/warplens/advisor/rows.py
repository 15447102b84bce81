"""A warp for each row in place of a thread: for rows whose ends are read from memory, which no layout can turn."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from warplens.advisor.case import SECTOR_BYTES, Case, Proposal, Site
from warplens.advisor.overlay import with_counts
from warplens.advisor.rewrite import Copy, Rewrite, Run, Way, fewer_blocks, rewritten
from warplens.advisor.dataflow import ADDRESS_KINDS, indirect, loops_of
from warplens.program.instruction import Instruction
from warplens.workload.profile import Path

_WARP, _STEPS, _BOARD = 32, 5, 5  # threads; steps of a sum over them; the scoreboard that they wait for
_ALIKE = 0.95  # of the threads of a warp that take part in a loop, from which all rows are as long


def warp_per_row(case: Case, scattered: Sequence[Site]) -> Proposal | None:
    """Let the threads of a warp walk along a row together, and add up what they have; None where no loop is like that.

    What a thread did before and behind its loop is now done for each row by a whole warp; the smallest of its loops
    (the one over what an unrolled one leaves) is what a turn takes.
    """
    sites = {s.index: s for s in case.global_sites}
    loops = [loop for loop in loops_of(case.code) if any(s.index in loop and s.executed for s in scattered)]
    if not loops or not _ends_are_loaded(case.code, loops):
        return None
    turn = min(loops, key=len)
    unrolled, inner = _first([i for i in sites if i in turn], case)
    last = max(s.index for s in sites.values() if s.instruction.kind == "load")
    region = range(min(loop.start for loop in loops), last + 1)
    groups = _alike(case, inner, [s for i, s in sites.items() if i in region])
    if groups is None:
        return None
    rows = _WARP * case.warps
    elements = max(sum(s.threads for s in group) for group in groups.values())  # one behind the other, of a row
    same = sum(s.threads for s in sites.values() if s.index in region) >= _ALIKE * _WARP * sum(
        s.executed for s in sites.values() if s.index in region
    )
    turns = math.ceil(elements / rows / _WARP) if same else elements / rows / _WARP + 0.5
    made = rewritten(case.workload, _ways(case, turn, region, turns, unrolled, inner))
    made = fewer_blocks(made, 1 / _WARP)
    assert made.profile is not None
    executed = made.profile.counts["executed"]
    laid = {x.text: i for i, x in enumerate(made.code) if executed[i]}  # a changed turn lies behind the code
    new = {
        (at := laid[case.code[i].text]): _along(group, executed[at], gathered=_kind(i, case)[1])
        for i, group in groups.items()
    }
    new |= {(at := laid[s.instruction.text]): _same(s, executed[at]) for i, s in sites.items() if i not in region}
    made = with_counts(made, new)
    return Proposal(
        name="coalesce",
        title=f"a warp for each row of {elements / rows:.0f} elements: its threads read neighbours",
        workload=made,
        assumption="rows stay as they are; a warp walks along one and adds up by shuffles",
        where=case.places(s.index for s in scattered),
        changes={"rows": "warp"},
        how="a warp per row: lanes 32 elements apart, then __shfl_down_sync to add up",
        reorders_sums=True,
        no_help="its rows are short: starting a row in a warp costs as much as its scattered accesses do",
    )


def _ends_are_loaded(code: Sequence[Instruction], loops: Iterable[range]) -> bool:
    """Whether a condition in front of or in a loop asks for a value that was loaded, or was made of one."""
    loaded = set[str]()
    for x in code:
        if x.opcode in ("ISETP", "UISETP") and set(x.reads) & loaded:
            return True
        came = x.opcode == "LDG" or (x.kind in ADDRESS_KINDS and bool(set(x.reads) & loaded))
        loaded = loaded | set(x.writes) if came else loaded - set(x.writes)
    return False


def _kind(i: int, case: Case) -> tuple[str, bool]:
    """Return what an access is: its mnemonic, and whether its address comes from memory."""
    x = case.code[i]
    return ".".join((x.opcode, *x.modifiers)), i in indirect(case.code, case.executed)


def _first(accesses: Sequence[int], case: Case) -> tuple[int, list[int]]:
    """Return how many elements a turn has, and the accesses of the first of them."""
    kinds: dict[tuple[str, bool], list[int]] = {}
    for i in accesses:
        kinds.setdefault(_kind(i, case), []).append(i)
    unrolled = min(len(group) for group in kinds.values())
    return unrolled, [i for group in kinds.values() for i in group[: len(group) // unrolled]]


def _alike(case: Case, inner: Sequence[int], sites: Sequence[Site]) -> dict[int, list[Site]] | None:
    """Return, for each access of a turn, those that do the same for other elements; None where there are others."""
    first: dict[tuple[str, bool], list[int]] = {}
    for i in inner:
        first.setdefault(_kind(i, case), []).append(i)
    groups, seen = dict[int, list[Site]]((i, []) for i in inner), Counter[tuple[str, bool]]()
    for s in sites:
        kind = _kind(s.index, case)
        if kind not in first:
            return None
        groups[first[kind][seen[kind] % len(first[kind])]].append(s)
        seen[kind] += 1
    return groups


def _ways(case: Case, turn: range, region: range, turns: float, unrolled: int, inner: Sequence[int]) -> Rewrite:
    code, accesses = case.code, {s.index for s in case.global_sites}
    last = max(i for i, x in enumerate(code) if case.executed[i])
    shuffle = next((i for i in turn if code[i].kind in ("fp32", "fp64", "half")), turn.start)
    step: Run = (Copy(shuffle, 2, becomes="SHFL", mask=0, board=_BOARD), Copy(shuffle, 4, mask=1 << _BOARD))
    before: Run = tuple(Copy(i) for i in range(turn.start) if case.executed[i])
    behind: Run = tuple(Copy(i) for i in range(region.stop, last + 1) if case.executed[i])
    seen, body = Counter[str](), list[Copy]()
    for i in turn:  # of an unrolled loop the first of what it has for each element
        if i in inner if i in accesses else seen[code[i].opcode] % unrolled == 0:
            body.append(Copy(i))
        seen[code[i].opcode] += 1

    def rewrite(path: Path) -> list[tuple[Way, float]]:
        def way(times: int) -> Way:
            return [([before], 1), ([tuple(body)], times), ([step], _STEPS), ([behind], 1)]

        more = turns - math.floor(turns)
        return (
            [(way(math.floor(turns)), 1 - more), (way(math.ceil(turns)), more)] if more else [(way(round(turns)), 1.0)]
        )

    return rewrite


def _along(group: Sequence[Site], executed: float, *, gathered: bool) -> dict[str, float]:
    """Return what an access of all turns moves: its elements as neighbours; what it gathers as before."""

    def total(name: str) -> float:
        return sum(float(getattr(s, name)) for s in group)

    useful = total("useful_bytes")
    full = total("sectors") if gathered else max(executed, useful / SECTOR_BYTES)
    sectors = full if gathered else full + 0.5 * executed  # rows begin anywhere
    asked = min(total("l2_sectors"), full)
    missed = min(total("l2_sectors") - total("l2_hit_sectors"), asked)
    return {
        "threads": total("threads"), "useful_bytes": useful, "requests": executed, "sectors": sectors,
        "lines": total("lines") if gathered else executed, "wavefronts": total("wavefronts") if gathered else executed,
        "l2_sectors": asked, "l1_hit_sectors": sectors - asked, "l2_hit_sectors": asked - missed,
    }  # fmt: skip


def _same(site: Site, executed: float) -> dict[str, float]:
    """Return what an access once per row moves: the threads of a warp all ask for the same."""
    asked = min(site.l2_sectors, executed)
    return {
        "requests": executed, "sectors": executed, "lines": executed, "wavefronts": executed, "l2_sectors": asked,
        "l1_hit_sectors": executed - asked, "l2_hit_sectors": min(site.l2_hit_sectors, asked),
        "useful_bytes": site.useful_bytes,
    }  # fmt: skip
