"""The special-function unit and the sums of tensor cores against what an H200 gave, bit for bit."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numba import njit

from warplens.emulator import ops
from warplens.emulator.tensor import add_products, result_bits
from warplens.laboratory.special_functions import check, derive, inputs

FOLDER = Path(__file__).parents[2] / "data/experiments/special_functions"
Words = npt.NDArray[np.uint32]
Reals = npt.NDArray[np.float64]


MEASURED, MATRICES = np.load(FOLDER / "measured.npz"), np.load(FOLDER / "matrices.npz")
FUNCTIONS = [name for name in inputs.RANGES if name.upper() in ops.SPECIAL_FUNCTIONS]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_signs_and_exponents(name: str) -> None:
    """2048 mantissas (of the upper words of doubles 128) with each: zeros, denormals, infinities and NaN among them."""
    assert np.array_equal(
        check.outputs(name, inputs.RANGES[name]["samples"]()), inputs.unpacked(MEASURED[f"{name}/samples"])
    )


@pytest.mark.slow
@pytest.mark.parametrize("key", [f"{name}/{part}" for name in FUNCTIONS for part in inputs.RANGES[name]])
def test_every_output_of_every_range(key: str) -> None:
    name, _, part = key.partition("/")
    made = check.outputs(name, inputs.RANGES[name][part]())
    digests = json.loads((FOLDER / "digests.json").read_text())["sha256"]
    assert hashlib.sha256(made.tobytes()).hexdigest() == digests[key]


def test_a_table_is_what_its_measurement_says() -> None:
    """Of the constants of a segment only those of the table explain its outputs."""
    tables = json.loads(derive.TABLES.read_text())
    (segment,) = derive.hyperbolic_tangent(-7)  # the second; of samples: quick
    c1, c2, least, below = derive.constants(*segment)
    c0 = tables["tanh"]["segments"][1][0] / 4  # from 2^-26 to 2^-24
    assert [c1, c2] == tables["tanh"]["segments"][1][1:]
    assert least <= c0 < below


_jit: Any = njit  # without a cache on disk: it would not see what has changed in the functions that are called


@_jit(error_model="numpy")  # type: ignore[untyped-decorator]
def _products(a: Any, b: Any, kind: int, total: int, sums: Any, made: Any) -> None:
    for w in range(len(a)):
        add_products(a[w], b[w], kind, total, 16, a.shape[1], sums[w])
        for r in range(16):
            for c in range(8):
                made[w, r, c] = result_bits(sums[w, r, c], total)


def _elements(words: Words, kind: str) -> Words:
    """Return the elements of registers, as [warp, lane, register, element]."""
    if kind in ("f32", "tf32"):
        return words[..., None] & np.uint32(0xFFFFE000 if kind == "tf32" else 0xFFFFFFFF)
    return words[..., None] >> np.array([0, 16], np.uint32) & np.uint32(0xFFFF)


def _values(words: Words, kind: str) -> Reals:
    with np.errstate(invalid="ignore"):  # NaN
        if kind == "f16":
            return words.astype(np.uint16).view(np.float16).astype(np.float64)
        return (words << np.uint32(16 if kind == "bf16" else 0)).view(np.float32).astype(np.float64)


def _factor(words: Words, kind: str, rows: int) -> Reals:
    """Return A, or B as its transpose, as [warp, k, row], from [row, k, block of k, upper half, element of k]."""
    values = _values(_elements(words, kind), kind)
    warps, _, count, per = values.shape
    parts = values.reshape(
        warps, 8, 4, count * 8 // rows, rows // 8, per
    )  # row, column, block of k, upper half, element
    return np.ascontiguousarray(parts.transpose(0, 3, 2, 5, 4, 1).reshape(warps, -1, rows))


def _sums(words: Words, kind: str) -> Words:
    """Return C or D as [warp, row, column]."""
    parts = _elements(words, kind).reshape(len(words), 8, 4, 2, 2)  # row, pair of columns, upper half, column
    return parts.transpose(0, 3, 1, 2, 4).reshape(len(words), 16, 8)


@pytest.mark.parametrize("name", inputs.MATRICES)
def test_sums_of_tensor_cores(name: str) -> None:
    """Random, far apart, cancelling, sparse, denormal, infinite: 8 instructions of each kind."""
    kind, total = name.split("_")[:2]
    codes = {"f16": ops.M_F16, "bf16": ops.M_BF16, "tf32": ops.M_TF32, "f32": ops.M_F32}
    for way in inputs.PATTERNS:
        given = inputs.matrix_inputs(name, way)
        assert [int(part.astype(np.uint64).sum()) for part in given] == MATRICES[f"{name}/{way}/sums"].tolist()
        a, b, c = (part[inputs.KEPT_WARPS] for part in given)
        sums, theirs = _values(_sums(c, total), total), _sums(MATRICES[f"{name}/{way}"], total)
        made = np.zeros_like(theirs)
        _products(_factor(a, kind, 16), _factor(b, kind, 8), codes[kind], codes[total], sums.copy(), made)
        assert np.array_equal(made, theirs), way
