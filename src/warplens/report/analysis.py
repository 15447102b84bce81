"""Answers of `analyze` and `advise` below the time: remedies, parts of the time, counts and how sure they are.

saxpy4 on NVIDIA H200, grid 32768, block 256: 64 warps per SM (100 %)

  95.1 us, 90 % sure of 88 to 104 us   by warplens      limited by: dram bandwidth
  by the errors of 50 measured launches limited by memory, of 10 us or more

  alone, each limit would take
    dram bandwidth   97.9 us  ██████████████████████
    latency          31.2 us  ███████

  what would help
    1.  1.48x  fuse with the producer of x: 256 MiB less to read                  saxpy.cu:4
              [same results] compute in this kernel what the other one stores for it
    2.  1.00x  raise occupancy: no, occupancy is 100 % already (64 warps per SM)
    3.  1.00x  vector loads: no, already 16 bytes per thread
  next limit after 1: dram bandwidth

  the time is made of: dram 92 %, dependency 4 %, launch 3 %, issue 1 %

  per warp 22 instructions; DRAM reads 268 MB and writes 134 MB; L1 hits 33 %, L2 hits 33 %
  counted from 11 of 32,768 blocks, all alike
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from warplens.advisor import Advice, Advised
from warplens.core.units import number, printable, quantity
from warplens.machine import Machine
from warplens.models import Prediction
from warplens.program.instruction import Instruction
from warplens.report import benefits
from warplens.report.terminal import notes, sure, timed
from warplens.workload import Workload
from warplens.workload.profile import Profile

_WIDTH = 74
FIRST = 3  # remedies on the first screen
NEAREST = 4  # of those that do not help
# The reasons that people ask about first, where nothing or little helps.
_ASKED = ("raise-occupancy", "vector-loads", "coalesce", "more-loads-in-flight", "remove-conflicts")


def rest(p: Prediction, workload: Workload, advised: Advised | None = None) -> list[RenderableType]:
    """Render the rest of the first screen: what would help, what the time is made of, what was counted."""
    parts = [] if advised is None else first_screen(advised)
    if p.parts:
        total = float(p.cycles or 1.0)
        shares = sorted(((float(cycles) / total, name) for name, cycles in p.parts.items()), reverse=True)
        shown = ", ".join(f"{name} {share:.0%}" for share, name in shares if share >= 0.005)
        parts += [Text(f"  the time is made of: {shown}"), ""]
    if workload.profile is not None:
        parts += notes(counted(workload.profile, workload.code), "", "  ")
    if workload.tools:
        parts.append(f"  machine code by {', '.join(workload.tools)}")  # a path is not wrapped
    said = workload.profile.notes if workload.profile is not None else []
    return [*parts, *notes(note for note in (*workload.notes, *p.notes) if note not in said)]


def first_screen(advised: Advised) -> list[RenderableType]:
    """Render the best three remedies; where fewer help, what people would ask about next, with the reason."""
    helpful = advised.helpful[:FIRST]
    asked = [a for name in _ASKED if (a := advised.named(name)) is not None and not a.helps]
    parts: list[RenderableType] = [Text("  what would help")]
    parts += [line for i, a in enumerate(helpful, start=1) for line in (_line(i, a), _how(a))]
    for i, a in enumerate(asked[: FIRST - len(helpful)], start=len(helpful) + 1):
        parts.append(Text(f"    {i}.  1.00x  {a.name.replace('-', ' ')}: no, {printable(a.reason)}"))
    if helpful:
        parts.append(Text(f"  next limit after 1: {helpful[0].bound_after}", "dim"))
    return [*parts, *notes(advised.notes, "dim", "  "), ""]


def _line(i: int, a: Advice) -> Text:
    title = printable(a.title)
    where = " " * max(2, _WIDTH - len(title)) + printable(str(a.where[0])) if a.where else ""
    return Text.assemble(f"    {i}.  ", (f"{a.speedup:.2f}x", "bold green"), f"  {title}{where}")


def results(a: Advice) -> str:
    """Say whether a remedy changes what the kernel computes."""
    return "changes results" if a.changes_results else "same results"


def _how(a: Advice) -> Text:
    return Text.assemble((f"              [{results(a)}]", "yellow" if a.changes_results else "dim"),
                         (f" {printable(a.how)}", "dim"))  # fmt: skip


def nearest(advised: Advised, most: int = NEAREST) -> list[Advice]:
    """Return what would not help but comes nearest to it: what was predicted, then what people ask about first."""
    useless = [a for a in advised if not a.helps]
    tried = [a for a in useless if a.changes]
    asked = [a for name in _ASKED for a in useless if a.name == name and not a.changes]
    return [*tried, *asked, *(a for a in useless if a not in tried and a not in asked)][:most]


def remedies(advised: Advised, machine: Machine, *, everything: bool = False) -> list[RenderableType]:
    """Render the advice: of what would not help, what comes nearest, or `everything` with Sim's benefit chart."""
    base = advised.base
    time = timed(float(base.seconds or 0), machine)
    head = f"{printable(base.workload)} on {machine.name}: {time}, limited by {base.limited_by}"
    parts: list[RenderableType] = [Text(head, "bold"), *notes(base.notes), ""]
    parts.append(Text("  what would help"))
    for i, a in enumerate(advised.helpful, start=1):
        parts += [_line(i, a), *_details(a, machine)]
        parts += [Text(f"              or {f.speedup:.2f}x  {printable(f.title)}", "dim") for f in advised.forms(a)]
    if not advised.helpful:
        parts.append(Text("    nothing that we know of"))
    if advised.combinations:
        parts += ["", Text("  together")]
    for a in advised.combinations:
        then = f"{timed(a.seconds, machine)}, then limited by {a.bound_after} [{results(a)}]"
        parts.append(Text(f"    {a.speedup:.2f}x  {a.title}: {then}"))
    useless = [a for a in advised if not a.helps] if everything else nearest(advised)
    parts += ["", Text("  what would not, and why")]
    parts += notes((f"{a.name.replace('-', ' ')}: {a.reason}" for a in useless), "dim", "    ")
    if left := sum(not a.helps for a in advised) - len(useless):
        parts.append(Text(f"    and {left} more: --all shows them", "dim"))
    if everything and advised.benefits is None:
        parts += ["", Text(f"  potential benefits (Sim et al. 2012): {benefits.missing(machine)}", "dim")]
    elif everything and advised.benefits is not None:
        parts += ["", *benefits.rendered({base.workload: advised.benefits})]
    return parts


