"""Find the best launch and macros of a kernel by prediction, with few configurations emulated.

1. Every configuration is compiled; what a block of it needs more than an SM has is illegal and never proposed.
2. A few are emulated that lie far apart. They say what work the kernel does.
3. All others are estimated from their machine code and the nearest emulated one (`warplens.tuner.estimate`). Emulated
   ones are estimated from the others too: what that is off by corrects all estimates, and says how sure they are.
4. The one with the greatest expected gain over the best prediction is emulated and predicted, and so on, until so large
   a share of the space is emulated. One whose lower bound is above the best prediction is never emulated.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.core.cache import Cache
from warplens.core.errors import WarplensError, nearest
from warplens.machine import Machine, occupancy
from warplens.models import MODELS, predict
from warplens.tuner.choose import Candidate, Floats, by_itself, choose, expected_gain, nearness, places, told
from warplens.tuner.counting import Counted, compiled, count
from warplens.tuner.engines import Engine
from warplens.tuner.estimate import Estimate, Key, done_anew, essential, estimate, shape
from warplens.tuner.expression import Value
from warplens.tuner.spec import Configuration, KernelSpace, Sweep
from warplens.workload.launch import KernelCall
from warplens.workload.unmodelled import texts

Watch = Callable[[str, int, int], None]  # what is being done, done, in all
_ALIKE = 1.005  # predictions that differ by less are the same
_DOUBT = 0.1  # by what estimates are off before one is known
_NORMAL = 1.4826  # the standard deviation of normal errors over their median size
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
    notes: list[str] = []  # what of the emulated ones is not modelled

    @property
    def best(self) -> Candidate:
        """The configuration to take."""
        return self.candidates[0]

    def measured(self, count: int, seconds: Callable[[Candidate], float]) -> list[tuple[Candidate, float]]:
        """Time so many candidates, each chosen by what the ones before it took; return them with their seconds."""
        return choose(self.candidates, count, seconds)

    def by_time(self) -> Tuned:
        """Return the same with the fastest first, as a table shows them, whatever is as good within half a percent."""
        return replace(self, candidates=sorted(self.candidates, key=lambda c: (not c.emulated, c.seconds)))

    def as_fast(self) -> list[Candidate]:
        """Return the emulated candidates whose predictions differ too little from the fastest one's to choose by."""
        emulated = [c for c in self.candidates if c.emulated]
        return [c for c in emulated if c.seconds <= _ALIKE * min(c.seconds for c in emulated)]

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


class _Expected(Struct, frozen=True):
    """Of a configuration that was not emulated: what would be predicted, and by what that may be off (logarithm)."""

    seconds: float
    doubt: float
    issue_seconds: float
    bound: str


