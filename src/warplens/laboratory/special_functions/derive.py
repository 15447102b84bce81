"""Tables of the special-function unit, derived from its outputs for every mantissa.

`python -m warplens.laboratory.special_functions.derive` writes the emulator's table in about a minute.

The unit (Oberman and Siu, ARITH 2005) computes C0 + C1 l + C2 l^2 of a segment, with l the 17 bits of the argument
below those that choose the segment, and cuts off the result. With 41 bits behind the point, C0 has 26 of them, C1 and
C2 have 24, l 17, and the square 15: its partial products of lower weight are never added (`truncated_square`). An
output says in which interval the sum lies. The constants of a segment are the whole numbers that put all its 131,072
sums (RCP: 65,536) into their intervals: there is one such C1 and C2, and one C0 plus a bias that a function has once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warplens.laboratory.special_functions import DATA
from warplens.laboratory.special_functions.inputs import unpacked

MEASURED = DATA / "measured.npz"
TABLES = Path(__file__).parents[2] / "emulator" / "special_functions.json"
BITS = 17
COUNT = 1 << BITS
# Binades of tanh: bits of the argument below l. Smaller arguments are returned as they are, larger ones give 1.
TANH_BELOW = {-8: 6, -7: 6, -6: 6, -5: 5, -4: 5, -3: 4, -2: 4, -1: 4, 0: 3, 1: 2, 2: 3}

Words = npt.NDArray[np.uint32]
Reals = npt.NDArray[np.float64]


def outputs(key: str) -> Words:
    """Return the bits of the outputs over a range of inputs."""
    with np.load(MEASURED) as stored:
        return unpacked(stored[key])


def truncated_square(low: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return l squared in units of 2^19, with the partial products below that never added."""
    total = np.zeros_like(low)
    for a in range(BITS):
        for b in range(a + 1):
            weight = a + b + (a != b)
            if weight >= 19:
                total += (low >> a & low >> b & 1) << weight
    return total >> 19


LOW = np.arange(COUNT)
SQUARE = truncated_square(LOW)


def intervals(bits: Words) -> tuple[Reals, Reals]:
    """Return, in units of 2^-24, the outputs and the width of what was cut off."""
    value = bits.view(np.float32).astype(np.float64) * 2.0**24
    return value, 2.0 ** (np.floor(np.log2(np.maximum(np.abs(value), 2.0**-17))) - 23)  # 2^-41 is the last bit


def constants(low: npt.NDArray[np.int64], least: Reals, width: Reals) -> tuple[int, int, float, float]:
    """Return C1 and C2 in units of 2^-24, and between what C0 lies."""
    linear, square = low / COUNT, SQUARE[low] / 2.0**15
    columns = np.stack([np.ones(len(low)), linear, square], 1)
    guess = np.linalg.lstsq(columns, least + width / 2, rcond=None)[0]
    found = []
    for c2 in np.round(guess[2]) + np.arange(-3, 4):
        rest = least - c2 * square
        for c1 in np.round(guess[1] + guess[2] - c2) + np.arange(-4, 5):
            if np.ptp((rest - c1 * linear)[::61]) > 1.01 * width.max():
                continue
            at_least, below = (rest - c1 * linear).max(), (rest - c1 * linear + width).min()
            if at_least < below:
                found.append((int(c1), int(c2), at_least, below))
    if len(found) != 1:
        raise SystemExit(f"{len(found)} triples fit: {guess} {found[:3]}")
    return found[0]


def table(segments: list[tuple[npt.NDArray[np.int64], Reals, Reals]]) -> dict[str, Any]:
    """Return the constants of all segments: [C0, C1, C2] in units of 2^-26, 2^-24, 2^-24, and the bias in 2^-41."""
    rows = [constants(*segment) for segment in segments]
    # C0 is a multiple of 2^-26 plus the bias: the windows modulo 2^-26 have to share a point.
    lowest = np.array([row[2] * 2**17 for row in rows])
    highest = np.array([row[3] * 2**17 for row in rows])
    modulus = 1 << 15
    first = lowest[np.argmin(highest - lowest)]
    shift = np.round((lowest - first) / modulus) * modulus
    low, high = np.ceil((lowest - shift).max()), (highest - shift).min()
    if not low < high:
        raise SystemExit(f"no bias fits: {low} {high}")
    bias = (low + modulus // 2) % modulus - modulus // 2
    tables = [
        [round((least - bias) / modulus), c1, c2] for least, (c1, c2, _, _) in zip(low + shift, rows, strict=True)
    ]
    return {"bias": int(bias), "segments": tables}


def halves(key: str, segments: int, scale: float = 1.0) -> list[Any]:
    """Return the segments of a binade of inputs."""
    least, width = intervals(outputs(key))
    bits = 23 - int(np.log2(segments))
    low = np.arange(1 << bits) << (BITS - bits)
    pairs = zip(least.reshape(segments, -1) * scale, width.reshape(segments, -1) * scale, strict=True)
    return [(low, least, width) for least, width in pairs]


def without_first(segments: list[Any]) -> list[Any]:
    """Return the segments less the very first input, an exact power of two that the unit answers exactly."""
    low, least, width = segments[0]
    return [(low[1:], least[1:], width[1:]), *segments[1:]]


def logarithm() -> list[Any]:
    """Return the segments of [1, 2): what is below 2^-36 is cut off even where the float has bits for it."""
    segments = without_first(halves("lg2/2^0", 64))
    return [(low, least, np.maximum(width, 2.0**-12)) for low, least, width in segments]


def sine() -> list[Any]:
    """Return the segments of a quarter of a turn: the second quarter runs through them backwards."""
    least, width = intervals(outputs("sin/2^-2"))
    backwards = zip(least[::-1].reshape(64, -1), width[::-1].reshape(64, -1), strict=True)
    return [(LOW, least, width) for least, width in backwards]


def hyperbolic_tangent(exponent: int) -> list[Any]:
    """Return the segments of a binade; of 2^-7, which was not recorded whole and is one segment, from samples."""
    below = TANH_BELOW[exponent]
    if exponent != -7:
        parts = intervals(outputs(f"tanh/2^{exponent}"))
        least, width = (part[:: 1 << below].reshape(-1, COUNT) for part in parts)
        return [(LOW, *pair) for pair in zip(least, width, strict=True)]
    with np.load(MEASURED) as stored:
        mantissas = stored["mantissas"].astype(np.int64)
    row = slice((exponent + 127) * len(mantissas), (exponent + 128) * len(mantissas))
    least, width = intervals(outputs("tanh/samples")[row])
    return [(mantissas >> below, least, width)]


def main() -> None:
    """Derive all tables and write them."""
    tables = {
        "rcp": table(halves("rcp/2^0", 128)),
        "rsq": table(without_first(halves("rsq/2^0", 64)) + halves("rsq/2^1", 64)),
        "sqrt": table(halves("sqrt/2^0", 64) + halves("sqrt/2^1", 64)),
        "ex2": table(halves("ex2/2^0", 64, 0.5)),
        "lg2": table(logarithm()),
        "sin": table(sine()),
        "tanh": table([segment for exponent in TANH_BELOW for segment in hyperbolic_tangent(exponent)]),
    }
    text = json.dumps(tables, separators=(",", ":")).replace('},"', '},\n"').replace("]],", "]],\n")
    TABLES.write_text(text + "\n")
    for name, rows in tables.items():
        print(name, len(rows["segments"]), "segments, bias", rows["bias"])


if __name__ == "__main__":
    main()
