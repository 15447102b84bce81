"""What if: one number of the machine or of the workload replaced, named as on the command line.

shared.latency=60          latency, rate (per scheduler) or slots (issue) of an instruction class
shared.conflict_degree=4   of every access of that class in the workload
machine.sms=144            a field of the machine; also machine.SECTION.FIELD, as in its file
lemeire.fmadd.issue=2      the paper's latencies: issue or completion
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from warplens.errors import WarplensError, nearest
from warplens.kernel.workload import Access, Workload
from warplens.machine import KINDS, Machine

_TIMING = {"latency": "latency_cycles", "rate": "peak_ops_per_cycle_per_scheduler", "slots": "issue_slots"}
_SHORT = {"sms": "chip__sm_count", "clock": "chip__clock_hz", "schedulers": "sm__schedulers"}
_ALIASES = {"shared_load": "shared", "global_load": "load"}


def parse(text: str) -> tuple[str, float]:
    """Return the key and the number of `KEY=NUMBER`."""
    key, sign, value = text.partition("=")
    try:
        return key.strip(), float(value)
    except ValueError:
        raise WarplensError(f"--set takes KEY=NUMBER, not {text!r}") from None if sign else WarplensError(text)


def overlay(
    machine: Machine, workload: Workload | None, changes: Mapping[str, float]
) -> tuple[Machine, Workload | None]:
    """Return machine and workload with these values replaced."""
    for key, value in changes.items():
        head, *rest = key.split(".")
        head = _ALIASES.get(head, head)
        if head == "machine" and rest:
            path = _SHORT.get(rest[0], rest[0]) if len(rest) == 1 else "__".join(rest)
            machine = machine.with_values(**{path: value})
        elif head == "lemeire" and len(rest) == 2 and rest[1] in ("issue", "completion"):
            machine = machine.with_values(**{f"lemeire__{rest[0]}__{rest[1]}_cycles": value})
        elif head in KINDS and len(rest) == 1 and rest[0] in _TIMING:
            if head not in machine.instructions:
                raise WarplensError(f"{key}: machine {machine.id} has no [instructions.{head}] of its own")
            machine = machine.with_values(**{f"instructions__{head}__{_TIMING[rest[0]]}": value})
        elif head in KINDS and len(rest) == 1 and rest[0] in Access.__struct_fields__:
            workload = _changed(workload, head, rest[0], value)
        else:
            known = ["machine.sms", "machine.clock", *(f"{k}.latency" for k in KINDS), "shared.conflict_degree"]
            raise WarplensError(f"nothing to set under {key!r}{nearest(key, known)}")
    return machine, workload


def _changed(workload: Workload | None, kind: str, field: str, value: float) -> Workload:
    rows = [] if workload is None else workload.accesses
    if workload is None or not any(a.instruction_class == kind for a in rows):
        raise WarplensError(f"{kind}.{field}: the workload has no access of class {kind}")
    new = [msgspec.structs.replace(a, **{field: value}) if a.instruction_class == kind else a for a in rows]
    return workload.with_values(accesses=new)
