"""Search for the best launch and macros of a kernel by prediction, with few configurations emulated.

1. Every configuration is compiled; one whose block needs more than an SM has is illegal and never proposed.
2. A few distant ones are emulated. They tell the work of the kernel.
3. All others are estimated from their machine code and the nearest emulated one (`warplens.tuner.estimate`). Emulated
   ones are estimated from the others too: their errors correct all estimates, and give their uncertainty.
4. The one with the greatest expected gain over the best prediction is emulated and predicted, and so on, until so large
   a share of the space is emulated. One whose lower bound is above the best prediction is never emulated.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np
from msgspec import Struct

from warplens.core.cache import Cache
from warplens.core.errors import WarplensError, nearest
from warplens.machine import Machine, occupancy
from warplens.models import MODELS, predict
from warplens.tuner.estimate import Estimate, Key, essential, estimate, shape, work_per_block
from warplens.tuner.expression import Value
from warplens.tuner.points import Counted, compiled, count
from warplens.tuner.run import Engine
from warplens.tuner.spec import Configuration, KernelSpace, Sweep, WrongPoint
from warplens.tuner.timing import Candidate, Floats, expected_gain, failures, nearness, positions, posterior
from warplens.workload.counted import texts
from warplens.workload.launch import KernelCall

Watch = Callable[[str, int, int], None]  # the stage, configurations done, in all
_DOUBT = 0.1  # the error of estimates before one is known
_NORMAL = 1.4826  # the standard deviation of normal errors over their median size
_SAME_WORK = 1.25  # the most work of a candidate over the least: more is not the same work
_SHARE, _FEW = 0.05, 5  # of the space to emulate by default; configurations, of a small one
AS_FAST = 1.005  # time over the least, of a configuration that need not be changed
_SEEDS = 0.34  # of the budget: distant configurations


class Tuned(Struct, frozen=True):
    """The answer: candidates, the fastest first (all emulated ones before the others), and the effort."""

    kernel: str
    machine: str
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

    def as_fast(self, times: Mapping[int, float] | None = None) -> list[Candidate]:
        """Return the emulated candidates, or those with measured `times`, within 0.5 % of the best."""
        seconds = times or {c.number: c.seconds for c in self.candidates if c.emulated}
        return [c for c in self.candidates if seconds.get(c.number, math.inf) <= AS_FAST * min(seconds.values())]

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

    By default it is a twentieth, and of small spaces five: one alone tells nothing about the others. With a cache on
    disk, an `engine` compiles by several workers.
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
    """Return the most configurations that are emulated of so many legal ones."""
    return max(_FEW if share is None else 1, math.floor((share or _SHARE) * legal))


class _Expected(Struct, frozen=True):
    """The expected prediction of a configuration that was not emulated."""

    seconds: float
    doubt: float  # standard deviation of the logarithm of `seconds`
    issue_seconds: float
    bound: str


class _Search:
    """The state of one search: legal, emulated and estimated configurations."""

    def __init__(self, space: KernelSpace, machine: Machine, model: str, cache: Cache, watch: Watch) -> None:
        self.space, self.machine, self.model, self.cache, self.watch = space, machine, model, cache, watch
        self.legal: dict[int, Configuration] = {}
        self.illegal: dict[str, int] = {}
        self.counted: dict[int, Counted] = {}
        self.predicted: dict[int, tuple[float, str]] = {}
        self.estimated: dict[tuple[int, int], Estimate] = {}
        self.code: dict[int, int] = {}  # a hash of the instructions' names
        self.positions: dict[int, tuple[float, ...]] = {}
        self.per_block = frozenset[Key]()  # the work that each block does by itself
        self.pruned = 0
        self.least_dram_seconds = math.inf  # of all emulated ones

    def compile(self, configurations: Iterable[Configuration | WrongPoint], engine: Engine) -> None:
        """Compile by workers each source with its macros once, unless the cache has it."""
        calls = {tuple(c.call.defines): c.call for c in configurations if isinstance(c, Configuration)}
        work = partial(_compile, machine=self.machine, cache=str(self.cache.folder))
        executor = engine.start()
        try:
            for done, _ in enumerate(executor.map(work, calls.values()), start=1):
                self.watch("compiling", done, len(calls))
        finally:
            executor.shutdown(cancel_futures=True)

    def take(self, configurations: Iterable[Configuration | WrongPoint]) -> None:
        """Compile all configurations and keep those that can be launched."""
        for c in configurations:
            try:
                if isinstance(c, WrongPoint):
                    raise WarplensError(c.error)
                self._check(c)
                self.legal[c.number] = c
            except WarplensError as error:
                self.illegal[str(error)] = self.illegal.get(str(error), 0) + 1
            self.watch("checking", len(self.legal) + sum(self.illegal.values()), self.space.size)

    def _check(self, c: Configuration) -> None:
        """Refuse a configuration that the machine cannot launch, or that contradicts the kernel's launch bounds."""
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
        """Emulate as many as the budget allows: some distant ones, then the most promising."""
        for _ in range(max(budget, _FEW)):  # of a small budget some may fail
            done = len(self.predicted)
            if done == budget:
                return
            self.watch("emulating", done, budget)
            if done < (seeds := max(1, round(_SEEDS * budget))):
                chosen = self._farthest()
            else:
                self.per_block = self.per_block if done > seeds else work_per_block(list(self.counted.values()))
                chosen = self._most_promising()
            if chosen is None:
                return
            self._emulate(chosen)

    def _emulate(self, number: int) -> None:
        call = self.legal[number].call
        try:
            counted = count(call, self.machine, self.cache)
            p = predict(counted.workload, self.machine, self.model)
            if p.seconds is None:
                raise WarplensError(f"{self.model} gives no time")
        except WarplensError as error:
            del self.legal[number]
            self.illegal[str(error)] = self.illegal.get(str(error), 0) + 1
            return
        self.counted[number] = counted
        self.predicted[number] = float(p.seconds), str(p.bound)
        dram = float(p.limits.get("dram bandwidth", 0.0)) / self.machine.chip.clock_hz
        self.least_dram_seconds = min(self.least_dram_seconds, dram)

    def _farthest(self) -> int | None:
        """Return the configuration that is farthest from all emulated ones; the first is nearest to the middle."""
        rest = [n for n in self.legal if n not in self.predicted]
        if not rest:
            return None
        if not self.predicted:
            return min(rest, key=lambda n: math.dist(self._position(n), [0.5] * len(self.space.axes)))
        return max(rest, key=lambda n: min(self._distance(n, m) for m in self.predicted))

    def _most_promising(self) -> int | None:
        """Return the configuration with the greatest expected gain, of those whose bound is not above the best."""
        best = min(seconds for seconds, _ in self.predicted.values())
        rest = self._estimates()
        hopeful = [n for n, e in rest.items() if e.issue_seconds < best > self.least_dram_seconds]
        self.pruned = len(rest) - len(hopeful)
        if not hopeful:
            return None
        gain = math.log(best) - np.log([rest[n].seconds for n in hopeful])
        return hopeful[int(expected_gain(gain, np.array([rest[n].doubt for n in hopeful])).argmax())]

    def _estimates(self) -> dict[int, _Expected]:
        """Return the expected predictions of all that was not emulated, corrected by the errors of the emulated ones.

        Each emulated one is estimated from the others as if it were not. A third of the variance of these errors is
        assumed to be shared by all, a third by neighbours, a third is each one's own. It differs between estimates from
        the same code and from other code.
        """
        numbers = list(self.legal)
        near = {n: self._neighbour(n) for n in numbers}
        raw = {n: self._raw(n, m) for n, m in near.items() if m is not None}
        known = [i for i, n in enumerate(numbers) if n in self.predicted and n in raw]
        off = np.array([math.log(self.predicted[numbers[i]][0] / raw[numbers[i]].seconds) for i in known])
        same_code = np.array([m is not None and self.code[n] == self.code[m] for n, m in near.items()])
        root = np.sqrt([1.0 if m is None else self._distance(n, m) for n, m in near.items()])
        by_code = (_size((off / root[known])[same_code[known] == kind]) for kind in (True, False))
        sizes = root * np.where(same_code, *by_code)
        shared = (1 + nearness(positions(self._position(n) for n in numbers), known)) / 3
        shared[np.arange(len(known)), known] = 1.0
        covariances = np.outer(sizes[known], sizes) * shared
        mean, deviation = posterior(covariances, known, sizes**2, off, failures(off, sizes[known]))
        rest = [(i, n) for i, n in enumerate(numbers) if n not in self.predicted]
        return {
            n: _Expected(raw[n].seconds * math.exp(mean[i]), float(deviation[i]), raw[n].issue_seconds, raw[n].bound)
            for i, n in rest
        }

    def _neighbour(self, number: int) -> int | None:
        """Return the nearest other emulated configuration, with the same code if there is one."""

        def distance(m: int) -> tuple[bool, float]:
            return self.code[number] != self.code[m], self._distance(number, m)

        return min((m for m in self.counted if m != number), key=distance, default=None)

    def _raw(self, number: int, neighbour: int) -> Estimate:
        key = number, neighbour
        if key not in self.estimated:
            call = self.legal[number].call
            program = compiled(call, self.machine, self.cache)[1]
            self.estimated[key] = estimate(program, call, self.machine, self.counted[neighbour], self.per_block)
        return self.estimated[key]

    def _position(self, number: int) -> tuple[float, ...]:
        """Return the position of a configuration: from 0 to 1 on each axis."""
        if number not in self.positions:
            values, axes = self.space.values(number), self.space.axes.items()
            self.positions[number] = tuple(axis.index(values[name]) / max(1, len(axis) - 1) for name, axis in axes)
        return self.positions[number]

    def _distance(self, one: int, other: int) -> float:
        return math.dist(self._position(one), self._position(other))

    def answer(self) -> Tuned:
        """Return all candidates by their seconds, emulated ones first."""
        candidates = []
        rest = self._estimates()
        for number, c in self.legal.items():
            emulated = number in self.predicted
            seconds, bound = self.predicted[number] if emulated else (rest[number].seconds, rest[number].bound)
            position, doubt = self._position(number), 0.0 if emulated else rest[number].doubt
            shape = c.call.grid_shape, c.call.block_shape
            candidates.append(Candidate(number, c.values, *shape, seconds, emulated, bound, position, doubt))
        candidates.sort(key=lambda c: (not c.emulated, c.seconds))
        kernel = next(iter(self.legal.values())).kernel
        notes = list(dict.fromkeys(text for c in self.counted.values() for text in texts(c.workload.unmodelled)))
        return Tuned(
            kernel, self.machine.id, self.model, len(candidates) + sum(self.illegal.values()), self.illegal,
            len(self.predicted), self.pruned, candidates, self._warnings(), notes,
        )  # fmt: skip

    def _warnings(self) -> list[str]:
        """Return warnings on emulated candidates with different work, whose times do not compare."""
        done, warnings = {number: essential(counted) for number, counted in self.counted.items()}, []
        for what in ("floating-point operations", "bytes of its arrays"):
            least, most = (choose(done, key=lambda n: done[n][what]) for choose in (min, max))
            if done[most][what] > _SAME_WORK * done[least][what]:
                one, other = (_values(self.legal[n].values) for n in (most, least))
                warnings.append(
                    f"candidates do not do the same work: {what}: {done[most][what]:.3g} with {one}, "
                    f"{done[least][what]:.3g} with {other}; does `set` give every one a grid that covers the problem?"
                )
        return warnings


def _size(off: Floats) -> float:
    """Return the standard deviation of estimates from some errors and the first guess, which counts as one.

    It is from the median: a few estimates fail, most often because they miss the longest part.
    """
    return _NORMAL * float(np.median([_DOUBT / _NORMAL, *np.abs(off)]))


def _values(values: dict[str, Value]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _compile(call: KernelCall, machine: Machine, cache: str) -> None:
    """Put a program into the cache, in a worker; its errors come again later."""
    with contextlib.suppress(WarplensError):
        compiled(call, machine, Cache(cache))
