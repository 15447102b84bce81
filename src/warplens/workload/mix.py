"""Volkov's synthetic kernel (§4.1, §4.7): alpha adds per one other instruction, all back to back dependent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from warplens.core.errors import WarplensError
from warplens.workload.workload import Access, Link, Mix, Number, Workload

if TYPE_CHECKING:
    from warplens.machine.machine import InstructionClass


def mix(
    alpha: Number,
    op: Literal["add"] = "add",
    other: Literal["load", "sfu", "shared"] = "load",
    *,
    stride: int = 1,
) -> Workload:
    """Return the steady-state workload of `alpha` adds per one load, SFU or shared-memory instruction.

    `alpha` may be below one (one add per 1/alpha others), zero, infinite (adds only) or an array of such
    values. The body is one other instruction and alpha adds, or a single add where alpha is infinite.
    `stride` spreads each load over so many 128-byte lines.
    """
    import numpy as np  # here, so that the command line starts without it

    if op != "add" or other not in ("load", "sfu", "shared") or not 1 <= stride <= 32:
        raise WarplensError(f"a mix is of add and load, sfu or shared, stride 1 to 32; not {op}, {other}, {stride}")
    try:
        alpha = np.asarray(alpha, dtype=float)
    except (TypeError, ValueError):
        raise WarplensError(f"alpha must be a number or an array of numbers, not {alpha!r}") from None
    if np.any(np.isnan(alpha)) or np.any(np.asarray(alpha) < 0):
        raise WarplensError(f"alpha must be zero or more, not {alpha}")
    endless = np.isinf(alpha)
    adds = _plain(np.where(endless, 1.0, alpha))
    others = _plain(np.where(endless, 0.0, 1.0))
    both = _plain(np.minimum(adds, others))
    kind: InstructionClass = other
    # Evenly interleaved: with alpha > 1 the adds follow one another, with alpha < 1 the others do (§4.7).
    links = [
        Link(kind, "fp32", both),
        Link("fp32", kind, both),
        Link("fp32", "fp32", adds - both),
        Link(kind, kind, others - both),
    ]
    accesses = []
    instructions: dict[InstructionClass, Number] = {"fp32": adds}
    if other == "sfu":
        instructions["sfu"] = others
    elif other == "shared":
        accesses.append(Access(count=others, space="shared"))
    else:
        accesses.append(Access(count=others, transactions=float(stride), coalesced=stride == 1))
    label = "array" if np.ndim(alpha) else f"{float(alpha):g}"
    return Workload(
        name=f"mix of {op} and {other}, alpha {label}" + (f", stride {stride}" if stride > 1 else ""),
        source="Volkov 2016 §4.1, §4.7",
        instructions=instructions,
        accesses=accesses,
        links=links,
    )


def from_mix(workload: Workload, given: Mix) -> Workload:
    """Return the workload that a `[mix]` table stands for, under the name and source of its file."""
    alpha = float(given.alpha)
    made = mix(alpha, given.op, given.other, stride=given.stride)
    name = f"{workload.name.partition(' (alpha ')[0]} (alpha {alpha:g})"
    table = Mix(alpha, given.op, given.other, given.stride)
    return made.with_values(name=name, source=workload.source, notes=workload.notes, mix=table)


def _plain(x: Any) -> Number:
    """A float where there is one value, so that the workload can be saved."""
    return x if x.ndim else float(x)
