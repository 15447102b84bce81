"""The measured launches of real kernels: the suite under examples/, timed on an H200, train and test apart.

The workloads were counted by the emulator (kernels/workloads.json.xz, by `suite/count.py`); the times are
ncu's durations, medians with a warm L2 (durations.json.gz); times between two events, 1.6 us longer, are in
times.json.gz. A third of the kernels, by a hash of their name, is the test set: nobody looks at its residuals when a
model is changed.
"""

from __future__ import annotations

import hashlib
import lzma
from functools import cache
from pathlib import PurePosixPath
from typing import Literal

import msgspec
from msgspec import Struct

from warplens.core.errors import WarplensError
from warplens.machine import load_machine
from warplens.papers.validation.stored import data_file, read
from warplens.workload import Workload

_FOLDERS = {"h200": "h200/suite/kernels"}
Part = Literal["train", "test"]
PARTS: tuple[Part, Part] = ("train", "test")


class Launch(Struct, frozen=True):
    """One measured launch: its name (launch file, variant), its workload, and the median times in seconds."""

    name: str
    workload: Workload
    seconds: float
    cold_seconds: float | None = None

    @property
    def kernel(self) -> str:
        """The launch file's name: what the sets are split by."""
        return self.name.partition(".")[0]

    @property
    def part(self) -> Part:
        """`test` or `train`."""
        return "test" if is_test(self.kernel) else "train"

    @property
    def family(self) -> str:
        """Kind of kernel: the folder of examples/ that its source is in."""
        folder = PurePosixPath(self.workload.source).parent.as_posix().removeprefix("examples").strip("/")
        return folder or "saxpy"


class _Workloads(Struct):
    """The file of counted workloads."""

    workloads: dict[str, Workload]


def is_test(kernel: str) -> bool:
    """Return whether a kernel belongs to the test set: one in three, by a hash of its name."""
    return hashlib.sha256(kernel.encode()).digest()[0] % 3 == 0


def measured_folder(gpu: str) -> str:
    """Return the folder of data/ with the kernels measured on a machine."""
    machine = load_machine(gpu)
    if machine.id not in _FOLDERS:
        raise WarplensError(f"no kernels were measured on {machine.name}; there are some of: {', '.join(_FOLDERS)}")
    return _FOLDERS[machine.id]


def launches(gpu: str = "h200") -> tuple[Launch, ...]:
    """Read the measured launches of a machine."""
    return launches_in(measured_folder(gpu))


@cache
def launches_in(folder: str) -> tuple[Launch, ...]:
    """Read the measured launches in a folder of data/: durations.json.gz and workloads.json.xz."""
    times = read(f"{folder}/durations.json.gz")["launches"]
    raw = lzma.decompress(data_file(f"{folder}/workloads.json.xz").read_bytes())
    return tuple(
        Launch(name, workload, 1e-6 * times[name]["warm_us"], 1e-6 * times[name]["cold_us"])
        for name, workload in msgspec.json.decode(raw, type=_Workloads).workloads.items()
        if name in times
    )
