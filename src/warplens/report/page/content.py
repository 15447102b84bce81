"""What the page shows, gathered once: for the page and for `--json` alike.

Nothing here is predicted anew but the throughput at a few other occupancies; the simulation is the one that the
prediction was made by, and the timeline runs some thousand cycles.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from warplens.advisor import Advised
from warplens.core.errors import WarplensError
from warplens.machine import Machine, Occupancy
from warplens.models import Prediction
from warplens.models.bounds import Use, worksheet
from warplens.models.comparison import Comparison
from warplens.models.residency import occupancy_of
from warplens.report.page.curve import OccupancyCurve, occupancy_curve
from warplens.report.page.instructions import Row, rows
from warplens.report.page.roofline import Roofline, roofline
from warplens.simulator.views import Timeline, timeline
from warplens.workload import Workload


class Content(Struct, frozen=True, kw_only=True):
    """All that is known of one kernel on one machine. What could not be made is None or empty, `missing` says why."""

    prediction: Prediction
    comparison: Comparison
    workload: Workload
    machine: Machine
    advised: Advised | None
    occupancy: Occupancy | None
    curve: OccupancyCurve | None
    worksheet: list[Use]
    roofline: Roofline | None
    instructions: list[Row]
    timeline: Timeline | None
    missing: dict[str, str]


def gather(p: Prediction, c: Comparison, workload: Workload, machine: Machine, advised: Advised | None) -> Content:
    """Gather what the page shows of a prediction, all models' answers, and the advice."""
    missing: dict[str, str] = {}

    def tried(name: str, make: Any, *given: Any) -> Any:
        try:
            return make(*given)
        except WarplensError as error:
            missing[name] = str(error)
            return None

    own = c.predictions.get("warplens")
    simulation = None if own is None else own.simulation
    if simulation is None:
        missing["simulation"] = c.silent.get("warplens", "our model did not simulate this kernel")
    return Content(
        prediction=p,
        comparison=c,
        workload=workload,
        machine=machine,
        advised=advised,
        occupancy=tried("occupancy", occupancy_of, workload, machine),
        curve=tried("curve", occupancy_curve, p, c, workload, machine),
        worksheet=tried("worksheet", worksheet, workload, machine, "volkov") or [],
        roofline=tried("roofline", roofline, p, workload, machine),
        instructions=rows(workload, simulation),
        timeline=None if own is None else tried("timeline", timeline, workload, machine, float(own.warps_per_sm)),
        missing=missing,
    )


def data(content: Content) -> dict[str, Any]:
    """Return what the page shows beyond the answer, for JSON."""
    advised = content.advised
    return {
        "benefits": None if advised is None else advised.benefits,
        "curve": content.curve,
        "worksheet": [{**{n: getattr(u, n) for n in u.__struct_fields__}, "cycles": u.cycles}
                      for u in content.worksheet],
        "roofline": content.roofline,
        "instructions": content.instructions,
        "timeline": None if content.timeline is None else msgspec.to_builtins(content.timeline, str_keys=True),
        "terms": {name: q.terms for name, q in content.comparison.predictions.items()},
        "missing": content.missing,
    }  # fmt: skip
