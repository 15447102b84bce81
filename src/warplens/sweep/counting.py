"""A call to a workload, with a cache: compiled once per source, options and compiler; emulated once per launch.

A profile depends on the machine by what fits on an SM and by its caches, not by clocks, rates or latencies.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from warplens.errors import WarplensError
from warplens.files import read_text
from warplens.frontend import load_program, nvrtc, toolchain
from warplens.frontend.calls import OLDEST, architecture, source_of
from warplens.frontend.compile import Options
from warplens.kernel import Workload
from warplens.kernel.counted import workload_of
from warplens.kernel.launch import KernelCall
from warplens.kernel.profile import Profile
from warplens.kernel.program import Program
from warplens.machine import Machine
from warplens.sweep.cache import Cache, key_of

Emulation = Literal["quick", "full"]  # how much of a grid: fewer blocks for a sweep, or as `analyze` does
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(.*)$", re.MULTILINE)
_FILE = re.compile(r'file\("(.+)"\)')


class Counted(msgspec.Struct, frozen=True):
    """What a call does on a machine: the kernel's code, and what was counted."""

    program: Program
    workload: Workload


def count(call: KernelCall, machine: Machine, cache: Cache, emulation: Emulation = "full") -> Counted:
    """Compile and emulate a call as a machine would run it; what the cache has is not done again."""
    code_key, program = compiled(call, machine, cache)
    key = emulation_key(code_key, call, machine, emulation)
    found = None if key is None else cache.get(key, Workload)
    if found is None:
        profile = _profile(program, call, machine, emulation)
        found = workload_of(program, call, profile, machine)
        if key is not None:
            cache.put(key, replace(found, code=[], source=""))
    return Counted(program, replace(found, code=program.instructions, source=program.origin))


def is_counted(call: KernelCall, machine: Machine, cache: Cache) -> bool:
    """Whether the cache has what a call does, so that nothing has to be emulated."""
    code_key, _ = compiled(call, machine, cache)
    key = emulation_key(code_key, call, machine)
    return key is not None and cache.get(key, Workload) is not None


def compiled(call: KernelCall, machine: Machine, cache: Cache) -> tuple[str | None, Program]:
    """Return a call's kernel for a machine, and its key; no key where a source is not known whole."""
    path, options = source_of(call, architecture(machine, OLDEST))
    if path.suffix.startswith(".py"):  # also with the kernel's name behind it
        raise WarplensError(f"{path}: a launch of a Triton kernel needs num_warps, and is not swept")
    key = _code_key(path, options, call.kernel)
    return (key, _program(key, path, options, call.kernel, cache)) if key else (None, _load(path, options, call.kernel))


_KEPT: dict[str, Program] = {}  # the programs that this process decoded last
_MOST_KEPT = 8


def _program(key: str, path: Path, options: Options, kernel: str | None, cache: Cache) -> Program:
    if key not in _KEPT:
        made = cache.made(key, Program, lambda: replace(_load(path, options, kernel), origin=""))
        while len(_KEPT) >= _MOST_KEPT:
            del _KEPT[next(iter(_KEPT))]
        _KEPT[key] = made
    return replace(_KEPT[key], origin=str(path))


def _load(path: Path, options: Options, kernel: str | None) -> Program:
    return load_program(path, kernel, options)


def _profile(program: Program, call: KernelCall, machine: Machine, emulation: Emulation) -> Profile:
    try:
        from warplens.emulate import profiler
    except ImportError:
        raise WarplensError("the emulator needs Numba: pip install 'warplens[emulate]'") from None
    return profiler.profile(program, call, machine, effort=profiler.QUICK if emulation == "quick" else profiler.FULL)


def contents(call: KernelCall) -> list[str | None]:
    """Return what the files hold that a call names: its source, all that this includes, what arrays are filled from.

    Where one cannot be read there is None: what is wrong is said when it is needed.
    """
    try:
        path, options = source_of(call, OLDEST)
        source = list(_sources(path, options)) if _is_text(path) else [_digest(path)]
        return [*source, *_held(call)]
    except WarplensError:
        return [None]


# ---- keys


def _code_key(path: Path, options: Options, kernel: str | None) -> str | None:
    if not _is_text(path):
        return key_of("program", _digest(path), options, kernel, _tools(""))
    sources = list(_sources(path, options))
    if None in sources:
        return None
    return key_of("program", sources, replace(options, includes=[]), kernel, _tools(path.suffix))


def _sources(path: Path, options: Options) -> Iterator[str | None]:
    """Yield a source and all that it includes by name; None where what it includes cannot be told.

    Headers in angle brackets that are in no include folder are the compiler's own.
    """
    folders = [*map(Path, options.includes), path.parent]
    waiting, seen = [path], set[Path]()
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        text = read_text(file)
        yield text
        for named in _INCLUDE.findall(text):
            found = re.match(r'"([^"]+)"|<([^>]+)>', named)
            if not found:
                yield None
                return
            places = [folder / (found[1] or found[2]) for folder in (file.parent, *folders)]
            waiting += [place for place in places if place.is_file()][:1]


@lru_cache
def _tools(suffix: str) -> list[str]:
    """What takes part in making a program: the disassembler, and the compiler by its content or its version."""
    made = [toolchain.version("nvdisasm")]
    if suffix == ".ptx":
        made.append(toolchain.version("ptxas"))
    elif suffix:
        with nvrtc.library().open("rb") as stream:
            made.append(hashlib.file_digest(stream, "sha256").hexdigest())
    return made


def emulation_key(
    code_key: str | None, call: KernelCall, machine: Machine, emulation: Emulation = "full"
) -> str | None:
    """Return the key of what a call does on a machine: code, launch, what arrays hold, SM and caches, how emulated."""
    if code_key is None:
        return None
    said = replace(call, folder=".", source="", notes=[], variant="", file="", defines=[])
    return key_of("counted", emulation, code_key, said, _held(call), *_as_emulated(machine))


def _held(call: KernelCall) -> list[str]:
    """What tells the files from which a call's arrays are filled from others."""
    files = [found[1] for argument in call.arguments if (found := _FILE.search(argument.fill))]
    return [_digest(Path(call.folder) / name) for name in files]


def _as_emulated(machine: Machine) -> list[object]:
    """What of a machine a profile depends on, and the latencies by which a chain of dependences is told."""
    return [machine.compute_capability, machine.chip.sm_count, machine.sm, machine.cache, machine.instructions]


def _is_text(path: Path) -> bool:
    return path.suffix in (".cu", ".cuh", ".ptx")


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise WarplensError(f"{path}: {error.strerror}") from None
