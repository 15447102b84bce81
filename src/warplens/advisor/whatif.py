"""What if: some numbers replaced, and the prediction before beside the one after."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from warplens.advisor.overlay import with_fewer
from warplens.core.errors import WarplensError
from warplens.machine import Machine
from warplens.models import predict
from warplens.models.prediction import Prediction
from warplens.models.residency import residency
from warplens.simulator.overlay import checked, overlay
from warplens.workload.workload import Workload

OCCUPANCY, GPU = "occupancy", "gpu"  # warps per SM; another GPU


class WhatIf(Struct, frozen=True):
    """What was changed, and both predictions."""

    changes: dict[str, float | str]
    before: Prediction
    after: Prediction

    @property
    def speedup(self) -> float:
        """Time before over time after."""
        return float(self.before.seconds or 0.0) / float(self.after.seconds or 1.0)


def what_if(
    workload: Workload,
    machine: Machine,
    changes: Mapping[str, float],
    *,
    model: str,
    other: tuple[Workload, Machine] | None = None,
) -> WhatIf:
    """Predict a workload as it is, and with changes (simulator/overlay.py; also `occupancy`, warps per SM).

    `other` is the workload and the machine that the changes are made to, where that is another GPU.
    """
    left = dict(changes)
    if GPU in left:
        raise WarplensError(f"{GPU}: analyze the kernel for that GPU, and pass both as `other`")
    warps = checked(OCCUPANCY, left.pop(OCCUPANCY)) if OCCUPANCY in left else None
    target, gpu = other or (workload, machine)
    gpu, changed = overlay(gpu, target, left)
    assert changed is not None
    if warps is not None and not 1 <= warps <= gpu.sm.warps_max:
        raise WarplensError(f"{OCCUPANCY}: between 1 and {gpu.sm.warps_max:g} warps per SM, not {warps:g}")
    if OCCUPANCY in changes or "launch.blocks" in changes:
        changed = _with_hits(changed, gpu, warps)
    said: dict[str, float | str] = dict(changes)
    if other is not None:
        said = {GPU: gpu.id, **said}
    after = predict(changed, gpu, model, warps_per_sm=warps)
    if "launch.blocks" in left and float(after.warps_per_sm) > gpu.sm.warps_max:
        raise WarplensError(
            f"launch.blocks: {after.warps_per_sm:g} warps per SM, and {gpu.id} has {gpu.sm.warps_max:g}"
        )
    return WhatIf(said, predict(workload, machine, model), after)


def _with_hits(workload: Workload, machine: Machine, warps_per_sm: float | None) -> Workload:
    """Give a counted workload the hits that fewer blocks on an SM have."""
    if workload.profile is None or workload.launch is None:
        return workload
    return with_fewer(workload, max(1, int(float(residency(workload, machine, warps_per_sm).blocks_per_sm))))
