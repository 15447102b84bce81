"""Overlays for what-if: one number of the machine or of the workload replaced, named as on the command line.

shared.latency=60          latency, rate (per scheduler) or slots (issue) of an instruction class. In machine code the
                           stall counts follow; load.latency moves the curve of its latency under load
shared.conflict_degree=4   of every access of that class in the workload; likewise the other fields of an access
fp32.count=8               instructions of a class in a body, of a workload that gives counts
machine.sms=144            a field of the machine; also machine.SECTION.FIELD, as in its file
machine.dram=4e12          bytes per second: everything that DRAM is measured by, in proportion; likewise machine.l2
lemeire.fmadd.issue=2      the paper's latencies: issue or completion
launch.registers=64        of the launch: registers, shared (bytes) or blocks (per SM)
line:42.conflict=1         of the accesses of a source line: conflict (passes over the least), sectors (per request),
                           l1_hit or l2_hit (shares)
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
from msgspec.structs import replace

from warplens.core.errors import WarplensError, nearest
from warplens.machine import KINDS, Machine
from warplens.program.instruction import Instruction
from warplens.program.lone_warp import WIDE_LOADS
from warplens.workload.profile import Profile
from warplens.workload.workload import Access, Workload

_TIMING = {"latency": "latency_cycles", "rate": "peak_ops_per_cycle_per_scheduler", "slots": "issue_slots"}
_SHORT = {"sms": "chip__sm_count", "clock": "chip__clock_hz", "schedulers": "sm__schedulers"}
_ELSEWHERE = {"barrier": "sm__barrier_cycles", "branch": "sm__branch_taken_cycles"}
_L1 = "machine.cache.l1_request_interval_cycles is what L1 takes for a request; machine.dram and machine.l2 are rates"
_RATES = {
    **dict.fromkeys(("load", "load_random", "store"), _L1),
    "barrier": "machine.sm.barrier_per_warp_cycles is what the barrier unit takes for a warp",
    "shuffle": "shared memory serves it, shared.rate",
}  # what there is instead of a rate of these
_ALIASES = {"shared_load": "shared", "global_load": "load"}
_LAUNCH = {"registers": "registers_per_thread", "shared": "shared_bytes_per_block", "blocks": "blocks_per_sm"}
_OF_A_LINE = ("conflict", "sectors", "l1_hit", "l2_hit")
_LINE_BYTES, _WARP = 128, 32
SETTABLE = {
    "launch.registers": "registers per thread",
    "launch.shared": "bytes of shared memory per block",
    "launch.blocks": "blocks that an SM holds",
    "line:N.conflict": "passes over the least that the shared-memory accesses of line N take: 1 is none",
    "line:N.sectors": "sectors per request of the accesses of line N",
    "line:N.l1_hit": "share of L1 hits of line N, 0 to 1; likewise line:N.l2_hit",
    "machine.sms": "SMs of the GPU",
    "machine.clock": "its clock in Hz",
    "machine.dram": "bytes per second of DRAM; likewise machine.l2",
    "machine.SECTION.FIELD": "a number of its machine file, by its key: `warplens machine show NAME --all`",
    "CLASS.latency": "cycles of an instruction class; likewise CLASS.rate (per cycle and scheduler), CLASS.slots",
    "CLASS.count": "instructions of a class, of a workload that gives counts",
    "shared.conflict_degree": "of every access to shared memory; likewise the other fields of an access",
}  # what `--set` takes, as it is listed; CLASS: a class of instructions, such as fp32, load or shared
_MOST_PER_REQUEST = 32  # sectors or passes: one for each thread of a warp


def parse(text: str) -> tuple[str, float]:
    """Return the key and the number of `KEY=NUMBER`."""
    key, sign, value = text.partition("=")
    try:
        return key.strip(), float(value)
    except ValueError:
        raise WarplensError(f"--set takes KEY=NUMBER, not {text!r}") from None if sign else WarplensError(text)


def refuse_twice(changes: Sequence[str]) -> None:
    """Refuse a key that several `KEY=VALUE` name: one of them would have no effect."""
    keys = Counter(text.partition("=")[0].strip() for text in changes)
    if twice := [key for key, count in keys.items() if count > 1]:
        raise WarplensError(f"--set {twice[0]} is given twice")


def checked(key: str, value: object) -> float:
    """Return a value that replaces a number; what is none is refused."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise WarplensError(f"{key}: a finite number is wanted, not {value!r}")
    return float(value)


