"""A program with control codes as code: stall counts, scoreboards and wait masks as the compiler wrote them.

The profile says what each access touches and which way each warp goes. Without one the ways are given by hand, and an
access is taken as coalesced and missing in the caches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from warplens.core.errors import WarplensError
from warplens.machine import KINDS, Machine
from warplens.program.instruction import Instruction, access_bytes
from warplens.program.lone_warp import wide_cycles
from warplens.program.program import Program
from warplens.simulator import layout as at
from warplens.simulator.code import Code, Step, Way
from warplens.simulator.matrix import (
    NONE,
    Asynchronous,
    asynchronous,
    behind_passes,
    matrix_flops,
    moved_registers,
    operand_wavefronts,
    tensor_flops_per_cycle,
)
from warplens.simulator.operands import Operands, Reader, number_of, written
from warplens.simulator.traffic import Traffic, access, sent, traffic_of
from warplens.simulator.units import PIPES, Unit, Units
from warplens.workload.profile import Profile
from warplens.workload.unmodelled import sleep_seconds

_Banks = tuple[tuple[int, int], Operands]  # how many registers of each bank are read, and which ones
_MET_SLOT, _BARRIER_SLOT = 7, 8  # behind the scoreboards
# Another class whose units serve an instruction, by what it takes alone and beside others (units.json.gz, of
# BREV `operations.brev`), or none (NOP).
_SERVED_AS = {
    **dict.fromkeys(("FMNMX", "FSEL", "FSETP", "VOTE"), "int"), "VIADD": "imul", "BREV": "convert", "NOP": "branch"
}  # fmt: skip


def from_program(
    program: Program | Sequence[Instruction],
    units: Units,
    profile: Profile | None = None,
    *,
    ways: Sequence[Way] = (),
    blocks: Sequence[Sequence[int]] = (),
    name: str = "program",
) -> Code:
    """Return the code of a program, with the ways of a profile or those given (`blocks`: which way each warp takes)."""
    if isinstance(program, Program):
        instructions: Sequence[Instruction] = program.instructions
        name = program.demangled
    else:
        instructions = program
    if any(x.control is None for x in instructions):
        raise WarplensError(f"{name}: no control codes; simulate a listing instead")
    instructions = [
        msgspec.structs.replace(x, kind=_SERVED_AS[x.opcode]) if x.opcode in _SERVED_AS else x for x in instructions
    ]
    if profile is not None:
        instructions = [
            msgspec.structs.replace(x, writes=())
            if x.guard and executed and not threads and x.control and x.control.write_scoreboard is None
            else x
            for x, executed, threads in zip(
                instructions, profile.counts["executed"], profile.counts["threads"], strict=True
            )
        ]  # what no thread takes part in makes nothing
    served = {kind: units.unit(kind, program=True) for kind in {"int", *(x.kind for x in instructions)}}
    traffic = traffic_of(instructions, served, units, profile)
    steps = _steps(instructions, units, served, profile, traffic)
    steps = _met(_fed(steps, instructions, units.machine), instructions, units)
    steps = _asleep(steps, instructions, units.machine)
    copies = any(x.opcode == "LDGDEPBAR" for x in instructions)
    steps = [_beside(step, asynchronous(x, copies)) for step, x in zip(steps, instructions, strict=True)]
    notes, mean = [], None
    if profile is not None:
        if not profile.paths or not profile.blocks:
            raise WarplensError(f"{name}: the profile has no ways of warps to simulate: they were too long to keep")
        ways = [Way([(list(s.runs), s.times) for s in path.segments]) for path in profile.paths]
        blocks = profile.blocks
        notes = [*profile.notes, *_unknown(instructions, units.machine)]
        mean = None if profile.heaviest else profile.total("executed") / profile.grid_blocks or None
    elif not ways:
        raise WarplensError(f"{name}: give a profile, or the ways of its warps")
    rows = [list(block) for block in blocks] or [[0]]
    return Code(name=name, steps=steps, ways=list(ways), blocks=rows, controlled=True, grid_mean=mean, notes=notes)


def _unknown(code: Sequence[Instruction], machine: Machine) -> list[str]:
    """Return notes on what this code has and the machine file does not know."""
    constant = machine.instructions.get("constant")
    if constant is not None and constant.peak_ops_per_cycle_per_scheduler is not None:
        return []
    if not any(x.kind == "constant" for x in code):
        return []
    return ["instructions.constant is not known: loads from constant memory (LDC) take as long as arithmetic, no rate"]


def _fed(steps: list[Step], code: Sequence[Instruction], machine: Machine) -> list[Step]:
    """Return the steps with what wide products wait for besides their stall counts.

    They read a result later than the compiler thinks: `extra_stall_cycles` has what a pair of a wide product and a
    logic operation takes beyond their stall counts, that of its further issue slots and this. The fluid form takes it
    from here, the engine from its register ports.
    """
    wide, slots = machine.timing("imul_wide"), _slots_behind("imul_wide", machine)
    later = (wide.extra_stall_cycles or 0.0) - slots
    cycles = later + machine.timing("int").latency_to.get("imul", 0.0)
    for i, x in enumerate(code if later > 0 else ()):
        away, j, factors = 0.0, i - 1, _factors(x) if x.kind == "imul_wide" else set[str]()
        while factors and j >= 0 and code[j].target is None and (away := away + steps[j].stall) < cycles + slots:
            needed = cycles + _slots_behind(code[j].kind, machine)
            if steps[j].kind == at.FIXED and not factors.isdisjoint(code[j].writes):
                if away < needed:
                    steps[i] = msgspec.structs.replace(steps[i], late=needed - away)
                break
            j -= 1
    return steps


def _met(steps: list[Step], code: Sequence[Instruction], units: Units) -> list[Step]:
    """Return the steps with what brings a warp's threads together: one in some cycles of an SM, in turn.

    The instruction behind BSYNC comes as much later as that waits for others'.
    """
    pipe = PIPES.index("convergence unit")
    if not units.pipes.interval[pipe]:
        return steps
    for i, x in enumerate(code[:-1]):
        if x.opcode == "BSYNC":
            step, behind = steps[i], steps[i + 1]
            taken = max(step.stall, step.branch)
            steps[i] = msgspec.structs.replace(
                step, pipe=pipe, kind=at.QUEUED, passes=1.0, takes=0.0, latency=taken, reason=at.RESOLVING,
                values=(*step.values, _MET_SLOT),
            )  # fmt: skip
            steps[i + 1] = msgspec.structs.replace(behind, waits=(*behind.waits, (_MET_SLOT, 0.0)))
    return steps


def _asleep(steps: list[Step], code: Sequence[Instruction], machine: Machine) -> list[Step]:
    """Return the steps with the time for which a warp sleeps, where the instruction says it (`__nanosleep`)."""
    for i, x in enumerate(code):
        if asleep := sleep_seconds(x):
            steps[i] = msgspec.structs.replace(steps[i], branch=asleep * machine.chip.clock_hz)
    return steps


def _factors(x: Instruction) -> set[str]:
    """Return the registers that a product multiplies: what it adds to them, the last operand, it reads later."""
    return {r for operand in x.operands[1:-1] for r in operand.registers} if x.operands else set(x.reads)


def _slots_behind(kind: str, machine: Machine) -> float:
    """Return the issue slots of an instruction behind its first: its stall count begins with the last one."""
    timing = machine.timing(kind)
    return (timing.issue_slots or 1.0) - 1.0 if timing.extra_stall_cycles else 0.0


def _held(x: Instruction, machine: Machine) -> float:
    """Return the cycles for which a warp stays at an instruction that waits for its threads, or for its stores."""
    if x.opcode == "BSYNC":
        return machine.sm.reconverge_cycles or 0.0
    fence = x.opcode == "MEMBAR" and not {"GPU", "SYS"}.isdisjoint(x.modifiers)
    return (machine.sm.fence_cycles or 0.0) if fence else 0.0


def _steps(instructions: Sequence[Instruction], units: Units, served: Mapping[str, Unit], profile: Profile | None,
           traffic: Traffic) -> list[Step]:  # fmt: skip
    """Return what each instruction does to the units; but accesses and products, those of one form do the same.

    Of a form are those of one opcode and one control code; of a fixed latency, whatever registers they read: these
    decide only how long reading them takes, which is said by how many are in one bank, and what the engine knows.
    Accesses to shared memory do the same if they also have operands of one shape, and were counted alike.
    """
    made, known, kept, reader = list[Step](), dict[tuple[object, ...], tuple[Step, bool]](), set[str](), Reader()
    single = {kind for kind, unit in served.items() if _is_access(unit.kind, kind) or kind == "tensor"}
    inside = {kind for kind in single - {"tensor"} if served[kind].kind not in (at.LOAD, at.STORE)}
    counts = [profile.counts[name] for name in _COUNTED_INSIDE] if profile else []
    slots = {kind: _slots_behind(kind, units.machine) for kind in served}
    extras = {kind: extra if extra in range(at.MOST_EXTRA + 1) else 0.0 for kind, extra in slots.items()}
    for i, x in enumerate(instructions):
        control, kind = x.control, x.kind
        assert control is not None
        in_banks, fixed = _banks(_unkept(x, kept)), control.write_scoreboard is None
        how = control.stall, control.yields, control.write_scoreboard, control.read_scoreboard, control.wait_mask
        if kind in single:  # they do not read as arithmetic does
            reader.passes(x, fixed=fixed)
            banks = in_banks, Operands(writes=written(x.writes))
            if kind not in inside:
                made.append(_step(x, banks, units, served, profile, i, traffic))
                continue
            alike = x.opcode, kind, x.modifiers, how, banks, _shape(x), tuple([each[i] for each in counts])
            if alike not in known:
                known[alike] = _step(x, banks, units, served, profile, i, traffic), False
            made.append(msgspec.structs.replace(known[alike][0], label=x.text, line=x.line))
            continue
        operands = reader.reads(x, fixed=fixed, extra=extras[kind])
        form = x.opcode, kind, x.modifiers, how, max(in_banks)
        other = *form, in_banks, operands
        step, reads = known.get(form) or known.get(other) or (None, False)
        if step is None:
            step = _step(x, (in_banks, operands), units, served, profile, i, traffic)
            reads = step.operands is operands
            known[form if step.kind == at.FIXED else other] = step, reads
        read = operands if reads else step.operands
        made.append(msgspec.structs.replace(step, label=x.text, line=x.line, operands=read))
    return made


_COUNTED_INSIDE = ("executed", "requests", "wavefronts", "queue")  # what says how an access to shared memory goes


def _shape(x: Instruction) -> tuple[object, ...]:
    """Return the kinds of an instruction's operands, which of them name general registers, and how many it writes."""
    operands = [(o.kind, any(r[0] == "R" for r in o.registers)) for o in x.operands]
    return *operands, sum([r[0] == "R" for r in x.writes])


