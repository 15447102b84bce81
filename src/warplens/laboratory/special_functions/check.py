"""Comparison of the emulator's special functions with recorded outputs: every one of every range, by digest.

`python -m warplens.laboratory.special_functions.check` prints a line per function; half a minute.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from warplens.emulator import ops
from warplens.emulator.special import special, special_word
from warplens.laboratory.special_functions import DATA
from warplens.laboratory.special_functions.inputs import RANGES

Words = npt.NDArray[np.uint32]


_jit: Any = njit  # without a cache on disk, which would not see that the tables have changed


@_jit(error_model="numpy")  # type: ignore[untyped-decorator]
def emulated(code: int, given: Any, found: Any) -> None:
    """Run the special-function unit over an array."""
    for i in range(len(given)):
        word = np.uint32(given[i])
        found[i] = special_word(code, word) if code == ops.RCP64H or code == ops.RSQ64H else special(code, word)


def outputs(name: str, given: Words) -> Words:
    """Return what the emulator gives for an array of words."""
    found = np.zeros_like(given)
    emulated(ops.SPECIAL_FUNCTIONS[name.upper()], given, found)
    return found


def worst_ulp(name: str, given: Words, found: Words) -> float:
    """Return the largest distance from the exact value, in units of the last place of that."""
    x, y = (part.view(np.float32).astype(np.float64) for part in (given, found))
    circle = 2.0 * np.pi
    functions: dict[str, Callable[[], Any]] = {
        "rcp": lambda: 1.0 / x, "rsq": lambda: x**-0.5, "sqrt": lambda: x**0.5, "ex2": lambda: np.exp2(x),
        "lg2": lambda: np.log2(x), "sin": lambda: np.sin(circle * x), "cos": lambda: np.cos(circle * x),
        "tanh": lambda: np.tanh(x),
    }  # fmt: skip
    exact = functions[name]()
    return float((np.abs(y - exact) / np.spacing(np.abs(exact).astype(np.float32))).max())


# Where precision is relative: elsewhere results near zero have an absolute error.
TYPICAL = {"rcp": "2^0", "rsq": "2^1", "sqrt": "2^1", "ex2": "-2^0", "lg2": "2^2", "sin": "2^-4", "cos": "2^-5",
           "tanh": "2^-1"}  # fmt: skip


def main() -> None:
    """Compare all ranges; print how many outputs of each function agree, and how precise the unit is."""
    digests = json.loads((DATA / "digests.json").read_text())["sha256"]
    for name, parts in RANGES.items():
        if name.upper() not in ops.SPECIAL_FUNCTIONS:
            continue  # of halves
        same = other = 0
        for part, inputs in parts.items():
            given = inputs()
            found = outputs(name, given)
            if hashlib.sha256(found.tobytes()).hexdigest() == digests[f"{name}/{part}"]:
                same += len(given)
            else:
                other += len(given)
        print(f"{name:7} {same:>11,} outputs equal, {other:,} in ranges that differ", end="")
        if name in TYPICAL:
            given = parts[TYPICAL[name]]()
            print(f"; up to {worst_ulp(name, given, outputs(name, given)):.2f} ulp off in {TYPICAL[name]}", end="")
        print()


if __name__ == "__main__":
    main()
