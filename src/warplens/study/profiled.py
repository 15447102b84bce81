"""One launch as a profiler saw it beside what we say of it: from the profiler's counts, and from the emulator's.

A profiler flushes L2 between its passes: the emulated workload must be of a cold L2 too.
"""

from __future__ import annotations

from msgspec import Struct

from warplens.errors import WarplensError
from warplens.frontend.ncu import INSTRUCTION, Record
from warplens.kernel import Workload
from warplens.kernel.measured import with_measured
from warplens.machine import Machine
from warplens.models import Prediction, predict

_CLOCKS_APART = 0.02


class Count(Struct, frozen=True):
    """One count of the profiler beside the emulator's."""

    what: str
    unit: str
    measured: float
    emulated: float


class Profiled(Struct, frozen=True, kw_only=True):
    """The measured time, the predictions by where their counts come from, and the counts themselves."""

    kernel: str
    machine: str
    measured_seconds: float
    predictions: dict[str, Prediction]
    counts: list[Count]
    notes: list[str] = []

    def percent(self, source: str) -> float:
        """The error of a prediction in percent of the measured time."""
        return 100 * (float(self.predictions[source].seconds or 0.0) / self.measured_seconds - 1)


def profiled(workload: Workload, record: Record, machine: Machine, model: str = "warplens") -> Profiled:
    """Predict a launch from both counts."""
    if "time_ns" not in record.counters:
        raise WarplensError("the profiler gave no gpu__time_duration")
    columns = {name: getattr(record, name) for name in INSTRUCTION}
    measured = with_measured(workload, columns, record.counters)
    return Profiled(
        kernel=workload.name,
        machine=machine.id,
        measured_seconds=1e-9 * record.counters["time_ns"],
        predictions={
            "profiler": predict(measured, machine, model),
            "emulator": predict(workload, machine, model),
        },
        counts=_counts(workload, record),
        notes=_notes(workload, record, machine),
    )


def _counts(workload: Workload, record: Record) -> list[Count]:
    profile, counters = workload.profile, record.counters
    assert profile is not None  # with_measured has looked
    made = [Count("instructions", "", float(sum(record.executed)), profile.total("executed"))]
    for name, what, unit, emulated in (
        ("l1_hit_percent", "hits in L1", "percent", 100 * profile.l1_hit_share),
        ("dram_read_bytes", "read from DRAM", "B", profile.dram_read_bytes),
        ("dram_write_bytes", "written to DRAM", "B", profile.dram_written_bytes),
    ):
        if name in counters:
            made.append(Count(what, unit, counters[name], emulated))
    return made


def _notes(workload: Workload, record: Record, machine: Machine) -> list[str]:
    clock, notes = record.counters.get("sm_clock_hz"), []
    if workload.profile is not None and workload.profile.l2 != "cold":
        notes.append(
            "the emulator's counts are of a warm L2, the profiler's of a cold one: l2 = \"cold\" in the launch"
        )
    if clock is not None and abs(clock / machine.chip.clock_hz - 1) > _CLOCKS_APART:
        notes.append(f"the GPU ran at {clock / 1e9:.2f} GHz, the machine file says {machine.chip.clock_hz / 1e9:.2f}")
    return notes
