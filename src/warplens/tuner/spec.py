"""Sweep files: a space of macros, launch parameters, GPUs and models over kernels (docs/reference/sweep-file.md).

format = 1
gpus = ["h200", "a100"]
models = ["warplens-fast"]
emulation = "quick"                     # or "full": as many blocks as `analyze` takes

[[kernel]]
launch = "matmul.launch.toml"           # beside this file
where = ["BM // TM * (BN // TN) <= 512"]

[kernel.define]                         # axes that are macros of the compiler
BM = [32, 64, 128]

[kernel.parameter]                      # axes that only the expressions below know
per_sm = [1, 2, 4]

[kernel.set]                            # keys of the launch, as expressions of axes and scalar arguments
grid = ["n // BN", "n // BM"]
block = "BM // TM * (BN // TN)"
arg.n = "size"

[[workload]]                            # in place of a kernel: numbers of a workload as axes, by closed forms
workload = "volkov-add-load"            # one of ours by name, or a file beside this one
[workload.axis]
alpha = { from = 0, to = 512, count = 1000 }
warps_per_sm = [8, 16, 32, 64]
"instructions.fp32" = [16, 32]
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct, field

from warplens.core import file_kinds as kinds
from warplens.core.errors import FileError, WarplensError, nearest
from warplens.core.files import convert, read_toml
from warplens.machine import KINDS
from warplens.tuner.expression import Value, evaluate, names_in
from warplens.workload import Workload, load_workload
from warplens.workload.launch import KernelCall, parse_launch

NO_TRITON = (
    "Triton's kernels are not swept: Triton, not the launch, sets the block and the parameters of each configuration; "
    "`warplens analyze` takes them one by one, and `triton_prune` filters Triton's own autotune (docs/howto/tune.md)"
)

Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]  # a column of results holds no larger one
_MOST_POINTS = 10**12
Axis = Annotated[list[Whole | float | str], Meta(min_length=1, max_length=1_000_000)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=60)]
Names = Annotated[list[str], Meta(min_length=1, max_length=1000)]
Shape = int | str | Annotated[list[int | str], Meta(min_length=1, max_length=3)]
Change = int | float | str | dict[str, int | float | str]
Array = npt.NDArray[Any]
Emulation = Literal["quick", "full"]  # fewer blocks of a grid for a sweep, or as many as `analyze` takes
NUMBERS = ("barriers", "iterations", "ilp", "mlp")  # of a workload, that may be axes
_LEAST, _MOST = {"warps_per_sm": 1e-6, "iterations": 1e-6, "ilp": 1.0, "mlp": 1.0}, 1e18  # as in a workload's file


class _Part(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a sweep file: an unknown key is refused."""


class Settings(_Part, frozen=True):
    """Launch parameters that follow from the axes: whole numbers, or expressions as text."""

    grid: Shape | None = None
    block: Shape | None = None
    dynamic_shared_bytes: int | str | None = None
    arguments: dict[str, Change] = field(default_factory=dict, name="arg")


class Range(Struct, frozen=True, forbid_unknown_fields=True, rename={"start": "from", "stop": "to"}):
    """Numbers at equal distances, both ends among them."""

    start: float
    stop: float
    count: Annotated[int, Meta(ge=1, le=10_000_000)]


class WorkloadSpace(Struct, frozen=True, forbid_unknown_fields=True):
    """A workload and the numbers of it that vary; the last axis varies fastest."""

    workload: str
    axis: Annotated[dict[str, Range | Annotated[list[float], Meta(min_length=1)]], Meta(min_length=1)]

    @property
    def size(self) -> int:
        """Points for each GPU and model."""
        return math.prod(v.count if isinstance(v, Range) else len(v) for v in self.axis.values())

    def at(self, numbers: Array) -> dict[str, Array]:
        """Return the values on each axis of the points with these numbers."""
        found: dict[str, Array] = {}
        for name, values in reversed(self.axis.items()):
            those = (
                np.linspace(values.start, values.stop, values.count) if isinstance(values, Range) else np.array(values)
            )
            found[name] = those[numbers % len(those)]
            numbers = numbers // len(those)
        return {name: found[name] for name in self.axis}


