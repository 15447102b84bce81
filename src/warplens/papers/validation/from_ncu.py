"""The measured launches predicted from what ncu counted instead of from what the emulator did.

ncu flushes the caches before each of its passes, so that these predictions are held against times with a cold L2.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from warplens.machine import load_machine
from warplens.papers.validation.kernel_errors import OURS, KernelError, errors
from warplens.papers.validation.kernels import Launch, launches, measured_folder
from warplens.papers.validation.points import Run, Watch, points
from warplens.papers.validation.profiler_counts import INSTRUCTION, with_measured
from warplens.papers.validation.stored import read


def measured_launches(gpu: str = "h200", every: int = 1) -> list[Launch]:
    """Return the launches that ncu counted, with its counts and their times with a cold L2."""
    known = read(f"{measured_folder(gpu)}/ncu.json.gz")["launches"]
    cold = []
    for launch in launches(gpu)[::every]:
        if launch.name in known and launch.cold_seconds is not None:
            record = known[launch.name]
            columns = {name: record[name] for name in INSTRUCTION if name in record}
            workload = with_measured(launch.workload, columns, record["counters"])
            cold.append(replace(launch, workload=workload, seconds=launch.cold_seconds))
    return cold


def validate_ncu(
    gpu: str = "h200", models: Iterable[str] | None = None, *, every: int = 1, processes: int = 1,
    watch: Watch | None = None,
) -> list[KernelError]:  # fmt: skip
    """Return the errors of our models (or those named) from the emulator's counts, warm, and the profiler's, cold."""
    machine, names = load_machine(gpu), list(models or OURS)
    counted, measured = launches(machine.id)[::every], measured_launches(machine.id, every)
    total = len(counted) + len(measured)
    report = watch or (lambda done, total: None)
    predicted = points(
        counted,
        [Run(f"{n}, emulated, warm", n, machine) for n in names],
        processes=processes,
        watch=lambda done, _: report(done, total),
    )
    predicted += points(
        measured,
        [Run(f"{n}, from ncu, cold", n, machine) for n in names],
        processes=processes,
        watch=lambda done, _: report(len(counted) + done, total),
    )
    return errors(predicted)
