"""Volkov 2016 §6.4-6.5: the two bounds, with a memory latency that grows with memory throughput.

    memory latency(x) = a + b x / (c - x)        x in B/s, Table 6.5
    throughput        = min( n / latency(throughput), throughput bound )

A one-term curve makes this a quadratic; any other (the two-term fit for the G80) is solved by bisection, as
the dissertation does. One decision of ours: mean latency is never below the unloaded latency of Table 6.2,
where the fit's `a` lies under it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.machine import Machine
from warplens.machine.tables import Contention
from warplens.models.bounds import Residency, latency_bound, loads_on_chain, memory_latency, totals, worksheet
from warplens.models.prediction import Prediction, Term, answer
from warplens.models.published.volkov import concurrency, tightest
from warplens.workload import Number, Workload

_STEPS = 52  # halvings: the interval shrinks to one part in 2^52, a double's resolution


def predict(workload: Workload, machine: Machine, residency: Residency, *, refined: bool = False) -> Prediction:
    """Predict with the loaded latency of Table 6.5, or of the refined fit where the machine has one."""
    model = "volkov-contention-refined" if refined else "volkov-contention"
    curve = machine.contention_refined if refined else machine.contention
    if curve is None:
        raise machine.missing(model, "contention_refined" if refined else "contention")
    n = residency.warps_per_sm
    uses = totals(worksheet(workload, machine, model))
    slowest, conditions = tightest(uses)
    unloaded = latency_bound(workload, machine, model)
    loads = loads_on_chain(workload, machine)
    base = memory_latency(machine, model) if np.any(loads) else 0.0
    # x in bytes per second at one body per cycle and SM; a machine-wide rate
    bytes_per_body = workload.dram_bytes() * machine.chip.sm_count * machine.chip.clock_hz
    solve = _quadratic if curve.b2_cycles is None else _bisection
    rate = solve(n, unloaded - loads * base, loads, base, bytes_per_body, 1 / slowest, curve)
    loaded = loaded_latency(curve, rate * bytes_per_body, base)
    latency = unloaded + loads * (loaded - base)
    return answer(
        model,
        workload,
        machine,
        residency,
        cycles=residency.warps_on_sm / rate,
        bounds={
            "latency": unloaded > n * slowest,
            "dram contention": rate * slowest < 1 - 1e-9,  # unloaded, there would be warps enough
            **conditions,
        },
        limits={
            "latency": latency / n * residency.warps_on_sm,
            **{name: c * residency.warps_on_sm for name, c in uses.items()},
        },
        terms={
            "n": Term(n, "warps/SM", "§3.4"),
            "a": Term(curve.a_cycles, "cycles", "Table 6.5"),
            "b": Term(curve.b_cycles, "cycles", "Table 6.5"),
            "c": Term(curve.c_bytes_per_second, "B/s", "Table 6.5"),
            "memory latency": Term(loaded, "cycles", "§6.4"),
            "Latency": Term(latency, "cycles", "§6.5"),
            **{f"{name} cycles per warp": Term(c, "cycles", "§3.6") for name, c in uses.items()},
            "throughput bound": Term(1 / slowest, "warps/cycle/SM", "§3.6"),
            "warp throughput": Term(rate, "warps/cycle/SM", "§6.5"),
            **concurrency(workload, machine, rate),
        },
    )


def loaded_latency(curve: Contention, x: Number, unloaded: float = 0.0) -> Number:
    """Return the mean memory latency in cycles at x bytes per second (§6.4), at least the unloaded one."""
    latency = curve.a_cycles + curve.b_cycles * x / (curve.c_bytes_per_second - x)
    if curve.b2_cycles is not None and curve.c2_bytes_per_second is not None:
        latency = latency + curve.b2_cycles * x / (curve.c2_bytes_per_second - x)
    return np.maximum(latency, unloaded)


def _quadratic(
    n: Number,
    fixed: Number,
    loads: Number,
    base: float,
    bytes_per_body: Number,
    bound: Number,
    curve: Contention,
) -> Number:
    """Return the throughput t with t * latency(t) = n, at most the bound, for the one-term curve.

    t (F + B t l b / (c - B t)) = n with F = fixed + l a is a quadratic in t; this is its root below c / B in
    the form that does not cancel. Latency is the larger of curve and floor, so t is the smaller of two roots.
    """
    b, c = curve.b_cycles, curve.c_bytes_per_second
    chain = fixed + loads * curve.a_cycles
    linear = chain * c + n * bytes_per_body
    root = np.sqrt(np.maximum(0.0, linear**2 - 4 * c * n * bytes_per_body * (chain - loads * b)))
    by_curve = 2 * c * n / (linear + root)
    return np.minimum(np.minimum(by_curve, n / (fixed + loads * base)), bound)


def _bisection(
    n: Number,
    fixed: Number,
    loads: Number,
    base: float,
    bytes_per_body: Number,
    bound: Number,
    curve: Contention,
) -> Number:
    """Return the same for any curve."""
    pole = min(curve.c_bytes_per_second, curve.c2_bytes_per_second or np.inf)
    with np.errstate(divide="ignore"):
        high = np.minimum(bound, np.divide(pole, bytes_per_body) * (1 - 1e-12))
    shape = np.broadcast_shapes(*map(np.shape, (n, fixed, loads, high)))
    high = np.broadcast_to(high, shape).astype(float)
    low = np.zeros(shape)

    def too_fast(t: Number) -> Any:
        return t * (fixed + loads * loaded_latency(curve, t * bytes_per_body, base)) > n

    start, at_bound = high, ~np.asarray(too_fast(high))
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        fast = too_fast(middle)
        high = np.where(fast, middle, high)
        low = np.where(fast, low, middle)
    return np.where(at_bound, start, low)
