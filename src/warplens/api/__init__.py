"""The public verbs and classes of warplens, all of them in one flat list; `import warplens as wl` has them too.

    file + launch ──analyze──►  Analysis    time, interval, limit, remedies; the first screen and the page
    file + launch ──count────►  Workload    what every model consumes, counted from machine code
    Workload      ──predict──►  Prediction  by one model; `compare` has all of them
    Workload      ──advise───►  Advised     the remedies, each with what it would buy; `what_if` takes any change

`machine` is a name, a path or a Machine, and `workload` a name, a path or a Workload, in every verb. What a user can
mend is a WarplensError of one line. Names that are not in `__all__` are not public.

The modules:

    request    which kernel and call are asked for: a file, a launch file, values of a call
    counting   from a kernel and its call, or a profiler's report, to a workload
    analysis   the Analysis, and the verbs that make one
    verbs      all other verbs

The command line calls the same functions, and some of these modules' own where a screen needs more, such as a
callback for progress.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from warplens.api.analysis import Analysis, analyze, count
from warplens.api.counting import load_report
from warplens.api.request import Call, NoCall
from warplens.api.verbs import (
    advise,
    compare,
    diff,
    list_models,
    occupancy,
    occupancy_curve,
    occupancy_table,
    predict,
    predict_all,
    simulate,
    what_if,
)
from warplens.core.errors import WarplensError
from warplens.machine import Machine, Occupancy, OccupancyTable, list_machines, load_machine
from warplens.models import Curve, Prediction
from warplens.models.registry import Comparison
from warplens.program import Instruction, Options, list_kernels, load_program
from warplens.program.program import Program
from warplens.simulator import Simulation, SimulationOptions
from warplens.workload import Access, Launch, Link, Number, Workload, list_workloads, load_workload, mix
from warplens.workload.launch import KernelCall, load_launch
from warplens.workload.profile import Profile

if TYPE_CHECKING:
    from warplens.advisor import Advice, Advised
    from warplens.advisor.differences import Difference, WhatIf

__all__ = [
    "Access", "Advice", "Advised", "Analysis", "Call", "Comparison", "Curve", "Difference", "Instruction",
    "KernelCall", "Launch", "Link", "Machine", "NoCall", "Number", "Occupancy", "OccupancyTable", "Options",
    "Prediction", "Profile", "Program", "Simulation", "SimulationOptions", "WarplensError", "WhatIf", "Workload",
    "advise", "analyze", "compare", "count", "diff", "list_kernels", "list_machines", "list_models", "list_workloads",
    "load_launch", "load_machine", "load_program", "load_report", "load_workload", "mix", "occupancy",
    "occupancy_curve", "occupancy_table", "predict", "predict_all", "simulate", "what_if",
]  # fmt: skip

_ADVISOR = {"Advice": "advice", "Advised": "advice", "Difference": "differences", "WhatIf": "differences"}


def __getattr__(name: str) -> Any:
    if name in _ADVISOR:  # no prediction needs it
        return getattr(importlib.import_module(f"warplens.advisor.{_ADVISOR[name]}"), name)
    raise AttributeError(f"module 'warplens.api' has no attribute {name!r}")