def overlay(
    machine: Machine, workload: Workload | None, changes: Mapping[str, float]
) -> tuple[Machine, Workload | None]:
    """Return machine and workload with these values replaced."""
    for key, value in changes.items():
        if not isinstance(key, str):
            raise WarplensError(f"what to set is named by text, such as 'machine.sms', not by {key!r}")
        checked(key, value)
    fields = {key: key.split(".")[1:] for key in changes if key.count(".") > 1 and key.startswith("machine.")}
    if fields:  # at once: a section that the machine has not got needs several
        machine = machine.with_values(**{"__".join(path): changes[key] for key, path in fields.items()})
    for key, value in changes.items():
        head, *rest = key.split(".")
        head, last = _ALIASES.get(head, head), rest[0] if len(rest) == 1 else ""
        if head == "machine" and last in ("dram", "l2"):
            machine = _faster(machine, last, value)
        elif head == "machine" and last:
            machine = machine.with_values(**{_SHORT.get(last, last): value})
        elif key in fields:
            continue
        elif head == "lemeire" and len(rest) == 2 and rest[1] in ("issue", "completion"):
            machine = machine.with_values(**{f"lemeire__{rest[0]}__{rest[1]}_cycles": value})
        elif head in KINDS and last in _TIMING:
            in_code = workload is not None and bool(workload.code)
            changed = _timed(machine, key, head, last, value, in_code=in_code)
            if workload is not None and in_code:
                workload = workload.with_values(code=restalled(workload.code, machine, changed))
            machine = changed
        elif head in KINDS and last == "count" and KINDS[head] not in ("memory system", "shared memory"):
            workload = _recounted(workload, key, head, value)
        elif head in KINDS and last in Access.__struct_fields__:
            workload = _with_access(workload, head, last, value)
        elif head == "launch" and last in _LAUNCH:
            workload = _launched(workload, key, _LAUNCH[last], value)
        elif head.startswith("line:") and last in _OF_A_LINE:
            workload = _of_line(workload, key, head[5:], last, value)
        else:
            raise WarplensError(f"nothing to set under {key!r}{_meant(key)}")
    return machine, workload


def _meant(key: str) -> str:
    """Return the key that may be meant, by its whole or by its last part, or where all are listed."""
    known = [*(k for k in SETTABLE if "CLASS" not in k and "SECTION" not in k), *(f"{k}.latency" for k in KINDS)]
    by_end = {name.rpartition(".")[2]: name for name in reversed(known)} | {"regs": "launch.registers"}
    by_end |= {"occupancy": "occupancy", "gpu": "gpu", "sm": "machine.sms"}
    if (close := nearest(key, known)) or "." in key:
        return close or "; `warplens whatif --list` has all"
    found = re.search("'(.+)'", nearest(f"{key} ", by_end))  # not itself: the end alone is no key
    return f"; did you mean {by_end[found[1]]!r}?" if found else "; `warplens whatif --list` has all"


def _timed(machine: Machine, key: str, kind: str, what: str, value: float, *, in_code: bool) -> Machine:
    """Set a latency, rate or issue slots of a class; numbers that are measured from the latency on move along."""
    if what == "latency" and kind in ("store", "exit"):
        raise WarplensError(
            f"{key}: nobody waits for it; machine.cache.l1_latency_cycles is how long a warp that ends waits for stores"
        )
    if what == "latency" and kind in _ELSEWHERE:
        return machine.with_values(**{_ELSEWHERE[kind]: value})
    if what == "rate" and kind in _RATES:
        raise WarplensError(f"{key}: it has no unit of its own; {_RATES[kind]}")
    before = machine.timing(kind)
    if kind not in machine.instructions:
        machine = replace(machine, instructions={**machine.instructions, kind: before})
    values: dict[str, Any] = {f"instructions__{kind}__{_TIMING[what]}": value}
    longer = value - (before.latency_cycles or 0.0) if what == "latency" else 0.0
    if what == "rate" and kind == "fp32" and machine.sm.cuda_cores is not None:  # their number is the rate
        values["sm__cuda_cores"] = value * machine.sm.schedulers
    if what == "rate" and KINDS[kind] == "issue" and not (kind == "uniform" and in_code):
        values[f"instructions__{kind}__issue_slots"] = _WARP / value  # no unit of its own: slots are its rate
    if what == "latency" and kind == "load" and machine.contention is not None:
        values["contention__a_cycles"] = max(1.0, machine.contention.a_cycles + longer)
    machine, operations = machine.with_values(**values), machine.operations
    if what == "latency" and before.latency_to:
        pairs = {consumer: max(1.0, cycles + longer) for consumer, cycles in before.latency_to.items()}
        timing = replace(machine.instructions[kind], latency_to=pairs)
        machine = replace(machine, instructions={**machine.instructions, kind: timing})
    if what == "latency" and kind == "shared":  # wider loads take so much longer (`program/lone_warp.py`)
        wide = {name: x for name in WIDE_LOADS if (x := operations.get(name)) and x.latency_cycles}
        moved = {name: replace(x, latency_cycles=(x.latency_cycles or 0.0) + longer) for name, x in wide.items()}
        machine = replace(machine, operations={**operations, **moved})
    return machine