class KernelSpace(_Part, frozen=True, kw_only=True):
    """The configurations of one kernel: its launch file, the axes, what follows from them, the conditions."""

    launch: str
    name: str = ""
    variant: str = ""
    define: dict[Name, Axis] = {}
    parameter: dict[Name, Axis] = {}
    settings: Settings = field(default_factory=Settings, name="set")
    where: Annotated[list[str], Meta(max_length=100)] = []

    @property
    def axes(self) -> dict[str, list[Value]]:
        """All axes, macros first; the last one varies fastest."""
        return {**self.define, **self.parameter}

    @property
    def size(self) -> int:
        """Configurations before `where` leaves some out."""
        return math.prod(len(values) for values in self.axes.values())

    @property
    def title(self) -> str:
        """The name that results carry."""
        return self.name or Path(self.launch).name.removesuffix(".toml").removesuffix(".launch")

    def values(self, number: int) -> dict[str, Value]:
        """Return the value on each axis of the configuration with this number."""
        found: dict[str, Value] = {}
        for name, values in reversed(self.axes.items()):
            number, at = divmod(number, len(values))
            found[name] = values[at]
        return {name: found[name] for name in self.axes}


class Configuration(Struct, frozen=True):
    """One launch of one kernel: its number in the sweep, the kernel's name, the axes' values, and the call."""

    number: int
    kernel: str
    values: dict[str, Value]
    call: KernelCall


class Sweep(Struct, frozen=True, dict=True):
    """A sweep file with the launch files that it names."""

    gpus: list[str]
    models: list[str]
    kernels: list[KernelSpace]
    workloads: list[WorkloadSpace]
    launches: list[dict[str, Any]]
    emulation: Emulation
    folder: str
    file: str

    @property
    def size(self) -> int:
        """Configurations of kernels before `where` leaves some out: their numbers run from 0 up to this."""
        return sum(kernel.size for kernel in self.kernels)

    @cached_property
    def digest(self) -> str:
        """The hash of the whole sweep file and its launch files."""
        said = [self.gpus, self.models, self.kernels, self.workloads, self.launches, self.emulation]
        return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()

    def calls(self) -> Iterator[KernelCall]:
        """Yield the call of each kernel as its launch file has it."""
        return (_base(tree, kernel, self.folder) for kernel, tree in zip(self.kernels, self.launches, strict=True))

    def configurations(self, first: int = 0) -> Iterator[Configuration | WrongPoint]:
        """Yield the wanted configurations in the order of their numbers, one by one; a wrong one with its error."""
        start = 0
        for kernel, base in zip(self.kernels, self.calls(), strict=True):
            scalars = _scalars(base)
            for at in range(max(0, first - start), kernel.size):
                found = _configured(start + at, kernel, kernel.values(at), base, scalars)
                if found is not None:
                    yield found
            start += kernel.size


class WrongPoint(Struct, frozen=True):
    """A configuration that cannot be launched, and why."""

    number: int
    kernel: str
    values: dict[str, Value]
    error: str


class _File(_Part, frozen=True, kw_only=True):
    """A sweep file as it is written."""

    format: Literal[1] = 1
    gpus: Names = field(default_factory=lambda: ["h200"])
    models: Names = field(default_factory=lambda: ["warplens-fast"])
    emulation: Emulation = "quick"
    kernels: Annotated[list[KernelSpace], Meta(max_length=100_000)] = field(default_factory=list, name="kernel")
    workloads: Annotated[list[WorkloadSpace], Meta(max_length=1000)] = field(default_factory=list, name="workload")


def load_sweep(path: str | Path) -> Sweep:
    """Read a sweep file and the launch files that it names; check what can be checked without a compiler."""
    path = Path(path)
    said = convert(kinds.read(path, "space"), _File, str(path))
    launches = [read_toml(path.parent / kernel.launch) for kernel in said.kernels]
    if not said.kernels and not said.workloads:
        raise FileError(f"{path}: no [[kernel]] and no [[workload]] in it: nothing to sweep")
    points = sum(k.size for k in said.kernels) + sum(w.size for w in said.workloads)
    if points > _MOST_POINTS:
        raise FileError(f"{path}: more than {_MOST_POINTS:,} configurations, which would take years")
    folder = str(path.parent)
    sweep = Sweep(said.gpus, said.models, said.kernels, said.workloads, launches, said.emulation, folder, str(path))
    for i, space in enumerate(said.workloads):
        _check_axes(space, folder, f"{path}: workload.{i}")
    for i, (kernel, tree) in enumerate(zip(said.kernels, launches, strict=True)):
        both = sorted(set(kernel.define) & set(kernel.parameter))
        if both:
            raise FileError(f"{path}: kernel.{i}: {both[0]} is both a macro and a parameter")
        base = _base(tree, kernel, folder)
        if base.num_warps is not None:
            raise FileError(f"{path}: kernel.{i}: {base.file}: {NO_TRITON}")
        _check_names(kernel, base, f"{path}: kernel.{i}")
        wrong = sorted(set(kernel.settings.arguments) - {a.name for a in base.arguments})
        if wrong:
            raise FileError(f"{path}: kernel.{i}.set.arg.{wrong[0]}: the launch file has no such argument")
    return sweep


