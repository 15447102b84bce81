"""A program with control codes as code: stall counts, scoreboards and wait masks as the compiler wrote them.

The profile says what each access touches and which way each warp goes. Without one the ways are given by hand, and an
access is taken as coalesced and missing in the caches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from warplens.errors import WarplensError
from warplens.kernel.instruction import Instruction
from warplens.kernel.profile import Profile
from warplens.kernel.program import Program
from warplens.machine import KINDS, Machine
from warplens.simulate import layout as at
from warplens.simulate.code import Code, Step, Way
from warplens.simulate.units import PIPES, Unit, Units

_REGISTER = re.compile(r"R(\d+)")
_BARRIER_SLOT = 8  # behind the scoreboards
SECTOR_BYTES = 32


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
    served = {kind: units.unit(kind, program=True) for kind in {"int", "convert", *(x.kind for x in instructions)}}
    kept: set[str] = set()
    traffic = _traffic(instructions, served, profile)
    steps = [_step(x, kept, units.machine, served, profile, i, traffic) for i, x in enumerate(instructions)]
    notes, mean = [], None
    if profile is not None:
        if not profile.paths or not profile.blocks:
            raise WarplensError(f"{name}: the profile keeps no ways of warps; emulate with paths")
        ways = [Way([(list(s.runs), s.times) for s in path.segments]) for path in profile.paths]
        blocks = profile.blocks
        notes = list(profile.notes)
        mean = None if profile.heaviest else profile.total("executed") / profile.grid_blocks or None
    elif not ways:
        raise WarplensError(f"{name}: give a profile, or the ways of its warps")
    rows = [list(block) for block in blocks] or [[0]]
    return Code(
        name=name, steps=steps, ways=list(ways), blocks=rows, controlled=True, grid_mean=mean, notes=notes
    )  # fmt: skip


def _step(x: Instruction, kept: set[str], machine: Machine, served: Mapping[str, Unit],
          profile: Profile | None, i: int, traffic: _Traffic) -> Step:  # fmt: skip
    unit, control = served[x.kind], x.control
    assert control is not None
    kind = unit.kind
    if kind == at.BARRIER and x.opcode not in ("BAR", "BARRIER"):
        kind = at.FIXED  # fences and the like: they wait by scoreboard
    pipe, passes, waits, values = unit.pipe, unit.passes, list(control.waits), [control.write_scoreboard]
    if x.kind == "convert" and control.write_scoreboard is None:  # a fixed latency: not one of the SFUs'
        kind, pipe, passes = at.FIXED, served["int"].pipe, served["int"].passes
    if x.kind == "tensor" and (flops := matrix_flops(x)) is not None:
        rate = tensor_flops_per_cycle(x, machine)
        pipe, passes = (PIPES.index("tensor cores"), flops * machine.sm.schedulers / rate) if rate else (-1, 1.0)
    if kind in (at.LOAD, at.STORE) or KINDS[x.kind] in ("shared memory", "shuffle"):
        passes = 1.0
    latency = unit.latency
    if x.opcode in ("S2R", "S2UR"):
        like = served["convert"]
        kind, pipe, passes, latency = at.QUEUED, like.pipe, like.passes, 35.0 if x.opcode == "S2UR" else 25.0
    if kind == at.BARRIER:  # the next one of the warp comes no sooner than this
        waits, values, latency = [*waits, _BARRIER_SLOT], [_BARRIER_SLOT], machine.sm.barrier_cycles or 0.0
    reads = _banks(_unkept(x, kept))
    if kind == at.FIXED and pipe >= 0 and machine.sm.register_banks:  # two registers a cycle (operations.ffma, .dfma)
        passes = max(passes, float(-(-sum(reads) // 2)))
    made = Step(
        label=x.text,
        pipe=pipe,
        kind=kind,
        reason=unit.reason,
        holds=unit.holds,
        stall=float(max(1, control.stall)),
        latency=latency,
        read=unit.read,
        passes=passes,
        branch=(machine.sm.reconverge_cycles or 0.0) if x.opcode == "BSYNC" else 0.0,
        waits=tuple((slot, 0.0) for slot in waits),
        values=tuple(slot for slot in values if slot is not None),
        reads=() if control.read_scoreboard is None else (control.read_scoreboard,),
        bank_reads=reads,
        bank_writes=_banks(x.writes),
    )
    if kind in (at.LOAD, at.STORE) or KINDS[x.kind] == "shared memory":
        made = msgspec.structs.replace(made, **_access(made, x, machine, profile, i, traffic))
    return made


_SHAPES = {"1688": (16, 8, 8), "16816": (16, 8, 16), "16832": (16, 8, 32), "16864": (16, 8, 64), "8816": (8, 8, 16),
           "884": (8, 8, 4), "8832": (8, 8, 32)}  # fmt: skip
_GROUP = re.compile(r"(\d+)x(\d+)x(\d+)")
_TYPES = {"HMMA": "f16", "IMMA": "s8", "DMMA": "f64", "HGMMA": "f16", "IGMMA": "s8", "QGMMA": "e4m3"}


def matrix_flops(x: Instruction) -> float | None:
    """Return the operations of one warp in a matrix instruction, from its shape; None where that is not known."""
    for modifier in x.modifiers:
        if modifier in _SHAPES:
            m, n, k = _SHAPES[modifier]
            return 2.0 * m * n * k
        if found := _GROUP.fullmatch(modifier):  # of a group of four warps
            m, n, k = (int(part) for part in found.groups())
            return 2.0 * m * n * k / 4
    return None


def tensor_flops_per_cycle(x: Instruction, machine: Machine) -> float | None:
    """Return what the tensor cores of an SM do per cycle in an instruction like this; None where it is not known."""
    kind = next((m.lower() for m in x.modifiers if m in ("BF16", "TF32")), _TYPES.get(x.opcode, ""))
    if x.opcode.endswith("GMMA"):
        alike = [name for name in machine.tensor if name.startswith(f"group_{kind}_")]
        alike = alike or [name for name in machine.tensor if name.startswith("group_f16_")]
        rates = [machine.tensor[name].peak_flops_per_cycle_per_sm for name in alike]
        return max((rate for rate in rates if rate), default=None)
    name = "f64_16816" if kind == "f64" and "16816" in x.modifiers else kind
    return machine.tensor[name].peak_flops_per_cycle_per_sm if name in machine.tensor else None


class _Traffic(Struct, frozen=True):
    """What the profile says of DRAM, where its sectors do not: bytes per byte that loads miss or stores ask for."""

    read: float = 1.0
    written: float = 1.0


def _traffic(instructions: Sequence[Instruction], served: Mapping[str, Unit], profile: Profile | None) -> _Traffic:
    if profile is None or not profile.traffic:
        return _Traffic()
    missed = asked = 0.0
    for i, x in enumerate(instructions):
        kind = served[x.kind].kind
        if kind == at.LOAD:
            missed += SECTOR_BYTES * (profile.counts["l2_sectors"][i] - profile.counts["l2_hit_sectors"][i])
        elif kind == at.STORE:
            asked += SECTOR_BYTES * profile.counts["l2_sectors"][i]
    return _Traffic(
        profile.dram_read_bytes / missed if missed else 1.0, profile.dram_written_bytes / asked if asked else 1.0
    )


def _access(
    x: Step, instruction: Instruction, machine: Machine, profile: Profile | None, i: int, traffic: _Traffic
) -> dict[str, float]:
    """Return what one execution of an access asks of its pipe, of L2 and of DRAM: means over the whole grid."""
    if profile is None or not profile.counts["requests"][i]:
        full = 4 * SECTOR_BYTES if profile is None and x.kind in (at.LOAD, at.STORE) else 0.0
        return {"l2_bytes": full, "dram_bytes": full}
    column = {name: values[i] for name, values in profile.counts.items()}
    requests, sectors, asked = column["requests"], column["sectors"], column["l2_sectors"]
    share = min(1.0, requests / column["executed"])  # the others had no thread that took part
    wavefronts = max(1.0, column["wavefronts"] / requests)
    if x.kind not in (at.LOAD, at.STORE):
        return {"passes": share * max(wavefronts, _queue(instruction, column["queue"] / requests))}
    missed = asked - column["l2_hit_sectors"]
    load = x.kind == at.LOAD
    memory, interval = machine.memory, machine.cache.l1_request_interval_cycles or 1.0
    extra = max(0.0, sectors / requests - (memory.coalesced_transactions or 4.0))  # transactions that are too many
    lines = max(1.0, column["lines"] / requests)
    l1_hit, l2_hit = 0.0, 0.0
    if load and sectors:  # a request waits for the last of its lines: all of them have to hit
        by_line = column["l1_hit_sectors"] / sectors
        l1_hit = by_line**lines
        passing = max(1.0, lines * (1 - by_line) / max(1e-9, 1 - l1_hit))
        l2_hit = (column["l2_hit_sectors"] / asked) ** passing if asked else 0.0
    beyond = max(1e-9, 1 - l1_hit)  # those that pass L1, and L2, move so much more than the mean access
    far = max(1e-9, beyond * (1 - l2_hit))
    l1_hit = 1 - share * (1 - l1_hit)
    return {
        # A wavefront takes a cycle, an access the interval at least (bandwidth.l1_load_* of the H200).
        "passes": share * max(1.0, (wavefronts + _second_line(wavefronts, lines)) / interval),
        "latency": x.latency + extra * (memory.extra_transaction_cycles or 0.0),
        "l1_hit": l1_hit,
        "l2_hit": l2_hit,
        "l2_bytes": SECTOR_BYTES * asked / requests / beyond,
        "dram_bytes": SECTOR_BYTES / requests * (missed * traffic.read if load else asked * traffic.written) / far,
    }


def _second_line(wavefronts: float, lines: float) -> float:
    """Return what an access to several lines takes beyond the longest queue at a bank of tags, in cycles.

    data/h200/scattered.json.gz: half a cycle, unless the banks of the data are what it waits for.
    """
    return 0.5 * min(1.0, max(0.0, lines - 1)) if wavefronts <= max(1.0, lines / 2) else 0.0


def _queue(x: Instruction, longest: float) -> float:
    """Return the turns of an atomic on shared memory: one per thread at an address, but counting joins them all."""
    return 1.0 if "POPC" in x.modifiers else longest


_KEPT = re.compile(r"\bR(\d+)\.reuse")


def _unkept(x: Instruction, kept: set[str]) -> list[str]:
    """Return the registers that an instruction reads from the file: without those kept beside the units.

    An operand marked for reuse stays until it is used without the mark; the set `kept` is brought up to date.
    """
    read = [r for r in x.reads if r not in kept]
    words = 2 if x.kind == "fp64" else 1
    marked = {f"R{int(n) + k}" for n in _KEPT.findall(x.text) for k in range(words)}
    kept.difference_update(x.reads, x.writes)
    kept |= marked
    if x.target is not None:
        kept.clear()
    return read


def _banks(registers: Sequence[str]) -> tuple[int, int]:
    """Return how many registers lie in each of the two banks: even numbers in one, odd in the other."""
    numbers = [int(m[1]) for r in registers if (m := _REGISTER.fullmatch(r))]
    return sum(n % 2 == 0 for n in numbers), sum(n % 2 for n in numbers)
