"""The launches of an index on the GPU: outputs, event times, or runs for a profiler. A launch that fails is a result.

What a launch writes to is put back before every run. L2 is cleared by reading, so that nothing has to be written back.
"""

from __future__ import annotations

import fnmatch
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from warplens.core.driver import DriverError
from warplens.core.errors import WarplensError
from warplens.papers.validation.suite.build import ROOT
from warplens.papers.validation.suite.gpu import Arrays, Device, Launch, scalar, size_of
from warplens.workload.contents import contents
from warplens.workload.launch import load_launch

_FLUSH_BYTES = 1 << 28  # read to clear the L2 cache, which has 50 MB
Entry = dict[str, Any]
KINDS = ("small", "time", "durations", "once")


class Plan(Struct, frozen=True):
    """An index of launches, and which of them run how."""

    index: Path
    kind: str  # one of KINDS
    only: list[str] = []
    repetitions: int = 20

    def entries(self) -> list[Entry]:
        """Return the launches that were asked for."""
        every, patterns = json.loads(self.index.read_text())["launches"], self.only or ["*"]
        found = [
            e
            for e in every
            if e["small"] == (self.kind == "small")
            and any(fnmatch.fnmatch(e[key], p) for key in ("name", "launch") for p in patterns)
        ]
        if not found:
            raise WarplensError(f"{self.index}: no launch is called {', '.join(patterns)}; see the names in it")
        return found


