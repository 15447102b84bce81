"""A call to a workload, with a cache: compiled once per source, options and compiler; emulated once per launch.

A profile depends on the machine by what fits on an SM and by its caches, not by clocks, rates or latencies.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from warplens.core.cache import Cache, T, key_of
from warplens.core.errors import WarplensError
from warplens.core.native import refuse_without_numba
from warplens.machine import Machine
from warplens.program.compile_cache import digest, is_text, keyed
from warplens.program.compiler_options import sources
from warplens.program.program import Program
from warplens.workload import Workload
from warplens.workload.compiled_call import OLDEST, architecture, source_of
from warplens.workload.counted import workload_of
from warplens.workload.launch import KernelCall
from warplens.workload.profile import Profile

Emulation = Literal["quick", "full"]  # how much of a grid: fewer blocks for a sweep, or as `analyze` does
_FILE = re.compile(r'file\("(.+)"\)')


class Counted(msgspec.Struct, frozen=True):
    """What a call does on a machine: the kernel's code, and what was counted."""

    program: Program
    workload: Workload


def count(call: KernelCall, machine: Machine, cache: Cache, emulation: Emulation = "full") -> Counted:
    """Compile and emulate a call as a machine would run it; what the cache has is not done again."""
    code, program = compiled(call, machine, cache)
    key = emulation_key(code, call, machine, emulation)
    found = None if key is None else cache.get(key, Workload)
    if found is None:
        profile = _profile(program, call, machine, emulation)
        found = workload_of(program, call, profile, machine)
        if key is not None:
            cache.put(key, replace(found, code=[], source=""))
    return Counted(program, replace(found, code=program.instructions, source=program.origin))


def compiled(call: KernelCall, machine: Machine, cache: Cache) -> tuple[str | None, Program]:
    """Return a call's kernel for a machine, and its key; no key where a source is not known whole."""
    path, options = source_of(call, architecture(machine, OLDEST))
    if path.suffix.startswith(".py"):  # also with the kernel's name behind it
        raise WarplensError(f"{path}: a launch of a Triton kernel needs num_warps, and is not swept")
    return keyed(path, call.kernel, options, _Decoded(cache))


_KEPT: dict[str, Any] = {}  # the programs that this process decoded last
_MOST_KEPT = 8


class _Decoded(Cache):
    """A cache of programs that need not be decoded again by the process that did it last."""

    def __init__(self, behind: Cache) -> None:
        super().__init__(behind.folder)

    def get(self, key: str, kind: type[T]) -> T | None:
        """Return an entry; None where there is none, or one that was damaged."""
        found: T | None = _KEPT.get(key) or super().get(key, kind)
        if found is not None:
            self._remember(key, found)
        return found

    def put(self, key: str, value: Any) -> None:
        """Keep an entry."""
        self._remember(key, value)
        super().put(key, value)

    def _remember(self, key: str, value: Any) -> None:
        while key not in _KEPT and len(_KEPT) >= _MOST_KEPT:
            del _KEPT[next(iter(_KEPT))]
        _KEPT[key] = value


def _profile(program: Program, call: KernelCall, machine: Machine, emulation: Emulation) -> Profile:
    refuse_without_numba("the emulator")
    from warplens.emulator import profiler

    return profiler.profile(program, call, machine, effort=profiler.QUICK if emulation == "quick" else profiler.FULL)


def contents(call: KernelCall) -> list[str | None]:
    """Return what the files hold that a call names: its source, all that this includes, what arrays are filled from.

    Where one cannot be read there is None: what is wrong is said when it is needed.
    """
    try:
        path, options = source_of(call, OLDEST)
        source = list(sources(path, options)) if is_text(path) else [digest(path)]
        return [*source, *_held(call)]
    except WarplensError:
        return [None]


# ---- keys


def emulation_key(code: str | None, call: KernelCall, machine: Machine, emulation: Emulation = "full") -> str | None:
    """Return the key of what a call does on a machine: code, launch, what arrays hold, SM and caches, how emulated."""
    if code is None:
        return None
    said = replace(call, folder=".", source="", notes=[], variant="", file="", defines=[])
    return key_of("counted", emulation, code, said, _held(call), *_as_emulated(machine))


def _held(call: KernelCall) -> list[str]:
    """What tells the files from which a call's arrays are filled from others."""
    fills = [*(argument.fill for argument in call.arguments), *(variable.fill for variable in call.variables)]
    files = [found[1] for fill in fills if (found := _FILE.search(fill))]
    return [digest(Path(call.folder) / name) for name in files]


def _as_emulated(machine: Machine) -> list[object]:
    """What of a machine a profile depends on, and the latencies by which a chain of dependences is told."""
    return [machine.compute_capability, machine.chip.sm_count, machine.sm, machine.cache, machine.instructions]
