"""Measurements that ship: the files under data/, and sweeps of one body over occupancies."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from warplens.core.errors import FileError
from warplens.workload import Workload


class Sweep(Struct, frozen=True):
    """One measured body over occupancies: warps per SM, and the cycles that an SM took per body."""

    mix: str
    alpha: int
    workload: Workload
    warps_per_sm: list[float]
    cycles: list[float]


class Judged(Struct, frozen=True):
    """Answers of one model to the measured sweeps that it speaks about: cycles per body at each occupancy."""

    model: str
    sweeps: list[Sweep]
    cycles: list[list[float]]
    unphysical: int = 0


@cache
def read(name: str) -> dict[str, Any]:
    """Read a data file, gzipped JSON."""
    content: dict[str, Any] = json.loads(gzip.decompress(data_file(name).read_bytes()))
    return content


def data_file(name: str) -> Path:
    """Return where a data file is: in the installed package, or in the checkout it is installed from."""
    package = Path(__file__).parents[2]
    for folder in (package / "data", package.parents[1] / "data"):
        if (folder / name).is_file():
            return folder / name
    raise FileError(f"data/{name} is not in the installed package: run from a checkout of warplens")
