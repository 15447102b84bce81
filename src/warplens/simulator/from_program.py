"""Lowering of machine code: stall counts, scoreboards and wait masks as the compiler wrote them.

The profile has the sectors of each access and the path of each warp. Without one the paths are given by hand, and an
access is taken as coalesced and missing in the caches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec.structs import replace

from warplens.core.errors import WarplensError
from warplens.machine import KINDS, Machine
from warplens.program.instruction import Instruction
from warplens.program.program import Program
from warplens.simulator import layout as at
from warplens.simulator.code import Code, Step, WarpPath
from warplens.simulator.matrix import (
    asynchronous,
    behind_passes,
    matrix_flops,
    moved_registers,
    operand_wavefronts,
    tensor_flops_per_cycle,
)
from warplens.simulator.operands import Operands, Reader, number_of, written
from warplens.simulator.traffic import access, sent, traffic_of
from warplens.simulator.units import PIPES, Units
from warplens.workload.counted import sleep_seconds
from warplens.workload.profile import Profile

_CONVERGED_SLOT, _BARRIER_SLOT = 7, 8  # behind the scoreboards
_SPECIAL = PIPES.index("special registers")
# Class whose units serve an instruction, by its time alone and beside others (units.json.gz, of BREV
# `operations.brev`); NOP has none.
_SERVED_AS = {
    **dict.fromkeys(("FMNMX", "FSEL", "FSETP", "VOTE"), "int"), "VIADD": "imul", "BREV": "convert", "NOP": "branch"
}  # fmt: skip


def from_program(
    program: Program | Sequence[Instruction],
    units: Units,
    profile: Profile | None = None,
    *,
    paths: Sequence[WarpPath] = (),
    blocks: Sequence[Sequence[int]] = (),
    name: str = "program",
) -> Code:
    """Return the code of a program, with the paths of a profile or those given (`blocks`: each warp's path)."""
    instructions: Sequence[Instruction] = program.instructions if isinstance(program, Program) else program
    name = program.demangled if isinstance(program, Program) else name
    if any(x.control is None for x in instructions):
        raise WarplensError(f"{name}: no control codes; simulate a listing instead")
    instructions = [replace(x, kind=_SERVED_AS[x.opcode]) if x.opcode in _SERVED_AS else x for x in instructions]
    notes, mean = [], None
    if profile is not None:
        if not profile.paths or not profile.blocks:
            raise WarplensError(f"{name}: the profile has no paths of warps to simulate: they were too long to keep")
        counts = zip(instructions, profile.counts["executed"], profile.counts["threads"], strict=True)
        instructions = [
            replace(x, writes=())  # no thread takes part
            if x.guard and executed and not threads and x.control and x.control.write_scoreboard is None
            else x
            for x, executed, threads in counts
        ]
        paths = [WarpPath([(list(s.runs), s.times) for s in path.segments]) for path in profile.paths]
        blocks = profile.blocks
        notes = [*profile.notes, *_unknown(instructions, units.machine)]
        mean = None if profile.heaviest else profile.total("executed") / profile.grid_blocks or None
    elif not paths:
        raise WarplensError(f"{name}: give a profile, or the paths of its warps")
    steps = _delayed(_Lowering(instructions, units, profile).steps(), instructions, units.machine)
    steps = _linked(steps, instructions, units)
    rows = [list(block) for block in blocks] or [[0]]
    return Code(name=name, steps=steps, paths=list(paths), blocks=rows, controlled=True, grid_mean=mean, notes=notes)


def _unknown(code: Sequence[Instruction], machine: Machine) -> list[str]:
    """Return notes on what this code has and the machine file does not know."""
    constant = machine.instructions.get("constant")
    known = constant is not None and constant.peak_ops_per_cycle_per_scheduler is not None
    if known or not any(x.kind == "constant" for x in code):
        return []
    return ["instructions.constant is not known: loads from constant memory (LDC) take as long as arithmetic, no rate"]


def _delayed(steps: list[Step], code: Sequence[Instruction], machine: Machine) -> list[Step]:
    """Return the steps with the cycles that wide products wait for a factor besides their stall counts.

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
                    steps[i] = replace(steps[i], late=needed - away)
                break
            j -= 1
    return steps


def _linked(steps: list[Step], code: Sequence[Instruction], units: Units) -> list[Step]:
    """Return the steps with their slots besides scoreboards, and with the time for which a warp sleeps.

    A warp's threads converge one after another: one in some cycles of an SM, and the instruction behind BSYNC comes as
    much later as that waits for others'. Asynchronous groups have slots of their own (`matrix`).
    """
    pipe, copies = PIPES.index("convergence unit"), any(x.opcode == "LDGDEPBAR" for x in code)
    converges = [bool(units.pipes.interval[pipe]) and x.opcode == "BSYNC" for x in code[:-1]]
    for i, x in enumerate(code):
        step, group = steps[i], asynchronous(x, copies)
        if any(converges[i : i + 1]):
            step = replace(
                step, pipe=pipe, kind=at.QUEUED, passes=1.0, takes=0.0, latency=max(step.stall, step.branch),
                reason=at.RESOLVING, values=(*step.values, _CONVERGED_SLOT),
            )  # fmt: skip
        if asleep := sleep_seconds(x):
            step = replace(step, branch=asleep * units.machine.chip.clock_hz)
        waits = [_CONVERGED_SLOT] * (i > 0 and converges[i - 1]) + list(group.waits)
        if waits or group.values or group.moved:
            step = replace(
                step, waits=(*step.waits, *((slot, 0.0) for slot in waits)), values=(*step.values, *group.values),
                moved=group.moved,
            )  # fmt: skip
        steps[i] = step
    return steps


def _factors(x: Instruction) -> set[str]:
    """Return the registers that a product multiplies: what it adds to them, the last operand, it reads later."""
    return {r for operand in x.operands[1:-1] for r in operand.registers} if x.operands else set(x.reads)


def _slots_behind(kind: str, machine: Machine) -> float:
    """Return the issue slots of an instruction behind its first: its stall count begins with the last one."""
    timing = machine.timing(kind)
    return (timing.issue_slots or 1.0) - 1.0 if timing.extra_stall_cycles else 0.0


_COUNTED_INSIDE = ("executed", "requests", "wavefronts", "queue")  # of an access to shared memory


class _Lowering:
    """Steps of a program's instructions; but accesses and products, those of one form are made once.

    Of a form are those of one opcode and one control code that read as many registers of each bank. Accesses to shared
    memory are if they also have operands of one shape and the same counts.
    """

    def __init__(self, code: Sequence[Instruction], units: Units, profile: Profile | None) -> None:
        self.code, self.units, self.profile = code, units, profile
        self.served = {kind: units.unit(kind, program=True) for kind in {"int", *(x.kind for x in code)}}
        self.traffic = traffic_of(code, {kind: base.kind for kind, base in self.served.items()}, units, profile)

    def steps(self) -> list[Step]:
        """Return what each instruction does to the units."""
        steps, known, kept, reader = list[Step](), dict[tuple[object, ...], tuple[Step, bool]](), set[str](), Reader()
        counts = [self.profile.counts[name] for name in _COUNTED_INSIDE] if self.profile else []
        slots = {kind: _slots_behind(kind, self.units.machine) for kind in self.served}
        extras = {kind: extra if extra in range(at.MOST_EXTRA + 1) else 0.0 for kind, extra in slots.items()}
        for i, x in enumerate(self.code):
            control, kind = x.control, x.kind
            assert control is not None
            in_banks, fixed, of = _banks(_unkept(x, kept)), control.write_scoreboard is None, self.served[kind].kind
            form: tuple[object, ...] = (len(x.reads),)
            if kind == "tensor" or _is_access(of, kind):  # they do not read as arithmetic does
                reader.passes(x, fixed=fixed)
                operands = Operands(writes=written(x.writes))
                each = kind == "tensor" or of in (at.LOAD, at.STORE)
                form = (i,) if each else (_shape(x), *[column[i] for column in counts])
            else:
                operands = reader.reads(x, fixed=fixed, extra=extras[kind])
            how = control.stall, control.yields, control.write_scoreboard, control.read_scoreboard, control.wait_mask
            form = x.opcode, kind, x.modifiers, how, in_banks, operands.writes, *form
            if form not in known:
                step = self._step(i, in_banks, operands)
                known[form] = step, step.operands is operands
            step, reads = known[form]
            steps.append(replace(step, label=x.text, line=x.line, operands=operands if reads else step.operands))
        return steps

    def _step(self, i: int, in_banks: tuple[int, int], operands: Operands) -> Step:
        x, units, machine = self.code[i], self.units, self.units.machine
        base, control = self.served[x.kind], x.control
        assert control is not None
        kind, pipe, passes, latency, reason = base.kind, base.pipe, base.passes, base.latency, base.reason
        issue_cycles, slots, values = base.issue_cycles, list(control.waits), [control.write_scoreboard]
        if kind == at.BARRIER and x.opcode not in ("BAR", "BARRIER"):
            kind = at.FIXED  # fences and the like: they wait by scoreboard
        if x.kind == "convert" and control.write_scoreboard is None:  # a fixed latency: not one of the SFUs'
            kind, pipe, passes = at.FIXED, self.served["int"].pipe, self.served["int"].passes
        halves = x.kind == "half" and bool(units.pipes.half[PIPES.index("product")])
        if halves:  # both halves of the cores, that of products, or double precision's units (units.json.gz)
            pipe, passes = PIPES.index("fp64 units" if "MMA" in x.modifiers else "product"), 2.0
        if x.kind == "tensor" and (flops := matrix_flops(x)) is not None:
            rate = tensor_flops_per_cycle(x, machine)
            pipe, passes = (PIPES.index("tensor cores"), flops * machine.sm.schedulers / rate) if rate else (-1, 1.0)
        if x.opcode == "UMOV" or kind in (at.LOAD, at.STORE) or KINDS[x.kind] in ("shared memory", "shuffle"):
            passes = 1.0
        if x.opcode.endswith("GMMA"):
            # they queue for the tensor cores; consumers show as at a barrier, as in ncu's samples
            latency, reason = passes + behind_passes(x, machine), at.AT_BARRIER
            pipe = PIPES.index("warp-group products") if pipe >= 0 else pipe
        if x.opcode in ("S2R", "S2UR") and (special := _special(x, machine)) is not None:
            kind, pipe, reason = at.QUEUED, _SPECIAL, at.SHORT
            issue_cycles, (passes, latency) = machine.sm.issue_interval_cycles, special
        if kind == at.BARRIER:  # the next one of the warp comes no sooner than this
            slots, values, latency = [*slots, _BARRIER_SLOT], [_BARRIER_SLOT], machine.sm.barrier_cycles or 0.0
        takes, arithmetic, further = passes, kind == at.FIXED, _slots_behind(x.kind, machine)
        if arithmetic and pipe >= 0 and machine.sm.register_banks:  # one of each bank a cycle (issue.banks.*)
            passes = max(passes, float(max(in_banks)))
        if not (arithmetic and pipe >= 0 and x.kind != "tensor"):  # how many registers they read
            operands = Operands() if arithmetic else Operands(*in_banks, writes=operands.writes)
        step = replace(
            base, pipe=pipe, kind=kind, reason=reason, issue_cycles=issue_cycles, latency=latency, passes=passes,
            stall=float(max(2 if control.yields else 1, control.stall)) + further,
            yields=2 if control.yields and control.stall == 1 else int(control.yields),
            takes=max(1.0, takes - further) if arithmetic else 0.0,
            branch=_waiting(x, machine),
            waits=tuple((slot, 0.0) for slot in slots),
            values=tuple(slot for slot in values if slot is not None),
            reads=() if control.read_scoreboard is None else (control.read_scoreboard,),
            operands=operands,
            both=halves and x.modifiers[:1] not in (("MMA",), ("F32",)),
            beside=operand_wavefronts(x) * float(units.pipes[PIPES.index("shared memory")].interval),
            moves=moved_registers(x) / passes,
        )  # fmt: skip
        if _is_access(kind, x.kind):
            step = replace(step, **access(step, x, units, self.profile, i, self.traffic))
        return sent(step, x, units)


def _waiting(x: Instruction, machine: Machine) -> float:
    """Return the cycles for which a warp stays at an instruction that waits for its threads, or for its stores."""
    if x.opcode == "BSYNC":
        return machine.sm.reconverge_cycles or 0.0
    fence = x.opcode == "MEMBAR" and not {"GPU", "SYS"}.isdisjoint(x.modifiers)
    return (machine.sm.fence_cycles or 0.0) if fence else 0.0


def _shape(x: Instruction) -> tuple[object, ...]:
    """Return the kinds of an instruction's operands, which of them name general registers, and how many it writes."""
    operands = [(o.kind, any(r[0] == "R" for r in o.registers)) for o in x.operands]
    return *operands, sum([r[0] == "R" for r in x.writes])


def _is_access(unit: int, kind: str) -> bool:
    return unit in (at.LOAD, at.STORE) or KINDS[kind] == "shared memory"


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
