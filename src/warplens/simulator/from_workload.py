"""Lowering of a hand-written workload: its listing with the dependences of its registers, or a chain from its counts.

Counts say how often, links say what follows what. The chain runs through the links (a load, the adds that follow, the
address, the next load); with parallelism each node is so many instructions side by side. What is counted and not on
the chain is spread between. A branch ends an iteration of the loop, and is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import inf

from msgspec.structs import replace

from warplens.core.errors import MissingField, WarplensError
from warplens.machine import KINDS, Machine
from warplens.program.decoding import parse_listing
from warplens.program.instruction import Instruction, access_bytes
from warplens.simulator import layout as at
from warplens.simulator.code import Code, Step, WarpPath
from warplens.simulator.operands import Operands
from warplens.simulator.units import Units
from warplens.workload.workload import Access, Workload, access_of, extra_latency, wavefronts

ENDLESS = 1 << 40
_MOST_STEPS = 20_000
_ITERATION = 2_000  # instructions of an iteration of which counts that are not whole are a part
_MOST_RATIO = 1e6  # of two counts
_MOST_BODIES = 128  # of an iteration that is spelled out
_PLAIN = {"shared_2way": "shared", "load_random": "load"}  # classes whose accesses take longer than these
_NO_RESULT = ("store", "branch", "barrier", "exit")
_MODEL = "the simulator"


def from_workload(workload: Workload, units: Units, warps_per_sm: float | None = None) -> Code:
    """Return the code of a workload: of one block, or of `warps_per_sm` warps that repeat its body for ever."""
    if workload.kernels:
        raise WarplensError(f"{workload.name}: a program of several kernels is simulated one by one")
    launch, bodies = workload.launch, 1.0
    warps = int(warps_per_sm or units.machine.sm.warps_max) if launch is None else int(launch.warps_per_block)
    if workload.warps:
        steps, paths = list[Step](), list[WarpPath]()
        times = ENDLESS if launch is None else max(1, round(float(workload.iterations)))
        for listing in workload.warps:
            first = len(steps)
            steps += _listed(parse_listing(listing.listing, workload.name), units, workload)
            paths.append(WarpPath([([(first, len(steps))], times)]))
    elif launch is None:
        steps, bodies = _counted(workload, units)
        paths = [WarpPath([([(0, len(steps))], ENDLESS)])]
    else:
        steps, paths = _spelled_out(workload, units)
    blocks = [[w % len(paths) for w in range(warps)]]
    return Code(name=workload.name, steps=steps, paths=paths, blocks=blocks, bodies=bodies, steady=launch is None)


# Listings: every register is a slot, and a consumer's latency is the pair's.


def _listed(code: list[Instruction], units: Units, workload: Workload) -> list[Step]:
    machine, accesses = units.machine, by_class(workload)
    slot = {r: i for i, r in enumerate(sorted({r for x in code for r in (*x.reads, *x.writes)}))}
    # Around the loop too: the last writer of the body is there before its first.
    writer = {r: x for x in code for r in x.writes}
    steps, dual = list[Step](), False
    for i, x in enumerate(code):
        producers = [(r, writer[r]) for r in dict.fromkeys(x.reads) if r in writer]
        writer.update((r, x) for r in x.writes)
        dual = i > 0 and not dual and _pairs(code[i - 1], x, machine)
        base = step(x.kind, x.text, units, of_width(x.kind, access_bytes(x), accesses.get(x.kind, ())))
        cycles = machine.sm.branch_taken_cycles if x.taken else machine.sm.branch_not_taken_cycles
        steps.append(
            replace(
                base, line=x.line, values=tuple(slot[r] for r in x.writes), pairs=dual,
                waits=tuple((slot[r], _latency(w, x, machine) - _latency(w, None, machine)) for r, w in producers),
                latency=base.latency if x.latency_cycles is None else x.latency_cycles,
                branch=(cycles or 0.0) if x.kind == "branch" else 0.0,
            )
        )  # fmt: skip
    return steps


def _latency(producer: Instruction, used: Instruction | None, machine: Machine) -> float:
    if producer.latency_cycles is not None:
        return producer.latency_cycles
    if KINDS[producer.kind] == "issue" and machine.timing(producer.kind).latency_cycles is None:
        return machine.sm.issue_interval_cycles
    return machine.latency_cycles(producer.kind, None if used is None else used.kind, model=_MODEL)


def _pairs(first: Instruction, second: Instruction, machine: Machine) -> bool:
    """Return True if two issue together: no two memory accesses, no branch, no dependence (Volkov §3.8)."""
    if machine.sm.issue_width < 2:
        return False
    memory = KINDS[first.kind] == "memory system" and KINDS[second.kind] == "memory system"
    control = first.kind in ("branch", "barrier", "exit") or second.kind in ("branch", "barrier")
    return not (memory or control or set(first.writes) & {*second.reads, *second.writes})


# Counts.


def _counted(workload: Workload, units: Units) -> tuple[list[Step], float]:
    """Return the steps of one iteration of an endless loop, and how many bodies they are."""
    counts = _of_a_body(workload)
    bodies = _bodies(counts, inf)
    if len(_chain(workload, counts)) == 1 and bodies == 1:
        bodies = 2  # so that an iteration has a node before its last
    _check_length(workload, counts, bodies)
    left = Counter({k: round(c * bodies) for k, c in counts.items()})
    if not left.total():
        raise WarplensError(f"{workload.name}: less than one instruction in {bodies} bodies: counts are too small")
    builder = _Builder(workload, units)
    builder.spell(_chain(workload, counts), left)
    return builder.steps, float(bodies)


def _spelled_out(workload: Workload, units: Units) -> tuple[list[Step], list[WarpPath]]:
    """Return the steps and the path of warps that execute so much of each class as counted: a loop, and the rest.

    Where counts are not whole an iteration is of many bodies; what whole iterations leave comes behind them.
    """
    counts, iterations = _of_a_body(workload), float(workload.iterations)
    _check_length(workload, counts, 1.0)
    bodies = _bodies(counts, iterations)
    times, totals = int(iterations / bodies + 1e-9), {k: round(c * iterations) for k, c in counts.items()}
    if not sum(totals.values()):
        raise WarplensError(f"{workload.name}: no instructions to simulate")
    iteration = {k: total // times for k, total in totals.items()} if times else {}
    rest = {k: total - times * iteration.get(k, 0) for k, total in totals.items()}
    builder, segments = _Builder(workload, units), list[tuple[list[tuple[int, int]], int]]()
    for many, often in ((iteration, times), (rest, 1)):
        left, first = Counter({k: n for k, n in many.items() if n}), len(builder.steps)
        if left:
            builder.spell(_chain(workload, {k: float(n) for k, n in left.items()}), left)
            segments.append(([(first, len(builder.steps))], often))
    return builder.steps, [WarpPath(segments)]


def _of_a_body(workload: Workload) -> dict[str, float]:
    counts = {k: float(c) / float(workload.iterations) for k, c in workload.executed().items() if float(c) > 0}
    if not counts:
        raise WarplensError(f"{workload.name}: no instructions to simulate")
    return counts


def _bodies(counts: dict[str, float], most: float) -> int:
    """Return of how many bodies an iteration is: as few as have whole counts, or as many as make a long one."""
    each = sum(counts.values())
    whole = (m for m in range(1, _MOST_BODIES + 1) if all(abs(c * m - round(c * m)) < 1e-6 for c in counts.values()))
    exact = next(whole, 0)
    if exact == 1 or 0 < exact * each <= _ITERATION:
        return exact
    return max(1, int(min(most, _ITERATION / each)))


def _check_length(workload: Workload, counts: dict[str, float], bodies: float) -> None:
    if sum(counts.values()) * bodies > _MOST_STEPS:
        raise WarplensError(f"{workload.name}: a body of {sum(counts.values()):.3g} instructions is too long")


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
        if max(counts[k] for k in order) > _MOST_RATIO * least:
            raise WarplensError(f"{workload.name}: a count of {least:.3g} is too small beside the others")
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
    """Steps one behind the other: nodes of the chain, instructions beside it, the end of an iteration.

    Slots 0 and 1 alternate as the value of the chain, slot 2 is what one iteration leaves to the next. The chain stays
    in one register bank, as a compiler that reuses registers leaves it; what is beside it goes to the other.
    """

    def __init__(self, workload: Workload, units: Units) -> None:
        self.workload, self.units = workload, units
        self.steps: list[Step] = []
        self.nodes: list[tuple[int, int, str]] = []  # first step, one behind the last, kind
        self.accesses = {k: [a for a in rows if float(a.count) > 0] for k, rows in by_class(workload).items()}
        self.emitted = {kind: [0] * len(rows) for kind, rows in self.accesses.items()}

    def spell(self, chain: list[str], left: Counter[str]) -> None:
        """Add so many instructions of each class: nodes along the chain, others in step with it, branches between.

        Branches end parts of equal length.
        """
        branches, done, self.nodes = left.pop("branch", 0), 0, []
        whole, kinds = dict(left), set(chain) & set(left)
        on_chain = sum(whole[k] for k in kinds)
        while left.total() > 0:
            before = left.total()
            for kind in chain:
                side = self.workload.mlp if KINDS[kind] == "memory system" else self.workload.ilp
                wide = min(left[kind], max(1, round(float(side))))  # side by side as far as its parallelism goes
                if wide:
                    self.nodes.append((len(self.steps), len(self.steps) + wide, kind))
                    self._add(kind, wide, (0, 1))
                    left[kind] -= wide
            # Instructions that are not on the chain, in step with it.
            share = 1 - sum(left[k] for k in kinds) / max(1, on_chain)
            for kind in [k for k in left if k not in kinds]:
                while left[kind] > 0 and (whole[kind] - left[kind]) < share * whole[kind]:
                    self._add(kind, 1, (1, 0))
                    left[kind] -= 1
            while done < branches - 1 and done + 1 <= share * branches:
                self._branch()
                done += 1
            if left.total() == before:
                raise WarplensError(f"{self.workload.name}: the chain of links does not use its instructions")
        self._join()
        for _ in range(branches - done):
            self._branch()

    def _join(self) -> None:
        """Make each node wait for the one before; in a steady state or a loop the first one for the last."""
        machine, chain = self.units.machine, [node for node in self.nodes if node[2] not in _NO_RESULT]
        slot = {node: 2 if node is chain[-1] else k % 2 for k, node in enumerate(chain)}
        before: tuple[int, int, str] | None = chain[-1] if chain else None
        for node in self.nodes:
            first, stop, kind = node
            waits: tuple[tuple[int, float], ...] = ()
            if before is not None:
                pair = machine.latency_cycles(before[2], kind if self.workload.links else before[2], model=_MODEL)
                waits = ((slot[before], pair - machine.latency_cycles(before[2], model=_MODEL)),)
            values = (slot[node],) if node in slot else ()
            for i in range(first, stop):
                self.steps[i] = replace(self.steps[i], waits=waits, values=values)
            before = node if node in slot else before

    def _branch(self) -> None:
        """End an iteration: the branch back."""
        taken = self.units.machine.sm.branch_taken_cycles or 0.0
        self.steps.append(replace(step("branch", "branch", self.units), branch=taken))

    def _add(self, kind: str, count: int, bank: tuple[int, int]) -> None:
        """Add instructions of a class that read one register of a bank.

        Where its accesses differ each is the one of which the smallest share has come so far.
        """
        rows = self.accesses.get(kind, [])
        for _ in range(count):
            chosen = rows
            if rows:
                emitted = self.emitted[kind]
                least = min(range(len(rows)), key=lambda i: ((emitted[i] + 1) / float(rows[i].count), i))
                emitted[least] += 1
                chosen = rows[least : least + 1]
            base, writes = step(kind, kind, self.units, chosen), bank[0] | bank[1] << 1
            if base.kind == at.FIXED:
                even, odd = ((1 << at.LANES_AT | k) * there for k, there in enumerate(bank))
                base = replace(base, operands=Operands(even, odd, result_cycles=float(at.MADE), writes=writes))
            elif base.kind in (at.QUEUED, at.LOAD):
                base = replace(base, operands=Operands(*bank, writes=writes))
            self.steps.append(base)


def step(kind: str, label: str, units: Units, accesses: Sequence[Access] = ()) -> Step:
    """Return one instruction of a class, without what it waits for; its accesses give transactions and hits in mean."""
    machine, base, plain = units.machine, units.unit(kind), _PLAIN.get(kind, kind)
    try:
        latency = machine.latency_cycles(kind, model=_MODEL)
        spread = latency - machine.latency_cycles(plain, model=_MODEL)
    except MissingField:
        if KINDS[kind] != "issue" and kind not in _NO_RESULT:
            raise
        latency, spread = machine.sm.issue_interval_cycles, 0.0
    passes, moved, through = base.passes, 0.0, _transactions
    if base.kind in (at.LOAD, at.STORE):
        passes = _mean(accesses, through, 1.0)
        moved = _mean(accesses, lambda a: float(a.transactions * a.transaction_bytes * (1 - a.hit_fraction)), 128.0)
    elif accesses:
        through = partial(_wavefronts, machine)
        passes = _mean(accesses, through, 1.0)
    # What the passes of each access through its pipe do not say already (Volkov §6.2, §6.7).
    interval = float(units.pipes[base.pipe].interval) if base.pipe >= 0 else 0.0

    def further(a: Access) -> float:
        return max(0.0, max(spread, float(extra_latency(a, machine))) - interval * (through(a) - 1))

    timing = machine.timing(kind)
    between = timing.ilp_latency_cycles or machine.sm.ilp_latency_cycles or machine.sm.issue_interval_cycles
    return replace(
        base, label=label, stall=between, latency=latency + (_mean(accesses, further, max(0.0, spread)) - spread),
        passes=passes, l2_bytes=moved, dram_bytes=moved, l2_cycles=moved / units.l2_rate,
        dram_cycles=moved / units.dram_rate,
    )  # fmt: skip


def _transactions(a: Access) -> float:
    return max(1.0, float(a.transactions))


def _wavefronts(machine: Machine, a: Access) -> float:
    return float(wavefronts(a, machine))


def of_width(kind: str, width: int, accesses: Sequence[Access] = ()) -> Sequence[Access]:
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
