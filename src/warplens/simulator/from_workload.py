"""A workload as code: its listing with the dependences of its registers, or a chain made from its counts.

Counts say how often, links say what follows what. The chain runs through the links (a load, the adds that follow, the
address, the next load); with parallelism each node is so many instructions side by side. What is counted and not on
the chain is spread between. A branch ends a turn of the loop, and is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any

from msgspec.structs import replace

from warplens.core.errors import MissingField, WarplensError
from warplens.machine import KINDS, Machine
from warplens.program.decoding import parse_listing
from warplens.program.instruction import Instruction, access_bytes
from warplens.simulator import layout as at
from warplens.simulator.code import Code, Step, Way
from warplens.simulator.operands import Operands
from warplens.simulator.units import Units
from warplens.workload.workload import Access, Workload, access_of, extra_latency, wavefronts

ENDLESS = 1 << 40
_MOST_STEPS = 20_000
_TURN = 2_000  # instructions of a turn of which counts that are not whole are a part
_MOST_TURNS = 128  # bodies of a loop's turn that are spelled out
_PLAIN = {"shared_2way": "shared", "load_random": "load"}  # classes whose accesses take longer than these
_NO_RESULT = ("store", "branch", "barrier", "exit")


def from_workload(workload: Workload, units: Units, warps_per_sm: float | None = None) -> Code:
    """Return the code of a workload: of one block, or of `warps_per_sm` warps that repeat its body for ever."""
    if workload.kernels:
        raise WarplensError(f"{workload.name}: a program of several kernels is simulated one by one")
    machine, launch = units.machine, workload.launch
    if workload.warps:
        codes = [parse_listing(w.listing, workload.name) for w in workload.warps]
        steps, spans = list[Step](), list[tuple[int, int]]()
        for code in codes:
            spans.append((len(steps), len(steps) + len(code)))
            steps += _listed(code, units, workload)
        times = max(1, round(float(workload.iterations)))
    elif launch is not None:
        return _spelled_out(workload, units, int(launch.warps_per_block))
    else:
        steps, bodies = _counted(workload, units)
        count = int(warps_per_sm or machine.sm.warps_max)
        way = Way([([(0, len(steps))], ENDLESS)])
        return Code(name=workload.name, steps=steps, ways=[way], blocks=[[0] * count], bodies=bodies, steady=True)
    if launch is None:
        count = int(warps_per_sm or machine.sm.warps_max)
        blocks = [[w % len(spans) for w in range(count)]]
        ways = [Way([([span], ENDLESS)]) for span in spans]
        return Code(name=workload.name, steps=steps, ways=ways, blocks=blocks, steady=True)
    count = int(launch.warps_per_block)
    ways = [Way([([span], times)]) for span in spans]
    return Code(name=workload.name, steps=steps, ways=ways, blocks=[[w % len(spans) for w in range(count)]])


# Listings: every register is a slot, and a consumer's latency is the pair's.


def _listed(code: list[Instruction], units: Units, workload: Workload) -> list[Step]:
    machine, accesses = units.machine, by_class(workload)
    registers = sorted({r for x in code for r in (*x.reads, *x.writes)})
    slot = {r: i for i, r in enumerate(registers)}
    writer: dict[str, Instruction] = {}
    for x in code:  # around the loop too: the last writer of the body is there before its first
        writer.update((r, x) for r in x.writes)
    steps, dual = [], False
    for i, x in enumerate(code):
        waits = []
        for r in dict.fromkeys(x.reads):
            if r in writer:
                made = writer[r]
                waits.append((slot[r], _latency(made, x, machine) - _latency(made, None, machine)))
        writer.update((r, x) for r in x.writes)
        dual = i > 0 and not dual and _pairs(code[i - 1], x, machine)
        base = step(x.kind, x.text, units, alike(x.kind, access_bytes(x), accesses.get(x.kind, ())))
        steps.append(
            _with(base, line=x.line, waits=tuple(waits), values=tuple(slot[r] for r in x.writes), pairs=dual,
                  latency=base.latency if x.latency_cycles is None else x.latency_cycles, branch=_branch(x, machine))
        )  # fmt: skip
    return steps


def _latency(made: Instruction, used: Instruction | None, machine: Machine) -> float:
    if made.latency_cycles is not None:
        return made.latency_cycles
    if KINDS[made.kind] == "issue" and machine.timing(made.kind).latency_cycles is None:
        return machine.sm.issue_interval_cycles
    return machine.latency_cycles(made.kind, None if used is None else used.kind, model="the simulator")


def _branch(x: Instruction, machine: Machine) -> float:
    if x.kind != "branch":
        return 0.0
    return (machine.sm.branch_taken_cycles if x.taken else machine.sm.branch_not_taken_cycles) or 0.0


def _pairs(first: Instruction, second: Instruction, machine: Machine) -> bool:
    """Whether two instructions issue together: no two memory accesses, no branch, no dependence (Volkov §3.8)."""
    if machine.sm.issue_width < 2:
        return False
    memory = KINDS[first.kind] == "memory system" and KINDS[second.kind] == "memory system"
    control = first.kind in ("branch", "barrier", "exit") or second.kind in ("branch", "barrier")
    return not (memory or control or set(first.writes) & {*second.reads, *second.writes})


# Counts.


def _counted(workload: Workload, units: Units) -> tuple[list[Step], float]:
    """Return the steps of one turn of an endless loop, and how many bodies they are."""
    counts = _of_a_body(workload)
    bodies = _bodies(counts, inf)
    if len(_chain(workload, counts)) == 1 and bodies == 1:
        bodies = 2  # so that a turn has a node before its last
    _check_length(workload, counts, bodies)
    left = Counter({k: round(c * bodies) for k, c in counts.items()})
    if not left.total():
        raise WarplensError(f"{workload.name}: less than one instruction in {bodies} bodies: counts are too small")
    branches = left.pop("branch", 0)
    builder = _Builder(workload, units)
    builder.spell(_chain(workload, counts), left, branches)
    return builder.steps, float(bodies)


def _spelled_out(workload: Workload, units: Units, warps: int) -> Code:
    """Return the code of a block whose warps execute so much of each class as counted: turns of a loop, and the rest.

    Where counts are not whole a turn is of many bodies; what whole turns leave comes behind them.
    """
    counts, iterations = _of_a_body(workload), float(workload.iterations)
    _check_length(workload, counts, 1.0)
    bodies = _bodies(counts, iterations)
    times, totals = int(iterations / bodies + 1e-9), {k: round(c * iterations) for k, c in counts.items()}
    if not sum(totals.values()):
        raise WarplensError(f"{workload.name}: no instructions to simulate")
    turn = {k: total // times for k, total in totals.items()} if times else {}
    rest = {k: total - times * turn.get(k, 0) for k, total in totals.items()}
    builder, segments = _Builder(workload, units), list[tuple[list[tuple[int, int]], int]]()
    for many, often in ((turn, times), (rest, 1)):
        left, first = Counter({k: n for k, n in many.items() if n}), len(builder.steps)
        if left:
            chain = _chain(workload, {k: float(n) for k, n in left.items()})
            branches = left.pop("branch", 0)
            builder.spell(chain, left, branches)
            segments.append(([(first, len(builder.steps))], often))
    return Code(name=workload.name, steps=builder.steps, ways=[Way(segments)], blocks=[[0] * warps])


def _of_a_body(workload: Workload) -> dict[str, float]:
    counts = {k: float(c) / float(workload.iterations) for k, c in workload.executed().items() if float(c) > 0}
    if not counts:
        raise WarplensError(f"{workload.name}: no instructions to simulate")
    return counts


def _bodies(counts: dict[str, float], most: float) -> int:
    """Return of how many bodies a turn is: as few as have whole counts, or as many as make a long turn."""
    each = sum(counts.values())
    exact = next((m for m in range(1, _MOST_TURNS + 1) if all(_whole(c * m) for c in counts.values())), 0)
    if exact == 1 or 0 < exact * each <= _TURN:
        return exact
    return max(1, int(min(most, _TURN / each)))


def _check_length(workload: Workload, counts: dict[str, float], bodies: float) -> None:
    if sum(counts.values()) * bodies > _MOST_STEPS:
        raise WarplensError(f"{workload.name}: a body of {sum(counts.values()):.3g} instructions is too long")


def _whole(x: float) -> bool:
    return abs(x - round(x)) < 1e-6


def _chain(workload: Workload, counts: dict[str, float]) -> list[str]:
    """Return the kinds along one round of the longest chain, in order."""
    links = {
        (x.producer, x.consumer): float(x.count)
        for x in workload.links
        if float(x.count) > 0 and x.producer in counts and x.consumer in counts
    }
    if not links:
        order = [k for k in counts if k not in ("branch", "exit", "barrier", "store")] or list(counts)
        least = min(counts[k] for k in order)
        spread = [
            (j / round(counts[k] / least), i, k) for i, k in enumerate(order) for j in range(round(counts[k] / least))
        ]
        last = [k for k in ("store", "barrier") if k in counts and k not in order]
        return [k for _, _, k in sorted(spread)] + last
    between = [c for (a, b), c in links.items() if a != b]
    unit = min(between) if between else 1.0
    rest = {pair: max(1, round(c / unit)) for pair, c in links.items()} if between else dict.fromkeys(links, 1)
    here = min((a for a, _ in links), key=lambda k: counts[k])
    found = [here]
    while True:
        nexts = [pair for pair, c in rest.items() if pair[0] == here and c > 0]
        if not nexts:
            break
        pair = next((p for p in nexts if p[0] == p[1]), nexts[0])
        rest[pair] -= 1
        here = pair[1]
        found.append(here)
    return found[:-1] if len(found) > 1 and found[-1] == found[0] else found


class _Builder:
    """Steps one behind the other: nodes of the chain, instructions beside it, the end of a turn.

    Slots 0 and 1 take turns as the value of the chain, slot 2 is what one turn leaves to the next. The chain stays in
    one register bank, as a compiler that reuses registers leaves it; what is beside it goes to the other.
    """

    def __init__(self, workload: Workload, units: Units) -> None:
        self.workload, self.units = workload, units
        self.steps: list[Step] = []
        self.nodes: list[tuple[int, int, str]] = []  # first step, one behind the last, kind
        rows = [a for a in workload.accesses if float(a.count) > 0]
        self.accesses = {
            a.instruction_class: [x for x in rows if x.instruction_class == a.instruction_class] for a in rows
        }
        self.made = {kind: [0] * len(same) for kind, same in self.accesses.items()}

    def spell(self, chain: list[str], left: Counter[str], branches: int) -> None:
        """Add so many instructions of each class: nodes along the chain, others in step with it, branches between.

        Branches end parts of equal length.
        """
        self.nodes, whole = [], dict(left)
        kinds, many = set(chain) & set(whole), 0
        on_chain = sum(whole[k] for k in kinds)
        while left.total() > 0:
            before = left.total()
            for kind in chain:
                wide = min(left[kind], self.width(kind))
                if wide:
                    self.node(kind, wide)
                    left[kind] -= wide
            # Instructions that are not on the chain, in step with it.
            done = 1 - sum(left[k] for k in kinds) / max(1, on_chain)
            for kind in [k for k in left if k not in kinds]:
                while left[kind] > 0 and (whole[kind] - left[kind]) < done * whole[kind]:
                    self.loose(kind)
                    left[kind] -= 1
            while many < branches - 1 and many + 1 <= done * branches:
                self.turn()
                many += 1
            if left.total() == before:
                raise WarplensError(f"{self.workload.name}: the chain of links does not use its instructions")
        self.join()
        for _ in range(branches - many):
            self.turn()

    def width(self, kind: str) -> int:
        """Instructions of a node: side by side as far as the workload's parallelism goes."""
        return max(1, round(float(self.workload.mlp if KINDS[kind] == "memory system" else self.workload.ilp)))

    def node(self, kind: str, wide: int) -> None:
        """Add a node that waits for the one before it."""
        self.nodes.append((len(self.steps), len(self.steps) + wide, kind))
        for base in [self._step(kind) for _ in range(wide)]:
            self.steps.append(_with(base, **_banks(base, (0, 1))))

    def join(self) -> None:
        """Let each node wait for the one before; in a steady state or a loop the first one for the last."""
        chain = [node for node in self.nodes if node[2] not in _NO_RESULT]
        slot = {node: 2 if node is chain[-1] else k % 2 for k, node in enumerate(chain)}
        before: tuple[int, int, str] | None = chain[-1] if chain else None
        for node in self.nodes:
            first, stop, kind = node
            waits: tuple[tuple[int, float], ...] = ()
            if before is not None:
                model, consumer = "the simulator", kind if self.workload.links else before[2]
                pair = self.units.machine.latency_cycles(before[2], consumer, model=model)
                waits = ((slot[before], pair - self.units.machine.latency_cycles(before[2], model=model)),)
            values = (slot[node],) if node in slot else ()
            for i in range(first, stop):
                self.steps[i] = _with(self.steps[i], waits=waits, values=values)
            before = node if node in slot else before

    def loose(self, kind: str) -> None:
        """Add an instruction that nothing waits for."""
        base = self._step(kind)
        self.steps.append(_with(base, **_banks(base, (1, 0))))

    def turn(self) -> None:
        """End a turn: the branch back."""
        self.steps.append(_with(self._step("branch"), branch=self.units.machine.sm.branch_taken_cycles or 0.0))

    def _step(self, kind: str) -> Step:
        """Return a step of a class: where its accesses differ, of the one of which least has been made."""
        rows = self.accesses.get(kind, [])
        if not rows:
            return step(kind, kind, self.units)
        made = self.made[kind]
        least = min(range(len(rows)), key=lambda i: ((made[i] + 1) / float(rows[i].count), i))
        made[least] += 1
        return step(kind, kind, self.units, rows[least : least + 1])