class Session:
    """One GPU and a plan."""

    def __init__(self, plan: Plan) -> None:
        """Take the GPU."""
        self.plan, self.folder, self.device = plan, plan.index.parent, Device()
        self._arrays = Arrays(self.device)
        self._every = json.loads(plan.index.read_text())["launches"]
        self._clearing: Launch | None = None
        self.outputs = dict[str, np.ndarray[Any, Any]]()

    def run(self) -> dict[str, Any]:
        """Run each launch of the plan; an error is its result."""
        works: dict[str, Callable[[Entry, Launch], dict[str, Any]]] = {
            "small": self._small, "time": self._time, "durations": self._durations, "once": self._once,
        }  # fmt: skip
        work, entries, found = works[self.plan.kind], self.plan.entries(), dict[str, Any]()
        for i, entry in enumerate(entries):
            name, start = entry["name"], time.monotonic()
            try:
                launch = self._launch(entry)
                found[name] = work(entry, launch)
                launch.free()
                self._arrays.trim()
            except Exception as error:  # whatever one launch does wrong must not cost the others
                found[name] = {"error": f"{type(error).__name__}: {error}"}
                self._recover()
            line = f"{i + 1}/{len(entries)} {name} {time.monotonic() - start:.2f} s {found[name].get('error', '')}"
            print(line, file=sys.stderr, flush=True)
        return found

    def _launch(self, entry: Entry, arrays: Arrays | None = None) -> Launch:
        call = load_launch(ROOT / entry["launch"], entry["variant"])
        return Launch(self.device, arrays or self._arrays, entry, call, self.folder)

    def _recover(self) -> None:
        """Go on with the context if it still works, else with a new one."""
        try:
            self.device.gpu.wait()
        except DriverError:
            self.device.reset()
            self._arrays, self._clearing = Arrays(self.device), None

    def _small(self, entry: Entry, launch: Launch) -> dict[str, Any]:
        """Keep the outputs; run twice to see that they are the same."""
        runs = []
        for _ in range(2):
            launch.restore()
            launch.run()
            self.device.gpu.wait()
            runs.append(launch.results())
        first, second = runs
        self.outputs |= {f"{entry['name']}/{key}": value for key, value in first.items()}
        same = all(first[key].tobytes() == second[key].tobytes() for key in first)
        return {} if same else {"error": "two runs differ"}

    def _once(self, entry: Entry, launch: Launch) -> dict[str, Any]:
        launch.run()
        self.device.gpu.wait()
        return {}

    def _durations(self, entry: Entry, launch: Launch) -> dict[str, Any]:
        """Run for a profiler that is told which launches to time: with a warm L2, then with a cleared one."""
        gpu, repetitions = self.device.gpu, self.plan.repetitions
        for cold in [False] * repetitions + [True] * -(-repetitions // 2):
            self._before(launch)
            if cold:
                self._clear_l2()
            gpu.wait()
            gpu.driver.call("cuProfilerStart")
            launch.run()
            gpu.wait()
            gpu.driver.call("cuProfilerStop")
        return {"warm": repetitions, "cold": -(-repetitions // 2)}

    def _time(self, entry: Entry, launch: Launch) -> dict[str, Any]:
        """Time with what the run before left in L2, twice in a row, and with L2 cleared."""
        second = self._launch(entry) if launch.overwrites_its_input else launch
        samples: dict[str, list[float]] = {"warm": [], "pair": [], "cold": []}
        for repetition in range(self.plan.repetitions + 1):  # the first warms up
            for kind, times in samples.items():
                self._before(launch, second)
                if kind == "cold":
                    self._clear_l2()
                microseconds = self.device.timed(*(launch, second)[: 1 + (kind == "pair")])
                if repetition:
                    times.append(microseconds)
        clocks = self.device.clocks_mhz()
        if second is not launch:
            second.free()
        median = {f"{kind}_us": round(statistics.median(values), 3) for kind, values in samples.items()}
        return {**median, "second_us": round(median["pair_us"] - median["warm_us"], 3), "clocks_mhz": clocks,
                "samples_us": samples}  # fmt: skip

    def _before(self, *launches: Launch) -> None:
        """Put back what a kernel changes that reads it too; run any other once, so that L2 has its arrays."""
        if not launches[0].overwrites_its_input:
            launches[0].run()
            return
        for launch in dict.fromkeys(launches):
            launch.restore()

    def _clear_l2(self) -> None:
        """Read more than L2 holds: a sum leaves no line that has to be written back."""
        if self._clearing is None:
            entry = next(e for e in self._every if e["name"] == "reduction_k6")
            self._clearing = self._launch(entry, Arrays(self.device))
            if self._clearing.array_bytes < _FLUSH_BYTES:
                raise WarplensError("reduction_k6 reads too little to clear the L2 cache; give it 256 MiB")
        self._clearing.run()


def dry_run(plan: Plan) -> str:
    """Print each launch of a plan, and compute the beginning of every array; needs no GPU."""
    folder, arrays = plan.index.parent, dict[tuple[object, ...], int]()
    entries = plan.entries()
    for entry in entries:
        call = load_launch(ROOT / entry["launch"], entry["variant"])
        if not (folder / entry["cubin"]).is_file():
            raise WarplensError(f"{folder / entry['cubin']} is missing; build the launches again")
        total = 0
        for seed, argument in enumerate(call.arguments):
            if not argument.is_pointer:
                scalar(argument)
                continue
            contents(argument, seed, call.folder)(np.arange(min(argument.count or 0, 1000), dtype=np.int64))
            arrays[argument.element, argument.count, argument.fill, seed] = size_of(argument)
            total += size_of(argument)
        print(f"{entry['name']:44} {call.blocks:8} x {call.threads_per_block:4}  {total / 1e6:9.2f} MB")
    return f"{len(entries)} launches, {sum(arrays.values()) / 1e6:.0f} MB of arrays"


def run(plan: Plan, out: Path) -> str:
    """Run a plan and write its results into a folder; return a line on them."""
    session = Session(plan)
    about, found = session.device.about(), session.run()
    failed = [name for name, result in found.items() if "error" in result]
    file = {"small": "small.json", "time": "times.json"}.get(plan.kind, "order.json")
    head = {**about, "repetitions": plan.repetitions if plan.kind in ("time", "durations") else 1}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(result)}" for name, result in found.items())
    out.mkdir(parents=True, exist_ok=True)
    if plan.kind == "small":
        np.savez_compressed(out / "outputs.npz", **session.outputs)  # type: ignore[arg-type]
    (out / file).write_text(json.dumps(head)[:-1] + ', "launches": {\n' + lines + "\n}}\n")
    return f"{len(found) - len(failed)} launches ran, {len(failed)} failed {' '.join(failed)}"