def _is_access(unit: int, kind: str) -> bool:
    return unit in (at.LOAD, at.STORE) or KINDS[kind] == "shared memory"


def _how_many(banks: _Banks, kind: int) -> Operands:
    """Return what the engine knows of the registers of memory and SFUs: how many they read, and where they write."""
    return Operands() if kind == at.FIXED else Operands(*banks[0], writes=banks[1].writes)


def _step(x: Instruction, banks: _Banks, units: Units, served: Mapping[str, Unit],
          profile: Profile | None, i: int, traffic: Traffic) -> Step:  # fmt: skip
    machine, unit, control = units.machine, served[x.kind], x.control
    assert control is not None
    kind = unit.kind
    if kind == at.BARRIER and x.opcode not in ("BAR", "BARRIER"):
        kind = at.FIXED  # fences and the like: they wait by scoreboard
    pipe, passes, waits, values = unit.pipe, unit.passes, list(control.waits), [control.write_scoreboard]
    if x.kind == "convert" and control.write_scoreboard is None:  # a fixed latency: not one of the SFUs'
        kind, pipe, passes = at.FIXED, served["int"].pipe, served["int"].passes
    halves = x.kind == "half" and bool(units.pipes.half[PIPES.index("product")])
    both = halves and x.modifiers[:1] not in (("MMA",), ("F32",))
    if halves:  # both halves of the cores, that of products, or double precision's units (units.json.gz)
        pipe, passes = PIPES.index("fp64 units" if "MMA" in x.modifiers else "product"), 2.0
    if x.opcode == "UMOV":
        passes = 1.0
    if x.kind == "tensor" and (flops := matrix_flops(x)) is not None:
        rate = tensor_flops_per_cycle(x, machine)
        pipe, passes = (PIPES.index("tensor cores"), flops * machine.sm.schedulers / rate) if rate else (-1, 1.0)
    if kind in (at.LOAD, at.STORE) or KINDS[x.kind] in ("shared memory", "shuffle"):
        passes = 1.0
    latency, holds, reason = unit.latency, unit.holds, unit.reason
    held = _slots_behind(x.kind, machine)
    if x.opcode.endswith("GMMA"):
        # they queue for the tensor cores; whoever waits for them shows as at a barrier, as in ncu's samples
        latency, reason = passes + behind_passes(x, machine), at.AT_BARRIER
        pipe = PIPES.index("warp-group products") if pipe >= 0 else pipe
    if x.opcode in ("S2R", "S2UR") and (special := _special(x, machine)) is not None:
        kind, pipe, reason = at.QUEUED, PIPES.index("special registers"), at.SHORT
        holds, (passes, latency) = machine.sm.issue_interval_cycles, special
    if kind == at.BARRIER:  # the next one of the warp comes no sooner than this
        waits, values, latency = [*waits, _BARRIER_SLOT], [_BARRIER_SLOT], machine.sm.barrier_cycles or 0.0
    takes, reading = passes, kind == at.FIXED and pipe >= 0 and x.kind != "tensor"
    if kind == at.FIXED and pipe >= 0 and machine.sm.register_banks:  # one of each bank a cycle (issue.banks.*)
        passes = max(passes, float(max(banks[0])))
    made = Step(
        label=x.text,
        line=x.line,
        pipe=pipe,
        kind=kind,
        reason=reason,
        holds=holds,
        stall=float(max(2 if control.yields else 1, control.stall)) + held,
        yields=2 if control.yields and control.stall == 1 else int(control.yields),
        latency=latency,
        read=unit.read,
        passes=passes,
        takes=max(1.0, takes - held) if kind == at.FIXED else 0.0,
        branch=_held(x, machine),
        waits=tuple((slot, 0.0) for slot in waits),
        values=tuple(slot for slot in values if slot is not None),
        reads=() if control.read_scoreboard is None else (control.read_scoreboard,),
        operands=banks[1] if reading else _how_many(banks, kind),
        both=both,
        beside=operand_wavefronts(x) * float(units.pipes[PIPES.index("shared memory")].interval),
        moves=moved_registers(x) / passes,
    )
    if _is_access(kind, x.kind):
        made = msgspec.structs.replace(made, **access(made, x, units, profile, i, traffic))
    return sent(_single(made, x, units), x, units)


