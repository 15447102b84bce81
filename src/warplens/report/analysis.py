"""First screen of `warplens analyze` below the time: remedies, parts of the time, counts and how sure they are.

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

import msgspec
from rich.console import RenderableType
from rich.text import Text

from warplens.advisor import Advised
from warplens.core.units import number, quantity
from warplens.machine import Machine
from warplens.models import Prediction
from warplens.models.bounds import occupancy_of
from warplens.models.registry import Comparison
from warplens.program.instruction import Instruction
from warplens.report import advice
from warplens.report.page import content
from warplens.report.page.content import Content
from warplens.workload import Workload
from warplens.workload.profile import Profile


def rest(p: Prediction, workload: Workload, advised: Advised | None = None) -> list[RenderableType]:
    """Render the rest of the first screen: what would help, what the time is made of, what was counted."""
    parts = [] if advised is None else advice.first_screen(advised)
    if p.parts:
        total = float(p.cycles or 1.0)
        shares = sorted(((float(cycles) / total, name) for name, cycles in p.parts.items()), reverse=True)
        shown = ", ".join(f"{name} {share:.0%}" for share, name in shares if share >= 0.005)
        parts += [Text(f"  the time is made of: {shown}"), ""]
    if workload.profile is not None:
        parts += [Text(f"  {line}") for line in counted(workload.profile, workload.code)]
    if workload.tools:
        parts.append(f"  machine code by {', '.join(workload.tools)}")  # a path is not wrapped
    said = workload.profile.notes if workload.profile is not None else []
    parts += [Text(f"  note: {note}", "yellow") for note in (*workload.notes, *p.notes) if note not in said]
    return parts


def counted(profile: Profile, code: Sequence[Instruction] = ()) -> list[str]:
    """Say what the emulation counted, and how sure that is."""
    warps = profile.grid_blocks * profile.warps_per_block
    lines = [
        f"per warp {number(profile.total('executed') / warps, 4)} instructions; "
        f"DRAM reads {quantity(profile.dram_read_bytes, 'B', 3)} and writes "
        f"{quantity(profile.dram_written_bytes, 'B', 3)} (L2 {profile.l2}); "
        f"L1 hits {profile.l1_hit_share:.0%}, L2 hits {profile.l2_hit_share:.0%}"
    ]
    if profile.exact:
        lines.append(f"counted from all {profile.grid_blocks:,} blocks")
    else:
        lines.append(
            f"counted from {profile.emulated_blocks:,} of {profile.grid_blocks:,} blocks, {_equality(profile)}"
        )
    if profile.unsure:
        lines.append(
            f"{len(profile.unsure)} of {len(profile.counts['executed'])} instructions ({_named(profile, code)}) may be "
            "off by more than 2 %, as few of these blocks come to them or none: --exact counts them"
        )
    shares = {"instructions": 1 - profile.known_instructions, "addresses": 1 - profile.known_addresses}
    unknown = [f"{share:.2%} of the {what}" for what, share in shares.items() if share > 0]
    if unknown:
        lines.append(f"{' and '.join(unknown)} are unknown to the emulator")
    return [*lines, *profile.notes]


def _named(profile: Profile, code: Sequence[Instruction]) -> str:
    """Name the first of the instructions whose counts are unsure: by source lines where all have one."""
    lines = [code[i].line for i in profile.unsure] if code else []
    known = bool(lines) and None not in lines
    found = sorted({line for line in lines if line is not None}) if known else profile.unsure
    what = "number" if not known else "line"
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


def data(
    p: Prediction,
    c: Comparison,
    workload: Workload,
    machine: Machine,
    advised: Advised | None = None,
    shown: Content | None = None,
) -> dict[str, Any]:
    """Return the same for machines, with what the page shows of it."""
    profile = workload.profile
    return {
        "prediction": p,
        "occupancy": occupancy_of(workload, machine),
        "limits_cycles": {**p.limits, **{name: cycles for name, cycles in p.parts.items() if name == "launch"}},
        "advice": [] if advised is None else advised.advice,
        "combinations": [] if advised is None else advised.combinations,
        "models_seconds": {name: q.seconds for name, q in c.predictions.items()},
        "silent": c.silent,
        "workload": msgspec.structs.replace(workload, code=[], profile=None),
        "traffic": [] if profile is None else profile.traffic,
        "sampling": None if profile is None else {
            "grid_blocks": profile.grid_blocks, "emulated_blocks": profile.emulated_blocks, "exact": profile.exact,
            "error_fraction": profile.error, "largest_error_fraction": profile.largest_error,
            "unsure": profile.unsure,
        },
        "unknown_fraction": None if profile is None else {
            "instructions": 1 - profile.known_instructions, "addresses": 1 - profile.known_addresses,
        },
        **({} if shown is None else content.data(shown)),
    }  # fmt: skip
