"""Loader of workloads: hand-written TOML, saved JSON, those that ship with warplens, and Volkov's synthetic mixes."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from warplens.core.errors import FileError, WarplensError, nearest
from warplens.core.file_kinds import expect, other_kind
from warplens.core.files import convert, read_json, read_toml
from warplens.core.units import printable
from warplens.machine import KINDS
from warplens.machine.tables import InstructionClass
from warplens.program.decoding import parse_listing
from warplens.program.instruction import Instruction, access_bytes
from warplens.workload.profile import COLUMNS, Profile
from warplens.workload.workload import Access, Link, Mix, Number, Workload, access_of

FOLDER = Path(__file__).parent / "files" / "workloads"
_LATER = ("replays", "passed")  # columns of a profile that older files do not have


def list_workloads() -> list[str]:
    """Return the names of the workloads that ship with warplens."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_workload(name: str | Path, *, alpha: float | None = None) -> Workload:
    """Load a workload by name or path (.toml or .json); `alpha` replaces the one of a mix."""
    path, shipped = Path(name), str(name) in list_workloads()
    if shipped:
        path = FOLDER / f"{name}.toml"
    elif path.suffix not in (".toml", ".json"):
        if (other := other_kind(path, "workload")) is not None:
            raise other
        if "/" in str(name) and re.search(r"\w", str(name)):
            raise FileError(f"{path}: a workload file ends in .toml or .json")
        hint = nearest(str(name), list_workloads()) or "; `warplens workload list` shows them"
        raise WarplensError(f"unknown workload {str(name)[:80]!r}{hint}")
    tree = read_json(path) if path.suffix == ".json" else read_toml(path)
    if alpha is not None:
        if not isinstance(tree, dict) or not isinstance(tree.get("mix"), dict):
            raise WarplensError(f"{path.name}: --alpha needs a workload with a [mix] table")
        tree["mix"]["alpha"] = alpha
    return parse_workload(tree, path.name if shipped else str(path))


def parse_workload(tree: Any, file: str) -> Workload:
    """Turn the tree of a workload file into a Workload; `file` is for messages."""
    _finite(tree, (), file)
    expect(tree, "workload", file)
    for table in ("instructions", "divergent"):  # msgspec does not say which class of a table is wrong
        counts = tree.get(table) if isinstance(tree, dict) else None
        for kind, count in counts.items() if isinstance(counts, dict) else ():
            if kind not in KINDS:
                raise FileError(f"{file}: {table}.{kind}: unknown class{nearest(kind, KINDS)}")
            if isinstance(count, (int, float)) and count < 0:
                raise FileError(f"{file}: {table}.{kind}: must be zero or more, not {count}")
    workload = _one_line(convert(tree, Workload, file))
    if workload.mix is not None:
        _only(workload, "mix", f"{file}: mix: a mix counts its own instructions and has no launch")
        return from_mix(workload, workload.mix)
    if workload.kernels:
        _only(workload, "kernels", f"{file}: kernel: a program of several kernels has its counts and launches in them")
        kernels = [_complete(k, f"{file}: kernel[{i}]") for i, k in enumerate(workload.kernels)]
        if len({k.steady for k in kernels}) > 1:
            raise FileError(f"{file}: kernel: all kernels of a program need a [kernel.launch], or none")
        return workload.with_values(kernels=kernels)
    return _complete(workload, file)


def _one_line(workload: Workload) -> Workload:
    """Return a workload whose name, source and notes are a line each: a newline in them would forge one of ours."""
    notes = [printable(note) for note in workload.notes]
    kernels = [_one_line(kernel) for kernel in workload.kernels]
    return workload.with_values(
        name=printable(workload.name), source=printable(workload.source), notes=notes, kernels=kernels
    )


def _only(workload: Workload, field: str, message: str) -> None:
    """Refuse a workload that gives anything beside this field and its own name, source and notes."""
    bare = Workload(name=workload.name, source=workload.source, notes=workload.notes)
    for f in msgspec.structs.fields(workload):
        if f.name != field and getattr(workload, f.name) != getattr(bare, f.name):
            raise FileError(f"{message}; remove {f.encode_name!r}")


