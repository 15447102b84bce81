"""Find the best launch and macros of a kernel by prediction, with few configurations emulated.

1. Every configuration is compiled; what a block of it needs more than an SM has is illegal and never proposed.
2. A few are emulated that lie far apart. They say what work the kernel does.
3. All others are estimated from their machine code and the nearest emulated one (`warplens.sweep.estimate`), and the
   estimate is corrected by how far it was off on the emulated ones nearby.
4. The one with the lowest estimate is emulated and predicted, and so on, until so large a share of the space is
   emulated. One whose lower bound is above the best prediction is never emulated.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from functools import partial

from msgspec import Struct

from warplens.cache import Cache
from warplens.errors import WarplensError, nearest
from warplens.kernel.launch import KernelCall
from warplens.machine import Machine, occupancy
from warplens.models import MODELS, predict
from warplens.sweep.choose import Candidate, choose
from warplens.sweep.counting import Counted, compiled, count
from warplens.sweep.engines import Engine
from warplens.sweep.estimate import Estimate, essential, estimate
from warplens.sweep.expression import Value
from warplens.sweep.spec import Configuration, KernelSpace, Sweep

Watch = Callable[[str, int, int], None]  # what is being done, done, in all
_ALIKE = 1.005  # predictions that differ by less are the same
_NEARBY, _TRUST = 0.25, 0.25  # how far a correction reaches, of an axis's length; the weight of none at all
_SAME_WORK = 1.25  # the most that one candidate does over the least: more is not the same work
_SHARE, _FEW = 0.05, 5  # of the space to emulate where nothing is said; configurations, of a small one
_SEEDS = 0.34  # of the budget: configurations that lie far apart


class Tuned(Struct, frozen=True):
    """The answer: candidates, the best first (all emulated ones before the others), and what it took."""

    kernel: str
    gpu: str
    model: str
    configurations: int
    illegal: dict[str, int]
    emulated: int
    pruned: int
    candidates: list[Candidate]
    warnings: list[str] = []

    @property
    def best(self) -> Candidate:
        """The configuration to take."""
        return self.candidates[0]

    def measured(self, count: int, seconds: Callable[[Candidate], float]) -> list[tuple[Candidate, float]]:
        """Time so many candidates, each chosen by what the ones before it took; return them with their seconds."""
        return choose(self.candidates, count, seconds)

    @property
    def share(self) -> float:
        """Share of the legal configurations that were emulated."""
        return self.emulated / len(self.candidates)


def tune(
    sweep: Sweep,
    machine: Machine,
    *,
    model: str = "warplens",
    share: float | None = None,
    cache: Cache | None = None,
    engine: Engine | None = None,
    watch: Watch | None = None,
) -> Tuned:
    """Search the space of a sweep file with one kernel; at most this share of it, and at least one, is emulated.

    Where nothing is said it is a twentieth, and of small spaces five: one alone says nothing of the others.

    With a cache on disk, an `engine` compiles by several workers.
    """
    if len(sweep.kernels) != 1:
        raise WarplensError(f"{sweep.file}: tune takes one kernel, and there are {len(sweep.kernels)}")
    if share is not None and not 0 < share <= 1:
        raise WarplensError(f"the share to be emulated lies between 0 and 1, not at {share:g}")
    if model not in MODELS:
        raise WarplensError(f"unknown model {model!r}{nearest(model, MODELS) or '; `warplens models` lists them'}")
    search = _Search(sweep.kernels[0], machine, model, cache or Cache(None), watch or (lambda what, done, total: None))
    configurations = list(sweep.configurations())
    if engine is not None and search.cache.folder is not None:
        search.compile(configurations, engine)
    search.take(configurations)
    if not search.legal:
        reason = next(iter(search.illegal), "`where` leaves none")
        raise WarplensError(f"{sweep.file}: no configuration is legal: {reason}")
    search.run(budget(len(search.legal), share))
    if not search.predicted:
        raise WarplensError(f"{sweep.file}: no configuration can be predicted: {list(search.illegal)[-1]}")
    return search.answer()


def budget(legal: int, share: float | None) -> int:
    """How many of so many legal configurations are emulated at most."""
    return max(_FEW if share is None else 1, math.floor((share or _SHARE) * legal))


class _Search:
    def __init__(self, space: KernelSpace, machine: Machine, model: str, cache: Cache, watch: Watch) -> None:
        self.space, self.machine, self.model, self.cache, self.watch = space, machine, model, cache, watch
        self.legal: dict[int, Configuration] = {}
        self.illegal: dict[str, int] = {}
        self.counted: dict[int, Counted] = {}
        self.predicted: dict[int, tuple[float, str]] = {}
        self.pressure: dict[int, float] = {}  # all limits together, in units of the one that binds
        self.estimated: dict[tuple[int, int], Estimate] = {}
        self.pruned = 0
        self.least_dram_seconds = math.inf  # of all emulated ones: what the data take at least

    def compile(self, configurations: Iterable[object], engine: Engine) -> None:
        """Have workers compile what the cache does not have, each source with its macros once."""
        calls = {tuple(c.call.defines): c.call for c in configurations if isinstance(c, Configuration)}
        work = partial(_compile, machine=self.machine, cache=str(self.cache.folder))
        executor = engine.start()
        try:
            for done, _ in enumerate(executor.map(work, calls.values()), start=1):
                self.watch("compiling", done, len(calls))
        finally:
            executor.shutdown(cancel_futures=True)

    def take(self, configurations: Iterable[object]) -> None:
        """Compile all configurations and keep those that can be launched."""
        for made in configurations:
            try:
                if not isinstance(made, Configuration):
                    raise WarplensError(str(getattr(made, "error", made)))
                self._check(made)
                self.legal[made.number] = made
            except WarplensError as error:
                self.illegal[str(error)] = self.illegal.get(str(error), 0) + 1
            self.watch("checking", len(self.legal) + sum(self.illegal.values()), self.space.size)

    def _check(self, c: Configuration) -> None:
        """Refuse a configuration that the machine cannot launch, or that the compiler was told otherwise."""
        uses, call = compiled(c.call, self.machine, self.cache)[1].resources, c.call
        if uses.threads_max is not None and call.threads_per_block > uses.threads_max:
            raise WarplensError("more threads per block than the kernel's launch bounds")
        if uses.threads_required is not None and call.block_shape != tuple(uses.threads_required):
            raise WarplensError("another block than the kernel requires")
        occupancy(
            self.machine,
            threads_per_block=call.threads_per_block,
            registers_per_thread=uses.registers,
            shared_bytes_per_block=uses.static_shared_bytes + call.dynamic_shared_bytes,
            barriers_per_block=uses.barriers,
        )

    def run(self, budget: int) -> None:
        """Emulate as many as the budget allows: some far apart, then what looks best."""
        for _ in range(max(budget, _FEW)):  # of a small budget some may fail
            done = len(self.predicted)
            if done == budget:
                return
            self.watch("emulating", done, budget)
            chosen = self._farthest() if done < max(1, round(_SEEDS * budget)) else self._most_promising()
            if chosen is None:
                return
            self._emulate(chosen)

    def _emulate(self, number: int) -> None:
        call = self.legal[number].call
        try:
            made = count(call, self.machine, self.cache)
            p = predict(made.workload, self.machine, self.model)
            if p.seconds is None:
                raise WarplensError(f"{self.model} gives no time")
        except WarplensError as error:
            del self.legal[number]
            self.illegal[str(error)] = self.illegal.get(str(error), 0) + 1
            return
        self.counted[number] = made
        self.predicted[number] = float(p.seconds), str(p.bound)
        limits = [float(x) for x in p.limits.values()]
        dram = float(p.limits.get("dram bandwidth", 0.0)) / self.machine.chip.clock_hz
        self.least_dram_seconds = min(self.least_dram_seconds, dram)
        self.pressure[number] = sum(limits) / max(limits, default=1.0)

    def _farthest(self) -> int | None:
        """The configuration that is farthest from all emulated ones; the first: nearest to the middle."""
        rest = [n for n in self.legal if n not in self.predicted]
        if not rest:
            return None
        if not self.predicted:
            return min(rest, key=lambda n: math.dist(self._place(n), [0.5] * len(self.space.axes)))
        return max(rest, key=lambda n: min(self._distance(n, m) for m in self.predicted))

    def _most_promising(self) -> int | None:
        """The configuration with the lowest estimate, of those whose bound is not above the best prediction."""
        best = min(seconds for seconds, _ in self.predicted.values())
        rest = {n: self._estimate(n) for n in self.legal if n not in self.predicted}
        hopeful = {n: seconds for n, (seconds, bound) in rest.items() if bound < best}
        self.pruned = len(rest) - len(hopeful)
        return min(hopeful, key=lambda n: hopeful[n]) if hopeful else None

    def _estimate(self, number: int) -> tuple[float, float]:
        """Return the corrected estimate and the bound of a configuration."""
        nearest = min(self.counted, key=lambda m: self._distance(number, m))
        made = self._raw(number, nearest)
        weights = {m: math.exp(-((self._distance(number, m) / _NEARBY) ** 2)) for m in self.counted}
        off = sum(w * math.log(self.predicted[m][0] / self._of_itself(m)) for m, w in weights.items())
        return made.seconds * math.exp(off / (_TRUST + sum(weights.values()))), max(
            made.issue_seconds, self.least_dram_seconds
        )

    def _raw(self, number: int, neighbour: int) -> Estimate:
        key = number, neighbour
        if key not in self.estimated:
            call = self.legal[number].call
            program = compiled(call, self.machine, self.cache)[1]
            self.estimated[key] = estimate(program, call, self.machine, self.counted[neighbour])
        return self.estimated[key]

    def _of_itself(self, number: int) -> float:
        """What the estimate says of an emulated configuration from its own counts."""
        return self._raw(number, number).seconds

    def _place(self, number: int) -> list[float]:
        """Where a configuration lies: on each axis between 0 and 1."""
        values = self.space.values(number)
        return [axis.index(values[name]) / max(1, len(axis) - 1) for name, axis in self.space.axes.items()]

    def _distance(self, one: int, other: int) -> float:
        return math.dist(self._place(one), self._place(other))

    def answer(self) -> Tuned:
        """Put all candidates in order: emulated ones first; those as good as the best by what else they need."""
        made = []
        for number, c in self.legal.items():
            seconds, bound = self.predicted.get(number) or (self._estimate(number)[0], "")
            emulated = number in self.predicted
            shape = c.call.grid_shape, c.call.block_shape
            made.append(Candidate(number, c.values, *shape, seconds, emulated, bound, tuple(self._place(number))))
        made.sort(key=lambda c: (not c.emulated, c.seconds))
        alike = [c for c in made if c.emulated and c.seconds <= _ALIKE * made[0].seconds]
        made[: len(alike)] = sorted(alike, key=lambda c: self.pressure[c.number])
        kernel = next(iter(self.legal.values())).kernel
        return Tuned(
            kernel, self.machine.id, self.model, len(made) + sum(self.illegal.values()), self.illegal,
            len(self.predicted), self.pruned, made, self._warnings(),
        )  # fmt: skip

    def _warnings(self) -> list[str]:
        """Say where the emulated candidates do not do the same work: their times do not compare."""
        done, said = {number: essential(counted) for number, counted in self.counted.items()}, []
        for what in ("floating-point operations", "bytes of its arrays"):
            least, most = (choose(done, key=lambda n: done[n][what]) for choose in (min, max))
            if done[most][what] > _SAME_WORK * done[least][what]:
                one, other = (_values(self.legal[n].values) for n in (most, least))
                said.append(
                    f"candidates do not do the same work: {what}: {done[most][what]:.3g} with {one}, "
                    f"{done[least][what]:.3g} with {other}; does `set` give every one a grid that covers the problem?"
                )
        return said


def _values(values: dict[str, Value]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _compile(call: KernelCall, machine: Machine, cache: str) -> None:
    """What a worker does: put a program into the cache; what fails says so later."""
    with contextlib.suppress(WarplensError):
        compiled(call, machine, Cache(cache))