# Instructions that take longer than others of their class, by opcode or with a modifier: their entry of `operations`,
# and the cycles that the chain they were measured in spends on moving the result to where the next one reads it.
_SINGLE = {
    "MATCH": ("match", 0.0), "REDUX": ("redux", 6.0), "ATOMS": ("atoms_add", 0.0), "ATOMS.CAS": ("atoms_cas", 5.0),
    "SHFL.IDX": ("shfl_idx", 0.0),
}  # fmt: skip


def _single(made: Step, x: Instruction, units: Units) -> Step:
    """Return an instruction at its own rate and latency, where they were measured and are not those of its class.

    Those of shared memory take so many passes for each wavefront. REDUX and MATCH have a unit of the SM apart from the
    others, here that of special registers, whose reads go on beside them.
    """
    if x.opcode == "LDS" and (wide := wide_cycles(access_bytes(x), units.machine)):
        by_passes = (access_bytes(x) / 4 - 1) * float(units.pipes[made.pipe].interval)
        return msgspec.structs.replace(made, latency=made.latency + max(0.0, wide - by_passes))
    if x.kind == "convert" and made.kind == at.QUEUED and sum("P" not in r for r in x.reads) > 1:
        return _from_double(made, units.machine)
    name, besides = _SINGLE.get(".".join((x.opcode, *x.modifiers[:1])), _SINGLE.get(x.opcode, ("", 0.0)))
    known = units.machine.operations.get(name)
    if known is None or known.latency_cycles is None or not known.peak_ops_per_cycle_per_scheduler:
        return made
    cycles, latency = round(32 / known.peak_ops_per_cycle_per_scheduler), known.latency_cycles - besides
    if x.opcode in ("REDUX", "MATCH"):
        pipe = PIPES.index("special registers")
        made = msgspec.structs.replace(made, kind=at.QUEUED, pipe=pipe, reason=at.SHORT, passes=1.0)
    interval = float(units.pipes[made.pipe].interval)
    passes = cycles / (units.machine.sm.schedulers * interval) if interval else 1.0
    return msgspec.structs.replace(made, passes=made.passes * passes, latency=latency - interval * (passes - 1.0))


