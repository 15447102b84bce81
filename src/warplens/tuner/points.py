"""Points of a sweep: one configuration compiled, emulated, and predicted on every GPU with every model.

It runs in any process that has warplens. The points of a kernel come together, so that they share the source's digest,
the program where architectures agree, and the workload for all models of a GPU. With a cache a program is compiled once
per source, options and compiler, and emulated once per launch. A profile depends on the machine by the occupancy of an
SM and by its caches, not by clocks, rates or latencies.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
from functools import cache, lru_cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from warplens.core.cache import Cache, key_of
from warplens.core.errors import FileError, WarplensError
from warplens.core.native import refuse_without_numba
from warplens.machine import Machine, load_machine
from warplens.models import predict
from warplens.program.compile import sources
from warplens.program.load import digest, is_text, keyed
from warplens.program.program import Program
from warplens.tuner.expression import Value
from warplens.tuner.spec import Configuration, Emulation, WrongPoint
from warplens.workload import Workload
from warplens.workload.compiled_call import OLDEST, architecture, source_of
from warplens.workload.counted import texts, workload_of
from warplens.workload.launch import KernelCall

_FILE = re.compile(r'file\("(.+)"\)')
_MMAP_THRESHOLD = -3  # of mallopt: bytes from which on an array is mapped
_FULL = [os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT)]  # compilers pass it on as text


class Row(Struct, frozen=True, omit_defaults=True):
    """One point: a configuration of a kernel on a GPU with a model; seconds, or an error."""

    number: int
    kernel: str
    values: dict[str, Value]
    gpu: str
    model: str
    seconds: float | None = None
    cycles: float | None = None
    bound: str | None = None
    error: str | None = None
    note: str | None = None  # on what of the kernel is not modelled


class Task(Struct, frozen=True):
    """A configuration with the GPUs and models to predict it on."""

    configuration: Configuration
    gpus: list[str]
    models: list[str]
    cache: str | None
    emulation: Emulation = "quick"


def rows(task: Task) -> list[Row]:
    """Predict a configuration on each GPU with each model; a row has its error.

    A full disk is no fault of the configuration: it stops the sweep, which can be resumed.
    """
    points: list[Row] = []
    _map_large_arrays()
    for gpu in task.gpus:
        try:
            counted: Counted | str = count(task.configuration.call, _machine(gpu), Cache(task.cache), task.emulation)
        except Exception as error:  # one kernel that breaks something must not cost the others
            counted = _text(error)
            if any(reason in counted for reason in _FULL):
                raise FileError(
                    f"no room for a compiler's files: {counted}; the same command goes on from here"
                ) from None
        points += [_row(task.configuration, gpu, model, counted) for model in task.models]
    return points


@cache
def _map_large_arrays() -> None:
    """Have the C library take large arrays from the system each time, where zeros cost nothing until they are touched.

    Otherwise glibc keeps what was freed, and clears all of the emulator's memory for every launch.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 4 << 20)


def failed(c: Configuration | WrongPoint, gpus: list[str], models: list[str], reason: str) -> list[Row]:
    """Return the rows of a configuration that cannot be launched, or that took its worker with it."""
    return [Row(c.number, c.kernel, c.values, gpu, model, error=reason) for gpu in gpus for model in models]


def _row(c: Configuration, gpu: str, model: str, counted: Counted | str) -> Row:
    if isinstance(counted, str):
        return Row(c.number, c.kernel, c.values, gpu, model, error=counted)
    try:
        p = predict(counted.workload, _machine(gpu), model)
        if p.seconds is None or p.cycles is None:
            raise WarplensError(f"{model} gives no time")
        note = "; ".join(texts(counted.workload.unmodelled)) or None
        time = float(p.seconds), float(p.cycles)
        return Row(c.number, c.kernel, c.values, gpu, model, *time, str(p.bound), note=note)
    except Exception as error:
        return Row(c.number, c.kernel, c.values, gpu, model, error=_text(error))


def _text(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, WarplensError) else f"{type(error).__name__}: {text}"


@lru_cache(64)
def _machine(gpu: str) -> Machine:
    return load_machine(gpu)


class Counted(Struct, frozen=True):
    """A call on a machine: the kernel's program, and its counted workload."""

    program: Program
    workload: Workload


def count(call: KernelCall, machine: Machine, cache: Cache, emulation: Emulation = "full") -> Counted:
    """Compile and emulate a call for a machine, unless the cache has the result."""
    code, program = compiled(call, machine, cache)
    key = emulation_key(code, call, machine, emulation)
    found = None if key is None else cache.get(key, Workload)
    if found is None:
        refuse_without_numba("the emulator")
        from warplens.emulator import profiler

        effort = profiler.QUICK if emulation == "quick" else profiler.FULL
        found = workload_of(program, call, profiler.profile(program, call, machine, effort=effort), machine)
        if key is not None:
            cache.put(key, replace(found, code=[], source=""))
    return Counted(program, replace(found, code=program.instructions, source=program.origin))


def compiled(call: KernelCall, machine: Machine, cache: Cache) -> tuple[str | None, Program]:
    """Return the key of a call's kernel for a machine, None where a source is not known whole, and its program."""
    path, options = source_of(call, architecture(machine, OLDEST))
    if path.suffix.startswith(".py"):  # also with the kernel's name behind it
        raise WarplensError(f"{path}: a launch of a Triton kernel needs num_warps, and is not swept")
    return keyed(path, call.kernel, options, cache)


def contents(call: KernelCall) -> list[str | None]:
    """Return the contents or hashes of the files that a call names: its source with includes, and data of arrays.

    None stands for a file that cannot be read: the error comes where it is needed.
    """
    try:
        path, options = source_of(call, OLDEST)
        source = list(sources(path, options)) if is_text(path) else [digest(path)]
        return [*source, *_data_files(call)]
    except WarplensError:
        return [None]


def emulation_key(code: str | None, call: KernelCall, machine: Machine, emulation: Emulation = "full") -> str | None:
    """Return the key of a call's counts on a machine: code, launch, data of arrays, SM and caches, effort."""
    if code is None:
        return None
    launch = replace(call, folder=".", source="", notes=[], variant="", file="", defines=[])
    # What of a machine a profile depends on, and the latencies by which a chain of dependences is known.
    on = [machine.compute_capability, machine.chip.sm_count, machine.sm, machine.cache, machine.instructions]
    return key_of("counted", emulation, code, launch, _data_files(call), *on)


def _data_files(call: KernelCall) -> list[str]:
    """Return the hashes of the files from which a call's arrays are filled."""
    fills = [*(argument.fill for argument in call.arguments), *(variable.fill for variable in call.variables)]
    files = [found[1] for fill in fills if (found := _FILE.search(fill))]
    return [digest(Path(call.folder) / name) for name in files]