def _details(a: Advice, machine: Machine) -> list[Text]:
    time = timed(a.seconds, machine) + (f" ({sure(a.interval_seconds, machine)})" if a.interval_seconds else "")
    form = "simulated" if a.simulated else "closed form"
    more = f"; also {', '.join(str(p) for p in a.where[1:3])}" if len(a.where) > 1 else ""
    return [
        Text(f"              {time}, then limited by {a.bound_after}; {form}{printable(more)}", "dim"),
        Text(f"              assumes: {printable(a.assumption)}", "dim"),
        _how(a),
    ]


def data(advised: Advised) -> dict[str, Any]:
    """Return the same for machines."""
    names = ("advice", "combinations", "benefits", "notes")
    return {"prediction": advised.base, **{name: getattr(advised, name) for name in names}}


def counted(profile: Profile, code: Sequence[Instruction] = ()) -> list[str]:
    """Say what the emulation counted, and how sure that is."""
    warps = profile.grid_blocks * profile.warps_per_block
    lines = [
        f"per warp {number(profile.total('executed') / warps, 4)} instructions; "
        f"DRAM reads {quantity(profile.dram_read_bytes, 'B', 3)} and writes "
        f"{quantity(profile.dram_written_bytes, 'B', 3)} (L2 {profile.l2}); "
        f"L1 hits {profile.l1_hit_share:.0%}, L2 hits {profile.l2_hit_share:.0%}"
    ]
    part = f"{profile.emulated_blocks:,} of {profile.grid_blocks:,} blocks, {_equality(profile)}"
    lines.append(f"counted from {f'all {profile.grid_blocks:,} blocks' if profile.exact else part}")
    if profile.unsure:
        which = f"{len(profile.unsure)} of {len(profile.counts['executed'])} instructions ({_named(profile, code)})"
        lines.append(f"{which} may be off by more than 2 %, as few of these blocks come to them or none: --exact "
                     "counts them")  # fmt: skip
    unknown = [f"{share:.2%} of the {what}" for what, share in unknown_shares(profile).items() if share > 0]
    if unknown:
        lines.append(f"{' and '.join(unknown)} are unknown to the emulator")
    return [*lines, *profile.notes]


def unknown_shares(profile: Profile) -> dict[str, float]:
    """Return which shares of the instructions executed and of the addresses the emulator does not know."""
    return {"instructions": 1 - profile.known_instructions, "addresses": 1 - profile.known_addresses}


def _named(profile: Profile, code: Sequence[Instruction]) -> str:
    """Name the first of the instructions whose counts are unsure: by source lines where all have one."""
    lines = [code[i].line for i in profile.unsure] if code else []
    known = bool(lines) and None not in lines
    found, what = (sorted({n for n in lines if n is not None}), "line") if known else (profile.unsure, "number")
    few = ", ".join(f"{n:,}" for n in found[:4]) + (", ..." if len(found) > 4 else "")
    return f"{what}{'s' if len(found) > 1 else ''} {few}"


def _equality(profile: Profile) -> str:
    """Say whether the counted blocks do the same, and what that means for the others."""
    executed = profile.counts["executed"]
    differ = profile.sampled or profile.largest_error > 0 or any(executed[i] for i in profile.unsure)
    if not (differ or profile.unsure or profile.error):
        return "all alike"
    error = f"error of the counts {profile.error:.1%}" if profile.error >= 5e-4 else "error of the counts under 0.1%"
    return error if differ else f"alike, but others may go other ways than these: {error}"