def _faster(machine: Machine, level: str, value: float) -> Machine:
    """Set the rate of DRAM or L2: all rates and times that were measured of it change in proportion."""
    dram = level == "dram"
    now = machine.dram_bytes_per_second(model="--set") if dram else machine.cache.l2_bytes_per_second
    if not now:
        raise WarplensError(f"machine.{level}: machine {machine.id} does not say how fast its L2 is")
    if value <= 0:
        raise WarplensError(f"machine.{level}: a rate must be above zero, not {value:g}")
    share = value / now
    rates = {name: b for name, b in machine.bandwidth.items() if name.startswith(f"{level}_")}
    sections = ("contention", "memory", "scattered") if dram else ("contention_l2",)
    scaled: dict[str, Any] = {name: _scaled(getattr(machine, name), "_bytes_per_second", share) for name in sections}
    if not dram:
        cache = replace(machine.cache, l2_bytes_per_second=value)
        scaled |= {"cache": cache, "packets": _scaled(machine.packets, "_seconds", 1 / share)}
    faster = {name: _scaled(b, "bytes_per_second", share) for name, b in rates.items()}
    changed = replace(machine, bandwidth={**machine.bandwidth, **faster}, **scaled)
    return changed.with_values()  # refuses what is out of the ranges of a machine file


def _scaled(section: Any, ending: str, share: float) -> Any:
    """Multiply the numbers of a section whose names end so."""
    if section is None:
        return None
    numbers = {name: getattr(section, name) for name in section.__struct_fields__ if name.endswith(ending)}
    return replace(section, **{name: share * x for name, x in numbers.items() if isinstance(x, (int, float))})


def _with_access(workload: Workload | None, kind: str, field: str, value: float) -> Workload:
    """Set a field of all accesses of a class; what a workload file may not say is refused."""
    key, rows = f"{kind}.{field}", [] if workload is None else workload.accesses
    if workload is None or not any(a.instruction_class == kind for a in rows):
        raise WarplensError(f"{key}: the workload has no access of class {kind}")
    if field == "conflict_degree" and not 1 <= value <= _MOST_PER_REQUEST:
        raise WarplensError(f"{key}: from 1 to {_MOST_PER_REQUEST}, not {value:g}")
    if field in ("space", "kind"):
        raise WarplensError(f"{key}: it is no number")
    new = {field: bool(value) if field == "coalesced" and value in (0, 1) else value}
    try:
        changed = [
            msgspec.convert(msgspec.to_builtins(replace(a, **new)), Access) if a.instruction_class == kind else a
            for a in rows
        ]
    except msgspec.ValidationError as error:
        limit = re.search(r"[<>]=? [0-9.e+]+", str(error))
        what = f"a number {limit[0].removesuffix('.0')}" if limit else "0 or 1"
        raise WarplensError(f"{key}: {what} is wanted, not {value:g}") from None
    workload = workload.with_values(accesses=changed)
    if field != "conflict_degree" or workload.profile is None:
        return workload
    chosen = [i for i, x in enumerate(workload.code) if x.kind == kind and workload.profile.counts["requests"][i]]
    return workload.with_values(profile=_counted(workload.profile, chosen, "conflict", value))


def _recounted(workload: Workload | None, key: str, kind: str, value: float) -> Workload:
    """Set how many instructions of a class a warp executes in a body, of a workload that gives counts."""
    if workload is None or workload.code or workload.warps:
        raise WarplensError(f"{key}: its instructions are those of its code; this is for workloads that give counts")
    if value < 0:
        raise WarplensError(f"{key}: zero or more is wanted, not {value:g}")
    return workload.with_values(instructions={**workload.instructions, kind: value})


def _launched(workload: Workload | None, key: str, field: str, value: float) -> Workload:
    if workload is None or workload.launch is None:
        raise WarplensError(f"{key}: the workload has no launch")
    least = 1 if field == "registers_per_thread" else 0
    if value != int(value) or value < least:
        raise WarplensError(f"{key}: a whole number from {least} on is wanted, not {value:g}")
    return workload.with_values(launch=replace(workload.launch, **{field: int(value)}))


