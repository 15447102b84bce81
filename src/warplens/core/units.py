"""Units of field names, and numbers and names as people read them.

A quantity's unit stands in its field name (`clock_hz`, `latency_cycles`, `pin_bytes_per_second`), so a
machine file can be checked against it and no unit class is needed.
"""

from __future__ import annotations

import math

# Longest suffix first: `_bytes_per_second` before `_bytes`.
_SUFFIXES = (
    ("_ops_per_cycle_per_scheduler", "ops/cycle"),
    ("_ops_per_cycle_per_sm", "ops/cycle"),
    ("_warps_per_scheduler", "warps"),
    ("_flops_per_cycle_per_sm", "flop/cycle"),
    ("_bytes_per_second", "B/s"),
    ("_flops_per_second", "flop/s"),
    ("_warps_per_sm", "warps"),
    ("_warps_per_scheduler_max", "warps"),
    ("_warps_max", "warps"),
    ("_percent", "percent"),
    ("_seconds", "s"),
    ("_cycles", "cycles"),
    ("_factor", "ratio"),
    ("_fraction", "ratio"),
    ("_bytes", "B"),
    ("_warps", "warps"),
    ("_ipc", "IPC"),
    ("_hz", "Hz"),
)


def unit_of(field: str) -> str:
    """Return the unit that a field name carries, `count` where it carries none."""
    return next((unit for suffix, unit in _SUFFIXES if f"_{field}".endswith(suffix)), "count")


def number(x: float, digits: int = 4) -> str:
    """Write a plain number with so many significant digits, thousands unbroken, no needless zeros."""
    if math.isnan(x):
        return "nan"
    if math.isinf(x):
        return "∞" if x > 0 else "-∞"
    if x == int(x) and abs(x) < 1e7:
        return str(int(x))
    if 1e-3 <= abs(x) < 1e7:
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(x))))
        text = f"{x:.{decimals}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{x:.{digits - 1}e}"


def _scaled(x: float, unit: str, steps: tuple[tuple[float, str], ...], digits: int) -> str:
    if x == 0 or not math.isfinite(x):
        return f"{number(x)} {unit}".strip()
    factor, prefix = next((step for step in steps if abs(x) >= step[0]), steps[-1])
    return f"{number(x / factor, digits)} {prefix}{unit}"


def seconds(x: float, digits: int = 4) -> str:
    """Write a duration: `366.1 us`."""
    return _scaled(x, "s", ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n")), digits)


def quantity(x: float, unit: str, digits: int = 4) -> str:
    """Write a number with its unit, scaled where people expect it (Hz, B/s, flop/s, B, s)."""
    if unit == "s":
        return seconds(x, digits)
    if unit in ("B/s", "Hz", "flop/s"):
        return _scaled(x, unit, ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")), digits)
    if unit == "B":
        return _scaled(x, "B", ((2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"), (1.0, "")), digits)
    return number(x, digits) if unit in ("count", "ratio", "") else f"{number(x, digits)} {unit}"


def sure(interval: tuple[float, float], digits: int = 3) -> str:
    """Return the sentence on a 90 % interval; the unit stands once where both ends have the same."""
    low, high = (seconds(float(f"{x:.{digits}g}"), 3) for x in interval)
    (at, unit), (_, other) = low.split(), high.split()
    return f"90 % sure of {at if unit == other else low} to {high}"


def printable(text: str) -> str:
    """Return a text for a terminal: control characters, which a terminal would obey, become a replacement character."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)