class _Search:
    def __init__(self, space: KernelSpace, machine: Machine, model: str, cache: Cache, watch: Watch) -> None:
        self.space, self.machine, self.model, self.cache, self.watch = space, machine, model, cache, watch
        self.legal: dict[int, Configuration] = {}
        self.illegal: dict[str, int] = {}
        self.counted: dict[int, Counted] = {}
        self.predicted: dict[int, tuple[float, str]] = {}
        self.pressure: dict[int, float] = {}  # all limits together, in units of the one that binds
        self.estimated: dict[tuple[int, int], Estimate] = {}
        self.code: dict[int, int] = {}  # the same for the same code
        self.places: dict[int, tuple[float, ...]] = {}
        self.anew = frozenset[Key]()  # the work that each block does by itself
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
        program, call = compiled(c.call, self.machine, self.cache)[1], c.call
        uses = program.resources
        self.code[c.number] = hash(shape(program))
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
            if done < (seeds := max(1, round(_SEEDS * budget))):
                chosen = self._farthest()
            else:
                self.anew = self.anew if done > seeds else done_anew(list(self.counted.values()))
                chosen = self._most_promising()
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
        """Where the greatest gain over the best prediction is to be expected, of those whose bound is not above it."""
        best = min(seconds for seconds, _ in self.predicted.values())
        rest = self._estimates()
        hopeful = [n for n, made in rest.items() if made.issue_seconds < best > self.least_dram_seconds]
        self.pruned = len(rest) - len(hopeful)
        if not hopeful:
            return None
        gain = math.log(best) - np.log([rest[n].seconds for n in hopeful])
        return hopeful[int(expected_gain(gain, np.array([rest[n].doubt for n in hopeful])).argmax())]

    def _estimates(self) -> dict[int, _Expected]:
        """What is to be expected of all that was not emulated, by what the estimates of the emulated ones were off by.

        Each emulated one is estimated from the others as if it were not. Of the variance of what estimates are off by,
        a third is taken as shared by all, a third as shared by neighbours, and a third as each one's own; it is another
        one where the neighbour has the same code and where it has other code.
        """
        numbers = list(self.legal)
        near = {n: self._neighbour(n) for n in numbers}
        raw = {n: self._raw(n, m) for n, m in near.items() if m is not None}
        known = [i for i, n in enumerate(numbers) if n in self.predicted and n in raw]
        off = np.array([math.log(self.predicted[numbers[i]][0] / raw[numbers[i]].seconds) for i in known])
        alike = np.array([m is not None and self.code[n] == self.code[m] for n, m in near.items()])
        root = np.sqrt([1.0 if m is None else self._distance(n, m) for n, m in near.items()])
        sizes = root * np.where(alike, *(_size((off / root[known])[alike[known] == kind]) for kind in (True, False)))
        shared = (1 + nearness(places(self._place(n) for n in numbers), known)) / 3
        shared[np.arange(len(known)), known] = 1.0
        mean, deviation = told(
            np.outer(sizes[known], sizes) * shared, known, sizes**2, off, by_itself(off, sizes[known])
        )
        rest = [(i, n) for i, n in enumerate(numbers) if n not in self.predicted]
        return {
            n: _Expected(raw[n].seconds * math.exp(mean[i]), float(deviation[i]), raw[n].issue_seconds, raw[n].bound)
            for i, n in rest
        }

    def _neighbour(self, number: int) -> int | None:
        """The nearest other one that was emulated, of those with the same code if there are some."""
        others = [m for m in self.counted if m != number]
        return min(
            others, key=lambda m: (self.code[number] != self.code[m], self._distance(number, m)), default=None
        )  # fmt: skip

    def _raw(self, number: int, neighbour: int) -> Estimate:
        key = number, neighbour
        if key not in self.estimated:
            call = self.legal[number].call
            program = compiled(call, self.machine, self.cache)[1]
            self.estimated[key] = estimate(program, call, self.machine, self.counted[neighbour], self.anew)
        return self.estimated[key]

    def _place(self, number: int) -> tuple[float, ...]:
        """Where a configuration lies: on each axis between 0 and 1."""
        if number not in self.places:
            values, axes = self.space.values(number), self.space.axes.items()
            self.places[number] = tuple(axis.index(values[name]) / max(1, len(axis) - 1) for name, axis in axes)
        return self.places[number]

    def _distance(self, one: int, other: int) -> float:
        return math.dist(self._place(one), self._place(other))

    def answer(self) -> Tuned:
        """Put all candidates in order: emulated ones first; those as good as the best by what else they need."""
        made = []
        rest = self._estimates()
        for number, c in self.legal.items():
            emulated = number in self.predicted
            seconds, bound = self.predicted[number] if emulated else (rest[number].seconds, rest[number].bound)
            place, doubt = self._place(number), 0.0 if emulated else rest[number].doubt
            shape = c.call.grid_shape, c.call.block_shape
            made.append(Candidate(number, c.values, *shape, seconds, emulated, bound, place, doubt))
        made.sort(key=lambda c: (not c.emulated, c.seconds))
        alike = [c for c in made if c.emulated and c.seconds <= _ALIKE * made[0].seconds]  # as_fast()
        made[: len(alike)] = sorted(alike, key=lambda c: self.pressure[c.number])
        kernel = next(iter(self.legal.values())).kernel
        return Tuned(
            kernel, self.machine.id, self.model, len(made) + sum(self.illegal.values()), self.illegal,
            len(self.predicted), self.pruned, made, self._warnings(), self._notes(),
        )  # fmt: skip

    def _notes(self) -> list[str]:
        """Return what of the emulated candidates is not modelled."""
        return list(dict.fromkeys(text for c in self.counted.values() for text in texts(c.workload.unmodelled)))

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


def _size(off: Floats) -> float:
    """By what estimates are off, from what some were: without any, the first guess, which counts as one.

    It is from the median: a few estimates fail, most often because they miss what takes long.
    """
    return _NORMAL * float(np.median([_DOUBT / _NORMAL, *np.abs(off)]))


def _values(values: dict[str, Value]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _compile(call: KernelCall, machine: Machine, cache: str) -> None:
    """What a worker does: put a program into the cache; what fails says so later."""
    with contextlib.suppress(WarplensError):
        compiled(call, machine, Cache(cache))