def _banks(x: Step, bank: tuple[int, int]) -> dict[str, Operands]:
    """Return the one register that an instruction reads, of the bank that has it."""
    if x.kind == at.FIXED:
        even, odd = ((1 << at.LANES_AT | k) * there for k, there in enumerate(bank))
        return {"operands": Operands(even, odd, made=float(at.MADE), writes=bank[0] | bank[1] << 1)}
    return {"operands": Operands(*bank, writes=bank[0] | bank[1] << 1)} if x.kind in (at.QUEUED, at.LOAD) else {}


def step(kind: str, label: str, units: Units, accesses: Sequence[Access] = ()) -> Step:
    """Return one instruction of a class, without what it waits for; its accesses give transactions and hits in mean."""
    machine, unit, plain = units.machine, units.unit(kind), _PLAIN.get(kind, kind)
    try:
        latency = machine.latency_cycles(kind, model="the simulator")
        spread = latency - machine.latency_cycles(plain, model="the simulator")
    except MissingField:
        if KINDS[kind] != "issue" and kind not in _NO_RESULT:
            raise
        latency, spread = machine.sm.issue_interval_cycles, 0.0
    passes, moved, through = unit.passes, 0.0, _transactions
    if unit.kind in (at.LOAD, at.STORE):
        passes = _mean(accesses, through, 1.0)
        moved = _mean(accesses, lambda a: float(a.transactions * a.transaction_bytes * (1 - a.hit_fraction)), 128.0)
    elif accesses:
        through = partial(_wavefronts, machine)
        passes = _mean(accesses, through, 1.0)
    # What the passes of each access through its pipe do not say already (Volkov §6.2, §6.7).
    interval = float(units.pipes[unit.pipe].interval) if unit.pipe >= 0 else 0.0
    latency += (
        _mean(
            accesses,
            lambda a: max(0.0, max(spread, float(extra_latency(a, machine))) - interval * (through(a) - 1)),
            max(0.0, spread),
        )
        - spread
    )
    timing = machine.timing(kind)
    between = timing.ilp_latency_cycles or machine.sm.ilp_latency_cycles or machine.sm.issue_interval_cycles
    return Step(
        label=label, pipe=unit.pipe, kind=unit.kind, reason=unit.reason, holds=unit.holds, stall=between,
        latency=latency, read=unit.read, passes=passes, l2_bytes=moved, dram_bytes=moved,
        l2_cycles=moved / units.l2_rate, dram_cycles=moved / units.dram_rate,
    )  # fmt: skip


def _transactions(a: Access) -> float:
    return max(1.0, float(a.transactions))


def _wavefronts(machine: Machine, a: Access) -> float:
    return float(wavefronts(a, machine))


def alike(kind: str, width: int, accesses: Sequence[Access] = ()) -> Sequence[Access]:
    """Return those accesses of a class that are as wide, else all, else one that nothing but its width is known of."""
    own = access_of(kind, width)
    return [a for a in accesses if a.bytes_per_thread == width] or accesses or ([own] if own else [])


def by_class(workload: Workload) -> dict[str, list[Access]]:
    """Return the accesses of each instruction class."""
    found: dict[str, list[Access]] = {}
    for a in workload.accesses:
        found.setdefault(a.instruction_class, []).append(a)
    return found


def _mean(accesses: Sequence[Access], value: Callable[[Access], float], otherwise: float) -> float:
    """Return the mean of a value over all accesses of a class."""
    count = sum(float(a.count) for a in accesses)
    return sum(float(a.count) * value(a) for a in accesses) / count if count else otherwise


def _with(x: Step, **values: Any) -> Step:
    return replace(x, **values)