def workload_of(space: WorkloadSpace, folder: str) -> Workload:
    """Load the workload of a space: one of ours by name, or a file beside the sweep file."""
    beside = Path(folder) / space.workload
    return load_workload(beside if beside.is_file() else space.workload)


def _check_axes(space: WorkloadSpace, folder: str, where: str) -> None:
    """Refuse an axis that the workload does not have, and values that no workload can have."""
    workload = workload_of(space, folder)
    for name, values in space.axis.items():
        table, _, kind = name.partition(".")
        known = name == "warps_per_sm" or (name == "alpha" and workload.mix is not None) or name in NUMBERS
        if not known and not (table == "instructions" and kind in KINDS):
            raise FileError(
                f"{where}.axis.{name}: unknown; there are: warps_per_sm, alpha (of a mix), instructions.CLASS, "
                + ", ".join(NUMBERS)
            )
        least = _LEAST.get(name, 0.0)
        for value in (values.start, values.stop) if isinstance(values, Range) else values:
            if not least <= value <= _MOST:
                raise FileError(f"{where}.axis.{name}: must be a number from {least:g} to {_MOST:g}, not {value:g}")


def _base(tree: dict[str, Any], kernel: KernelSpace, folder: str) -> KernelCall:
    launch = Path(folder) / kernel.launch
    return parse_launch(tree, str(launch), kernel.variant, folder=str(launch.parent))


def _scalars(call: KernelCall) -> dict[str, Any]:
    """Return the arguments that expressions may name."""
    return {a.name: a.value for a in call.arguments if a.name and isinstance(a.value, int | float)}


def _check_names(kernel: KernelSpace, base: KernelCall, where: str) -> None:
    """Refuse an expression with an unknown name, before any point is made."""
    said = kernel.settings
    texts: dict[str, list[Any]] = {"where": [*kernel.where], "set.dynamic_shared_bytes": [said.dynamic_shared_bytes]}
    for key, shape in (("grid", said.grid), ("block", said.block)):
        texts[f"set.{key}"] = [*shape] if isinstance(shape, list) else [shape]
    for name, change in said.arguments.items():
        changes = change if isinstance(change, dict) else {"value": change}
        texts[f"set.arg.{name}"] = [changes.get("value"), changes.get("count")]
    known = {*kernel.axes, *_scalars(base)}
    for key, expressions in texts.items():
        for text in expressions:
            unknown = sorted(names_in(text) - known) if isinstance(text, str) else []
            if unknown:
                raise FileError(
                    f"{where}.{key}: {text!r}: no axis or argument {unknown[0]!r}{nearest(unknown[0], known)}"
                )


def _configured(
    number: int, kernel: KernelSpace, values: dict[str, Value], base: KernelCall, scalars: dict[str, Any]
) -> Configuration | WrongPoint | None:
    """Return the call with these values, None where `where` excludes it, or the error."""
    names = {**scalars, **values}
    try:
        if not all(evaluate(condition, names) for condition in kernel.where):
            return None
        return Configuration(number, kernel.title, values, _call(kernel, values, names, base))
    except WarplensError as error:
        return WrongPoint(number, kernel.title, values, str(error))


def _call(kernel: KernelSpace, values: dict[str, Value], names: dict[str, Any], base: KernelCall) -> KernelCall:
    said = kernel.settings
    tree = msgspec.to_builtins(base)
    for key in ("folder", "variant"):
        tree.pop(key, None)
    for key in ("grid", "block", "dynamic_shared_bytes"):
        value = getattr(said, key)
        if value is not None:
            tree[key] = [_whole(v, names) for v in value] if isinstance(value, list) else _whole(value, names)
    for argument in tree.get("arg", []):
        change = said.arguments.get(argument.get("name", ""))
        for key, value in (change if isinstance(change, dict) else {"value": change}).items():
            if value is not None:
                argument[key] = _given(value, names) if key in ("value", "count") else value
    tree["defines"] = [*base.defines, *(f"{name}={values[name]}" for name in kernel.define)]
    return parse_launch(tree, kernel.title, folder=base.folder)


def _given(value: Value, names: dict[str, Any]) -> Value:
    return evaluate(value, names) if isinstance(value, str) else value


def _whole(value: int | str, names: dict[str, Any]) -> int:
    found = _given(value, names)
    if isinstance(found, str) or found != int(found):
        raise WarplensError(f"{value!r} must be a whole number, not {found}")
    return int(found)
