"""What a worker does: one configuration on every GPU with every model. It runs in any process that has warplens.

The three points of a kernel on three GPUs come together, so that what can be shared is: the source's digest, the
program where architectures agree, the workload for all models of a GPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from functools import cache, lru_cache

from msgspec import Struct

from warplens.core.cache import Cache
from warplens.core.errors import FileError, WarplensError
from warplens.machine import Machine, load_machine
from warplens.models import predict
from warplens.tuner.counting import Counted, Emulation, count
from warplens.tuner.expression import Value
from warplens.tuner.spec import Configuration, WrongPoint
from warplens.workload.unmodelled import texts

_MMAP_THRESHOLD = -3  # of mallopt: bytes from which on an array is mapped
_FULL = [os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT)]  # compilers pass it on as text


class Row(Struct, frozen=True, omit_defaults=True):
    """One point: a configuration of a kernel on a GPU with a model; seconds, or why there are none.

    `note` says what of the kernel is not modelled.
    """

    number: int
    kernel: str
    values: dict[str, Value]
    gpu: str
    model: str
    seconds: float | None = None
    cycles: float | None = None
    bound: str | None = None
    error: str | None = None
    note: str | None = None


class Task(Struct, frozen=True):
    """A configuration with all that is asked about it."""

    configuration: Configuration
    gpus: list[str]
    models: list[str]
    cache: str | None
    emulation: Emulation = "quick"


def rows(task: Task) -> list[Row]:
    """Predict a configuration on each GPU with each model; what fails is said in the row that it belongs to.

    A full disk is no fault of the configuration: it stops the sweep, which can go on when there is room.
    """
    made: list[Row] = []
    _map_large_arrays()
    for gpu in task.gpus:
        try:
            counted: Counted | str = count(task.configuration.call, _machine(gpu), Cache(task.cache), task.emulation)
        except Exception as error:  # one kernel that breaks something must not cost the others
            counted = _said(error)
            if any(reason in counted for reason in _FULL):
                raise FileError(
                    f"no room for a compiler's files: {counted}; the same command goes on from here"
                ) from None
        made += [_row(task.configuration, gpu, model, counted) for model in task.models]
    return made


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
        return Row(c.number, c.kernel, c.values, gpu, model, error=_said(error))


def _said(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, WarplensError) else f"{type(error).__name__}: {text}"


@lru_cache(64)
def _machine(gpu: str) -> Machine:
    return load_machine(gpu)