def _from_double(made: Step, machine: Machine) -> Step:
    """Return a conversion whose source has two registers: it takes longer than others (`operations.f2f_double`).

    That is a pair of one to 64 bits, which is as others, and one back.
    """
    pair = machine.operations.get("f2f_double")
    if pair is None or pair.latency_cycles is None or not pair.peak_ops_per_cycle_per_scheduler:
        return made
    both, latency = round(32 / pair.peak_ops_per_cycle_per_scheduler), round(pair.latency_cycles)
    return msgspec.structs.replace(
        made, passes=max(made.passes, both - made.passes), latency=max(made.latency, latency - made.latency)
    )


def _beside(step: Step, x: Asynchronous) -> Step:
    """Add the slots of what runs beside its warp."""
    if x is NONE:
        return step
    waits = (*step.waits, *((slot, 0.0) for slot in x.waits))
    return msgspec.structs.replace(step, waits=waits, values=(*step.values, *x.values), moved=x.moved)


# Cycles of a link of `operations.s2r` besides: the stall counts of a shift, a cut to seven bits and half an addition.
_BEHIND_SPECIAL = 6.0


def _special(x: Instruction, machine: Machine) -> tuple[float, float] | None:
    """Return the passes and the latency of a read of a special register; None where it is not known.

    It is measured with what makes a sum of it; to a uniform register it takes longer (`operations.s2ur`). It has a
    unit of its own: an SFU's instruction right behind one waits for nothing (lone_warp.json, mufu_ilp1).
    """
    known = machine.operations.get(x.opcode.lower()) or machine.operations.get("s2r")
    if known is None or known.latency_cycles is None or not known.peak_ops_per_cycle_per_scheduler:
        return None
    cycles = 32 / known.peak_ops_per_cycle_per_scheduler / machine.sm.schedulers
    return cycles, known.latency_cycles - _BEHIND_SPECIAL - (cycles - 1.0)


_KEPT = re.compile(r"\b(R\d+)\.reuse")


def _unkept(x: Instruction, kept: set[str]) -> tuple[str, ...]:
    """Return the registers that an instruction reads from the file: without those kept beside the units.

    An operand marked for reuse stays until it is used without the mark; the set `kept` is brought up to date.
    """
    read = x.reads
    if kept:
        read = tuple([r for r in x.reads if r not in kept])
        kept.difference_update(x.reads, x.writes)
    if ".reuse" in x.text:
        marked = _KEPT.findall(x.text)
        kept.update(marked)
        if x.kind == "fp64":
            kept |= {f"R{int(r[1:]) + 1}" for r in marked}
    if x.target is not None:
        kept.clear()
    return read


@lru_cache(4096)
def _banks(registers: tuple[str, ...]) -> tuple[int, int]:
    """Return how many registers lie in each of the two banks: even numbers in one, odd in the other."""
    numbers = [n for r in registers if (n := number_of(r)) is not None]
    odd = sum([n % 2 for n in numbers])
    return len(numbers) - odd, odd