def _check_profile(workload: Workload, profile: Profile, file: str) -> None:
    """Refuse a saved kernel that was cut or changed by hand: a count for each instruction, paths within the code."""
    size, counts = len(workload.code), profile.counts
    for name in (name for name in COLUMNS if name not in counts and name not in _LATER):
        raise FileError(f"{file}: profile.counts.{name}: missing")
    for name, column in counts.items():
        if len(column) != size:
            raise FileError(f"{file}: profile.counts.{name}: {len(column)} numbers for {size} instructions")
    for i, path in enumerate(profile.paths):
        for runs in (segment.runs for segment in path.segments):
            if any(not 0 <= first <= stop <= size for first, stop in runs):
                raise FileError(f"{file}: profile.paths.{i}: runs lie within {size} instructions: not {runs[:4]}")
        if not path.instructions:
            raise FileError(f"{file}: profile.paths.{i}: a path without instructions")
    for i, block in enumerate(profile.blocks):
        if any(not 0 <= path < len(profile.paths) for path in block):
            raise FileError(f"{file}: profile.blocks.{i}: its warps take paths 0 to {len(profile.paths) - 1}")
    lengths, executed = [path.instructions for path in profile.paths], profile.total("executed")
    if (walked := sum(lengths[path] for block in profile.blocks for path in block)) > 2 * executed:
        what = f"kept blocks execute {walked:.3g} instructions, by profile.counts.executed the grid has {executed:.3g}"
        raise FileError(f"{file}: profile.paths: {what}")


def _complete(workload: Workload, file: str) -> Workload:
    """Refuse a workload that the types allow and no kernel has; count the instructions of a listing."""
    if workload.profile is not None:
        _check_profile(workload, workload.profile, file)
    launch = workload.launch
    if launch is not None:
        for name, shape in (("grid", launch.grid), ("block", launch.block)):
            values = shape if isinstance(shape, list) else [shape]
            if not 1 <= len(values) <= 3 or any(v < 1 or v != int(v) or v > 2**31 for v in values):
                raise FileError(f"{file}: launch.{name}: one to three whole numbers, 1 to 2^31 each")
    for table, counts in (("instructions", workload.instructions), ("divergent", workload.divergent)):
        for kind in counts:
            if KINDS[kind] in ("memory system", "shared memory"):
                raise FileError(f"{file}: {table}.{kind}: memory accesses are counted under [[access]]")
    if workload.kernels or workload.mix:
        raise FileError(f"{file}: a kernel of a program cannot hold a mix or kernels itself")
    if workload.warps and not (workload.instructions or workload.accesses):
        codes = [parse_listing(w.listing, f"{file}: warp[{i}]") for i, w in enumerate(workload.warps)]
        return _counted(workload, codes)
    if not any(workload.executed().values()) and workload.given is None:
        raise FileError(f"{file}: no instructions, no access, no listing, or all counts zero: nothing to predict")
    return workload


def _counted(workload: Workload, codes: list[list[Instruction]]) -> Workload:
    """Fill in the counts of listings: the mean over the warps that execute them."""
    counts, accesses = dict[str, float](), dict[Access, float]()
    for instruction in (x for code in codes for x in code):
        access = access_of(instruction.kind, access_bytes(instruction))
        if access is None:
            counts[instruction.kind] = counts.get(instruction.kind, 0.0) + 1 / len(codes)
        else:
            accesses[access] = accesses.get(access, 0.0) + 1 / len(codes)
    barriers = counts.pop("barrier", 0.0) + workload.barriers
    plain = {kind: count for kind, count in counts.items() if kind in KINDS}
    each = [replace(access, count=count) for access, count in accesses.items()]
    return workload.with_values(instructions=plain, accesses=each, barriers=barriers)


def _finite(node: Any, path: tuple[str, ...], file: str) -> None:
    """Refuse NaN and infinity anywhere but in a mix's alpha, which may be infinite."""
    if isinstance(node, dict):
        for key, value in node.items():
            _finite(value, (*path, str(key)), file)
    elif isinstance(node, list):
        for i, value in enumerate(node):
            _finite(value, (*path, str(i)), file)
    elif isinstance(node, float) and not math.isfinite(node):
        if path[-2:] == ("mix", "alpha") and not math.isnan(node) and node > 0:
            return
        raise FileError(f"{file}: {'.'.join(path)}: must be finite, not {node}")


def mix(
    alpha: Number, op: Literal["add"] = "add", other: Literal["load", "sfu", "shared"] = "load", *, stride: int = 1
) -> Workload:
    """Return Volkov's synthetic kernel (2016 §4.1, §4.7): `alpha` adds per one load, SFU or shared-memory instruction.

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
    # plain numbers where there is one value, so that the workload can be saved
    adds, others = (x if x.ndim else float(x) for x in (np.where(endless, 1.0, alpha), np.where(endless, 0.0, 1.0)))
    both = x if (x := np.minimum(adds, others)).ndim else float(x)
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


def from_mix(workload: Workload, table: Mix) -> Workload:
    """Return the workload that a `[mix]` table stands for, under the name and source of its file."""
    alpha = float(table.alpha)
    counted = mix(alpha, table.op, table.other, stride=table.stride)
    name = f"{workload.name.partition(' (alpha ')[0]} (alpha {alpha:g})"
    table = msgspec.structs.replace(table, alpha=alpha)
    return counted.with_values(name=name, source=workload.source, notes=workload.notes, mix=table)
