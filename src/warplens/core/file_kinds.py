"""Kinds of files, by ending and keys, so that an error can say what was given instead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from warplens.core.errors import FileError, WarplensError
from warplens.core.files import read_json, read_toml

# What each kind is called, and what takes it.
KINDS = {
    "launch": ("a launch file", "`warplens analyze` takes it (docs/reference/launch-file.md)"),
    "space": ("a space of configurations", "`warplens tune` and `sweep` take it (docs/reference/sweep-file.md)"),
    "workload": ("a workload", "`warplens predict`, `compare`, `simulate` take it (docs/reference/workload-file.md)"),
    "graph": ("a graph", "`warplens simulate` takes it (docs/reference/graph-file.md)"),
    "machine": ("a machine file", "`--machine` takes it (docs/reference/machine-file.md)"),
    "report": ("a profiler's report", "`warplens analyze` takes it (docs/howto/ncu-report.md)"),
    "source": ("CUDA source", "`warplens analyze` takes it"),
    "ptx": ("PTX", "`warplens analyze` takes it"),
    "triton": ("a Python file", "`warplens analyze FILE.py:KERNEL` takes a Triton kernel of it"),
    "listing": ("a listing", "`warplens show` takes it"),
    "code": ("machine code", "`warplens analyze` takes a kernel of it"),
}
CODE = ("source", "ptx", "triton", "code")  # kinds with kernels in them, which can be launched
_ENDINGS = {
    ".ncu-rep": "report", ".cu": "source", ".cuh": "source", ".ptx": "ptx", ".py": "triton", ".sass": "listing",
    ".txt": "listing", ".cubin": "code", ".fatbin": "code", ".so": "code", ".o": "code", ".a": "code",
}  # fmt: skip
_BINARY = (b"\x7fELF", b"\x50\xed\x55\xba", b"!<arch>")  # cubins and programs, fat binaries, archives
_WORKLOAD = {"instructions", "access", "warp", "mix", "given", "profile", "code"}


def kind_of(path: str | Path) -> str:
    """Return the kind of a file, a key of `KINDS`; an empty string for one that is of none, or is not there."""
    file = Path(re.sub(r"\.py:\w+$", ".py", str(path)))
    if file.suffix in _ENDINGS:
        return _ENDINGS[file.suffix]
    try:
        if not file.is_file():
            return ""
        if file.suffix == ".toml":
            return kind_of_tree(read_toml(file))
        if file.suffix == ".json":
            return kind_of_tree(read_json(file))
        with file.open("rb") as stream:
            return "code" if stream.read(8).startswith(_BINARY) else ""
    except (WarplensError, OSError, ValueError):
        return ""  # whoever reads it says what is wrong


def kind_of_tree(tree: Any) -> str:
    """Return the kind of what a TOML or JSON file holds."""
    if not isinstance(tree, dict):
        return ""
    kernels = tree.get("kernel")
    rows = [row for row in kernels if isinstance(row, dict)] if isinstance(kernels, list) else []
    if "node" in tree:
        return "graph"
    if isinstance(tree.get("workload"), list) or any(isinstance(row.get("launch"), str) for row in rows):
        return "space"
    if "grid" in tree and ("block" in tree or "num_warps" in tree or "arg" in tree):
        return "launch"
    if "architecture" in tree or "chip" in tree:
        return "machine"
    return "workload" if rows or not _WORKLOAD.isdisjoint(tree) else ""


def expect(tree: Any, wanted: str, file: str) -> None:
    """Refuse a file that is of another kind than the one that is read."""
    found = kind_of_tree(tree)
    if found not in ("", wanted):
        named = f'; a space names it: [[kernel]] with `launch = "{Path(file).name}"` (docs/reference/sweep-file.md)'
        raise refusal(file, found, KINDS[wanted][0], named if (found, wanted) == ("launch", "space") else "")


def read(path: Path, wanted: str) -> dict[str, Any]:
    """Read a TOML file of a kind; one that is of another kind is refused."""
    if path.suffix in _ENDINGS and (other := other_kind(path, wanted)) is not None:
        raise other
    tree = read_toml(path)
    expect(tree, wanted, str(path))
    return tree


def other_kind(path: str | Path, wanted: str) -> FileError | None:
    """Return what to say of a file that is not of the kind that is wanted; nothing where it is unknown."""
    found = kind_of(path)
    return None if found in ("", wanted) else refusal(path, found, KINDS[wanted][0])


def refusal(path: str | Path, found: str, wanted: str, more: str = "") -> FileError:
    """Return what to say of a file of one kind where something else is wanted."""
    return FileError(f"{path}: {KINDS[found][0]}, where {wanted} is wanted; {KINDS[found][1]}{more}")
