"""Kernels of a measurement: compiled in batches, checked, kept in a folder if one is given.

A batch that fails is made again kernel by kernel, so that one bad kernel costs one measurement and not its neighbours.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from warplens.core.errors import FileError, WarplensError
from warplens.core.files import write_whole
from warplens.laboratory.source import Kernel, fingerprint

_BATCH_CHARACTERS, _BATCH_KERNELS = 200_000, 24


@dataclass
class Built:
    """Compiled kernels: for each its cubin, or why there is none; the tools that made them."""

    cubins: dict[str, bytes]
    errors: dict[str, str]
    tools: list[str]
    unchecked: str = ""


def batches(kernels: Iterable[Kernel], arch: str) -> Iterator[list[Kernel]]:
    """Put kernels for the same architecture together, not too many at once."""
    waiting: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        group = waiting.setdefault(kernel.target(arch), [])
        group.append(kernel)
        if len(group) >= _BATCH_KERNELS or sum(len(k.text) for k in group) > _BATCH_CHARACTERS:
            yield waiting.pop(kernel.target(arch))
    yield from waiting.values()


def build(kernels: Iterable[Kernel], arch: str, folder: Path | None = None, among: Iterable[Kernel] = ()) -> Built:
    """Compile and check kernels; a folder with what was made before saves the work.

    Kernels go into the same batches as all those that they are `among`, so that a folder's files serve any choice.
    """
    built = Built({}, {}, [])
    wanted = {kernel.name: kernel for kernel in kernels if kernel.fits(arch)}
    every = {kernel.name: kernel for kernel in among if kernel.fits(arch)} or wanted
    chosen = [batch for batch in batches(every.values(), arch) if any(kernel.name in wanted for kernel in batch)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for one in pool.map(lambda batch: _built(batch, arch, folder), chosen):
            built.cubins |= one.cubins
            built.errors |= one.errors
            built.tools += [tool for tool in one.tools if tool not in built.tools]
            built.unchecked = built.unchecked or one.unchecked
    return built


def _built(batch: list[Kernel], arch: str, folder: Path | None) -> Built:
    names = [kernel.name for kernel in batch]
    kept = folder / f"{fingerprint(batch, batch[0].target(arch))}.cubin" if folder else None
    if kept and kept.is_file():
        with contextlib.suppress(OSError, ValueError):  # one that cannot be read is made again
            tools = json.loads(kept.with_suffix(".json").read_bytes())
            if isinstance(tools, list) and all(isinstance(tool, str) for tool in tools):
                return Built(dict.fromkeys(names, kept.read_bytes()), {}, tools)
    try:
        cubin, tools, unchecked = _one(batch, arch)
    except WarplensError as error:
        if len(batch) == 1:
            return Built({}, {names[0]: str(error)}, [])
    else:
        if kept and not unchecked:
            _keep(kept, cubin, tools)
        return Built(dict.fromkeys(names, cubin), {}, tools, unchecked)
    alone = [_built([kernel], arch, folder) for kernel in batch]
    built = Built({}, {}, [])
    for one in alone:
        built.cubins |= one.cubins
        built.errors |= one.errors
        built.tools = built.tools or one.tools
        built.unchecked = built.unchecked or one.unchecked
    return built


def _one(batch: list[Kernel], arch: str) -> tuple[bytes, list[str], str]:
    """Return a checked cubin, the tools that made it, and why it could not be checked."""
    try:
        from warplens.laboratory.checks import checked, compiled
        from warplens.program import toolchain
    except ImportError as error:
        reason = f"compiling and checking kernels needs {error.name}, which measuring itself does not"
        raise WarplensError(f"{reason}: install it, or name a folder of compiled kernels with --cubins") from None
    cubin, tools = compiled(batch, arch)
    try:
        toolchain.tool("nvdisasm")
    except WarplensError as error:
        return cubin, tools, str(error)
    checked(batch, cubin)
    return cubin, tools, ""


def _keep(kept: Path, cubin: bytes, tools: list[str]) -> None:
    """Write a cubin and its tools, each whole or not at all: an interrupted run must not leave half of one."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{kept.parent}: cannot make this folder: {error.strerror or error}") from None
    write_whole(kept.with_suffix(".json"), json.dumps(tools))
    write_whole(kept, cubin)