def _of_line(workload: Workload | None, key: str, line: str, what: str, value: float) -> Workload:
    """Change the accesses of a source line of a counted kernel."""
    profile = None if workload is None else workload.profile
    if workload is None or profile is None:
        raise WarplensError(f"{key}: only a kernel that was counted from machine code has lines")
    most = 1 if what.endswith("_hit") else _MOST_PER_REQUEST
    if not 0 <= value <= most:
        raise WarplensError(f"{key}: from 0 to {most}, not {value:g}")
    requests, sectors = profile.counts["requests"], profile.counts["sectors"]
    if not line.isdecimal():
        raise WarplensError(f"{key}: the number of a line is wanted, such as line:42.{what}")
    on_line = [i for i, x in enumerate(workload.code) if str(x.line) == line and requests[i]]
    chosen = [i for i in on_line if bool(sectors[i]) == (what != "conflict")]
    if not chosen:
        where = "shared" if what == "conflict" else "global"
        raise WarplensError(f"{key}: line {line} accesses no {where} memory")
    return workload.with_values(profile=_counted(profile, chosen, what, value))


def _counted(profile: Profile, chosen: list[int], what: str, value: float) -> Profile:
    """Return the profile with another number of passes, sectors or hits for some instructions."""
    new = {name: list(column) for name, column in profile.counts.items()}
    for i in chosen:
        requests, sectors = new["requests"][i], new["sectors"][i]
        if what == "conflict":
            new["wavefronts"][i] = max(1.0, value) * max(requests, new["useful_bytes"][i] / _LINE_BYTES)
        elif what == "sectors":
            share = value * requests / max(1.0, sectors)
            for name in ("sectors", "lines", "l1_hit_sectors", "l2_sectors", "l2_hit_sectors"):
                new[name][i] *= share
            new["lines"][i] = max(requests, new["lines"][i])
            new["wavefronts"][i] = max(requests, share * new["wavefronts"][i])
        elif what == "l1_hit":
            hits = new["l2_hit_sectors"][i] / max(1e-9, new["l2_sectors"][i])
            new["l1_hit_sectors"][i], new["l2_sectors"][i] = value * sectors, (1 - value) * sectors
            new["l2_hit_sectors"][i] = hits * new["l2_sectors"][i]
        else:
            new["l2_hit_sectors"][i] = value * new["l2_sectors"][i]
    return replace(profile, counts=new)


_NEAR = 2  # cycles: a compiler's own latency of a pair may be so much longer than the machine file's of the class


def restalled(code: Sequence[Instruction], before: Machine, after: Machine) -> list[Instruction]:
    """Return the code with the stall counts that follow from the latencies of another machine."""
    changed = list(code)
    opening = (after.sm.barrier_cycles or 0.0) - (before.sm.barrier_cycles or 0.0)
    if not opening and all(_latency(x, before) == _latency(x, after) for x in code):
        return changed
    for first, stop in _straight(code):
        old, new = dict[str, float](), dict[str, float]()  # when a register is there, from the issue of the first
        then = now = 0.0
        for i in range(first, stop - 1):
            x, following = code[i], code[i + 1]
            control = x.control
            if control is None:
                continue
            fixed = control.write_scoreboard is None and x.kind not in ("branch", "barrier", "exit")
            old.update((r, then + _latency(x, before) if fixed else 0.0) for r in x.writes)
            new.update((r, now + _latency(x, after) if fixed else 0.0) for r in x.writes)
            needed = max((old.get(r, 0.0) - then for r in following.reads), default=0.0)
            wanted = max((new.get(r, 0.0) - now for r in following.reads), default=0.0)
            stall = control.stall
            if needed > 1 and 0 <= stall - needed <= _NEAR:
                stall = max(1, round(stall + wanted - needed))
            stall = max(stall, round(wanted), round(stall + opening) if x.opcode == "BAR" else 1)
            changed[i] = replace(x, control=replace(control, stall=stall))
            then, now = then + max(1, control.stall), now + max(1, stall)
    return changed


def _latency(x: Instruction, machine: Machine) -> float:
    fixed = KINDS[x.kind] in ("cuda cores", "fp64 units", "issue")
    return (machine.timing(x.kind).latency_cycles or 0.0) if fixed else 0.0


def _straight(code: Sequence[Instruction]) -> Iterator[tuple[int, int]]:
    """Yield runs of instructions that no branch leaves or enters."""
    at_offset, starts = {x.offset: i for i, x in enumerate(code)}, {0, len(code)}
    for i, x in enumerate(code):
        if x.target is not None:
            starts |= {i + 1, at_offset.get(x.target, i + 1)}
    yield from pairwise(sorted(starts))
