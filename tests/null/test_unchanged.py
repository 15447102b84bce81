"""Laws of changes: with nothing changed, or with numbers replaced by themselves, every answer is the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warplens as wl
from warplens.advisor import overlay as advised
from warplens.machine import Machine, load_machine
from warplens.models import predict
from warplens.papers.validation.kernels import launches
from warplens.simulator.overlay import overlay, restalled
from warplens.workload import Workload

from .test_laws import machines, workloads

GPU = load_machine("h200")
KERNELS = {
    x.name: x.workload for x in launches() if x.name in ("saxpy", "bitonic", "reduction_k6", "itilp", "dot.n64k")
}
kernels = st.sampled_from(sorted(KERNELS))


def _timing(kind: str, field: str) -> Callable[[Machine], float | None]:
    """Return what reads a number of an instruction class."""
    return lambda machine: getattr(machine.timing(kind), field)


# Numbers of a machine by the keys of `--set`.
NUMBERS: dict[str, Callable[[Machine], float | None]] = {
    "machine.sms": lambda m: m.chip.sm_count,
    "machine.clock": lambda m: m.chip.clock_hz,
    "machine.schedulers": lambda m: m.sm.schedulers,
    "machine.dram": lambda m: m.dram_bytes_per_second(),
    "machine.l2": lambda m: m.cache.l2_bytes_per_second,
    "machine.sm.warps_max": lambda m: m.sm.warps_max,
    "machine.contention.a_cycles": lambda m: m.contention.a_cycles if m.contention else None,
    **{f"{k}.latency": _timing(k, "latency_cycles") for k in ("fp32", "int", "sfu", "load", "shared")},
    **{f"{k}.rate": _timing(k, "peak_ops_per_cycle_per_scheduler") for k in ("fp32", "sfu")},
}

# Overlays of the advisor that change nothing.
OVERLAYS: dict[str, Callable[[Workload], Workload]] = {
    "counts": lambda w: advised.with_counts(w, {}),
    "traffic": lambda w: advised.with_traffic(w, lambda t: t),
    "scale": advised.scaled_traffic,
    "launch": advised.with_launch,
    "instructions": lambda w: advised.with_instructions(w, dict(enumerate(w.code))),
    "waits": lambda w: advised.with_instructions(
        w, {i: advised.without_waits(x, frozenset()) for i, x in enumerate(w.code)}
    ),
    "blocks": lambda w: advised.regrouped(w, w.profile.warps_per_block if w.profile else 1),
}


def itself(machine: Machine, keys: list[str]) -> dict[str, float]:
    """Return these numbers of a machine, of those that it has."""
    return {key: float(value) for key in keys if (value := NUMBERS[key](machine)) is not None}


chosen = st.lists(st.sampled_from(sorted(NUMBERS)), unique=True)


@settings(max_examples=40, deadline=None)
@given(workloads(), machines, chosen, st.sampled_from(["volkov", "volkov-contention", "roofline", "hong-kim"]))
def test_numbers_replaced_by_themselves_change_no_prediction(
    workload: Workload, machine: Machine, keys: list[str], model: str
) -> None:
    same, work = overlay(machine, workload, itself(machine, keys))
    assert work == workload
    try:
        before = predict(workload, machine, model).seconds
    except wl.WarplensError:
        return  # a machine without the model's numbers
    assert predict(workload, same, model).seconds == before


@settings(max_examples=5, deadline=None)
@given(workloads(), st.integers(1, 16), chosen)
def test_numbers_replaced_by_themselves_change_no_simulation(workload: Workload, warps: int, keys: list[str]) -> None:
    short = {kind: 1.0 + round(float(count) / 100) for kind, count in workload.instructions.items()}
    workload = workload.with_values(instructions=short, accesses=[])
    before = wl.simulate(workload, GPU, warps_per_sm=warps)
    for changes in ({}, itself(GPU, keys)):
        after = wl.simulate(workload, GPU, warps_per_sm=warps, changes=changes)
        assert (after.cycles, after.stalls) == (before.cycles, before.stalls)
        assert len([note for note in after.notes if "changes nothing here" in note]) == len(changes)


@settings(max_examples=8, deadline=None)
@given(kernels, chosen)
def test_what_if_with_nothing_changed_changes_nothing(kernel: str, keys: list[str]) -> None:
    work = KERNELS[kernel]
    for changes in ({}, itself(GPU, keys)):
        found = wl.what_if(work, GPU, changes, model="warplens-fast")
        assert found.after.seconds == found.before.seconds and found.speedup == 1
        assert found.after.parts == found.before.parts and found.after.limits == found.before.limits


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_code_for_the_same_latencies_is_the_same(kernel: str) -> None:
    code = KERNELS[kernel].code
    assert restalled(code, GPU, GPU.with_values(chip__clock_hz=1e9)) == code


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_overlays_of_the_advisor_that_change_nothing_keep_the_time(kernel: str) -> None:
    work = KERNELS[kernel]
    before = predict(work, GPU, "warplens").seconds
    for name, unchanged in OVERLAYS.items():
        assert predict(unchanged(work), GPU, "warplens").seconds == before, name
