"""Workload files: hand-written TOML, saved JSON, and the ones that ship with warplens."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec

from warplens.errors import FileError, WarplensError, nearest
from warplens.files import convert, read_text, read_toml
from warplens.kernel.listing import Instruction, parse_listing
from warplens.kernel.mix import from_mix
from warplens.kernel.workload import Access, Workload
from warplens.machine import KINDS

FOLDER = Path(__file__).parent / "files" / "workloads"


def list_workloads() -> list[str]:
    """Return the names of the workloads that ship with warplens."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_workload(name: str | Path, *, alpha: float | None = None) -> Workload:
    """Load a workload by name or path (.toml or .json); `alpha` replaces the one of a mix."""
    path = Path(name)
    if path.suffix not in (".toml", ".json") or (not path.exists() and "/" not in str(name)):
        shipped = FOLDER / f"{str(name).removesuffix('.toml')}.toml"
        if "/" in str(name) or not shipped.is_file():
            if path.is_file():
                raise FileError(f"{path}: a workload file ends in .toml or .json")
            hint = nearest(str(name), list_workloads()) or "; `warplens workload list` shows them"
            raise WarplensError(f"unknown workload {str(name)!r}{hint}")
        path = shipped
    tree = _read_json(path) if path.suffix == ".json" else read_toml(path)
    if alpha is not None:
        if not isinstance(tree, dict) or not isinstance(tree.get("mix"), dict):
            raise WarplensError(f"{path.name}: --alpha needs a workload with a [mix] table")
        tree["mix"]["alpha"] = alpha
    return parse_workload(tree, path.name)


def parse_workload(tree: Any, file: str) -> Workload:
    """Turn the tree of a workload file into a Workload; `file` is for messages."""
    _finite(tree, (), file)
    workload = convert(tree, Workload, file)
    if workload.mix is not None:
        if workload.instructions or workload.accesses or workload.warps or workload.kernels:
            raise FileError(f"{file}: mix: a mix counts its own instructions; remove the other counts")
        return from_mix(workload, workload.mix)
    if workload.kernels:
        if workload.instructions or workload.accesses or workload.warps or workload.launch:
            raise FileError(f"{file}: kernel: a program of several kernels has its counts and launches in them")
        kernels = [_complete(k, f"{file}: kernel[{i}]") for i, k in enumerate(workload.kernels)]
        if len({k.steady for k in kernels}) > 1:
            raise FileError(f"{file}: kernel: all kernels of a program need a [kernel.launch], or none")
        return workload.with_values(kernels=kernels)
    return _complete(workload, file)


def _complete(workload: Workload, file: str) -> Workload:
    """Check what the types cannot say, and count the instructions of a listing."""
    launch = workload.launch
    if launch is not None:
        for name, shape in (("grid", launch.grid), ("block", launch.block)):
            values = shape if isinstance(shape, list) else [shape]
            if not 1 <= len(values) <= 3 or any(v < 1 or v != int(v) or v > 2**31 for v in values):
                raise FileError(f"{file}: launch.{name}: one to three whole numbers, 1 to 2^31 each")
    if workload.kernels or workload.mix:
        raise FileError(f"{file}: a kernel of a program cannot hold a mix or kernels itself")
    if workload.warps and not (workload.instructions or workload.accesses):
        codes = [parse_listing(w.listing, f"{file}: warp[{i}]") for i, w in enumerate(workload.warps)]
        return _counted(workload, codes)
    if not workload.executed() and workload.given is None:
        raise FileError(f"{file}: no instructions, no access, no listing: nothing to predict")
    return workload


def _counted(workload: Workload, codes: list[list[Instruction]]) -> Workload:
    """Fill in the counts of listings: the mean over the warps that execute them."""
    counts: dict[str, float] = {}
    for code in codes:
        for instruction in code:
            counts[instruction.kind] = counts.get(instruction.kind, 0.0) + 1 / len(codes)
    memory = {"load": ("global", "load"), "store": ("global", "store"), "shared": ("shared", "load")}
    barriers = counts.pop("barrier", 0.0)
    accesses: list[Access] = []
    for kind, (space, what) in memory.items():
        if kind in counts:
            accesses.append(convert({"space": space, "kind": what, "count": counts.pop(kind)}, Access, kind))
    plain = {kind: count for kind, count in counts.items() if kind in KINDS}
    return workload.with_values(instructions=plain, accesses=accesses, barriers=barriers)


def _read_json(path: Path) -> Any:
    try:
        return msgspec.json.decode(read_text(path).encode())
    except (msgspec.DecodeError, RecursionError) as error:
        raise FileError(f"{path}: not valid JSON: {error}") from None


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
