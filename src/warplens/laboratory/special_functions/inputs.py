"""Inputs of the special-function unit and of matrix instructions, and the form in which outputs are kept.

RANGES has 87 ranges of inputs, most a whole binade; of each a digest of the outputs is kept, and those from which the
tables are derived whole, as differences from one to the next. Inputs of matrix instructions are made again from seeds.
"""

from __future__ import annotations

import bz2
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]
Inputs = Callable[[], Words]  # 32 MB each: made when needed
FULL = 1 << 23
ONE = 0x3F800000


def binade(exponent: int, negative: bool = False) -> Words:
    """Return the bits of all floats of [2^exponent, 2^(exponent+1))."""
    first = ((exponent + 127) << 23) | (int(negative) << 31)
    return (np.arange(FULL, dtype=np.uint64) + first).astype(np.uint32)


def sampled(mantissas: int = 2048) -> Words:
    """Return every sign and exponent with the same mantissas: the ends, single bits, and random ones."""
    some = np.random.default_rng(1).integers(0, FULL, mantissas, dtype=np.uint32)
    some[:8] = [0, 1, 2, 3, FULL - 1, FULL - 2, FULL // 2, FULL // 2 + 1]
    some[8:31] = 1 << np.arange(23)
    return (np.arange(512, dtype=np.uint32)[:, None] << np.uint32(23) | np.sort(some)[None, :]).reshape(-1)


def words() -> Words:
    """Return upper words of doubles: the same with all signs and exponents."""
    some = np.random.default_rng(2).integers(0, 1 << 20, 128, dtype=np.uint32)
    some[:6] = [0, 1, 2, (1 << 20) - 1, 1 << 19, (1 << 19) + 1]
    every = np.arange(4096, dtype=np.uint32)[:, None] << np.uint32(20) | np.sort(some)[None, :]
    return every.reshape(-1)


def word_binades() -> Words:
    """Return all upper words of doubles in [1, 4)."""
    return np.arange(2 << 20, dtype=np.uint32) + np.uint32(0x3FF00000)


def halves() -> Words:
    """Return all 16-bit patterns, twice in a word."""
    every = np.arange(1 << 16, dtype=np.uint32)
    return every << np.uint32(16) | every


def ranges(exponents: Sequence[int], negative: Sequence[int] = ()) -> dict[str, Inputs]:
    """Return what makes whole binades, by name, and the samples."""
    found: dict[str, Inputs] = {f"2^{e}": partial(binade, e) for e in exponents}
    found |= {f"-2^{e}": partial(binade, e, True) for e in negative}
    return found | {"samples": sampled}


HALVES: dict[str, Inputs] = {"all": halves}
WORDS: dict[str, Inputs] = {"binades": word_binades, "samples": words}
RANGES: dict[str, dict[str, Inputs]] = {
    "rcp": ranges([0, 10]),
    "rsq": ranges([0, 1, 10, 11]),
    "sqrt": ranges([0, 1, 10, 11]),
    "ex2": ranges([-6, -3, -2, -1, 0, 1, 2, 4], [-4, -2, -1, 0, 1, 3]),
    "lg2": ranges([-20, -2, -1, 0, 1, 2, 3, 7, 31]),
    "sin": ranges([-8, -6, -5, -4, -3, -2, -1, 0, 1, 4], [-3, -2]),
    "cos": ranges([-8, -6, -5, -4, -3, -2, -1, 0, 1, 4], [-3, -2]),
    "tanh": ranges([-12, -8, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3], [-1, 0]),
    "ex2_f16x2": HALVES, "tanh_f16x2": HALVES, "ex2_bf16x2": HALVES, "tanh_bf16x2": HALVES,
    "rcp64h": WORDS, "rsq64h": WORDS,
}  # fmt: skip


def is_kept(name: str, part: str) -> bool:
    """Return whether the derivation or a test needs the outputs themselves."""
    whole = {"rcp/2^0", "rsq/2^0", "rsq/2^1", "sqrt/2^0", "sqrt/2^1", "ex2/2^0", "lg2/2^0", "sin/2^-2"}
    tangent = name == "tanh" and part not in ("2^-12", "2^3", "-2^-1", "-2^0")
    return f"{name}/{part}" in whole or tangent or part in ("samples", "all", "binades")


def packed(values: Words) -> npt.NDArray[np.uint8]:
    """Return 32-bit words as compressed differences, by planes of bytes."""
    differences = np.diff(values.astype(np.int64), prepend=0).astype(np.uint64).astype(np.uint32)
    planes = np.ascontiguousarray(differences.view(np.uint8).reshape(-1, 4).T)
    return np.frombuffer(bz2.compress(planes.tobytes()), np.uint8)


def unpacked(data: npt.NDArray[np.uint8]) -> Words:
    """Return what was packed."""
    planes = np.frombuffer(bz2.decompress(data.tobytes()), np.uint8).reshape(4, -1)
    differences = np.ascontiguousarray(planes.T).view(np.uint32).reshape(-1)
    return np.cumsum(differences.astype(np.uint64)).astype(np.uint32)


# Bits of exponent and fraction of each type; registers per lane of A, B and of C and D.
KINDS = {"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 10), "f32": (8, 23)}
MATRICES = {
    "f16_f32": (4, 2, 4), "bf16_f32": (4, 2, 4), "f16_f16": (4, 2, 2), "tf32_f32": (4, 2, 4), "f16_f32_k8": (2, 1, 4),
    "bf16_f32_k8": (2, 1, 4), "f16_f16_k8": (2, 1, 2), "tf32_f32_k4": (2, 1, 4),
}  # fmt: skip
WARPS = 384
KEPT_WARPS = slice(None, None, 48)
PATTERNS = ("normal", "wide", "powers", "cancel", "sparse", "any")


def elements(rng: np.random.Generator, kind: str, count: int, pattern: str, total: bool) -> Words:
    """Return random floats of a kind as 32-bit patterns (of their own width; tf32 in the upper bits)."""
    exponent_bits, fraction_bits = KINDS[kind]
    bias = (1 << (exponent_bits - 1)) - 1
    spread = min(bias - 1, {"normal": 2, "wide": 14, "powers": 14, "cancel": 1, "sparse": 10, "any": bias - 1}[pattern])
    e = rng.integers(-spread, spread + 1, count) * (2 if total and pattern != "any" and spread * 2 < bias else 1) + bias
    f = rng.integers(0, 1 << fraction_bits, count)
    s = rng.integers(0, 2, count)
    if pattern == "powers":
        f = np.where(rng.random(count) < 0.5, 0, f & (3 << (fraction_bits - 2)))
    zero = rng.random(count) < {"sparse": 0.8, "powers": 0.5}.get(pattern, 0.02)
    if pattern == "any":  # denormal numbers; in the second half of the warps also infinities and NaN
        e = np.where(rng.random(count) < 0.05, 0, e)
        late = np.arange(count) >= count // 2
        e = np.where(late & (rng.random(count) < 0.002), (1 << exponent_bits) - 1, e)
        f = np.where(rng.random(count) < 0.3, 0, f)
    bits = (s << (exponent_bits + fraction_bits)) | np.where(zero, 0, (e << fraction_bits) | f)
    return (bits << (13 if kind == "tf32" else 0)).astype(np.uint32)


def registers(rng: np.random.Generator, kind: str, count: int, pattern: str, total: bool = False) -> Words:
    """Return that many registers of packed random elements."""
    width = 32 if kind == "tf32" else 1 + sum(KINDS[kind])
    per = 32 // width
    parts = elements(rng, kind, count * per, pattern, total).reshape(count, per)
    packed_parts: Words = (parts << (np.arange(per, dtype=np.uint32) * np.uint32(width))).sum(1).astype(np.uint32)
    return packed_parts


def matrix_inputs(name: str, pattern: str) -> tuple[Words, Words, Words]:
    """Return the registers of A, B and C as [warp, lane, register]."""
    kind, total = name.split("_")[:2]
    rng = np.random.default_rng([sum(name.encode()), PATTERNS.index(pattern)])
    a, b, c = (
        registers(rng, which, WARPS * 32 * count, pattern, last).reshape(WARPS, 32, count)
        for which, count, last in zip((kind, kind, total), MATRICES[name], (False, False, True), strict=True)
    )
    if (
        pattern == "cancel" and b.shape[2] == 2
    ):  # the second half of k is the first with the other sign, but for last bits
        a[:, :, 2:] = a[:, :, :2] ^ np.uint32(0x80000000 if kind == "tf32" else 0x80008000)
        b[:, :, 1] = b[:, :, 0] ^ (rng.random(WARPS * 32) < 0.2).astype(np.uint32).reshape(WARPS, 32)
    return a, b, c
