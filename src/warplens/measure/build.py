"""All kernels of a measurement: compiled in batches, checked, kept in a folder if one is given.

A batch that fails is made again kernel by kernel, so that one bad kernel costs one measurement and not its neighbours.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from warplens.errors import WarplensError
from warplens.frontend import toolchain
from warplens.measure.checks import checked, compiled, fingerprint
from warplens.measure.source import Kernel

_BATCH_CHARACTERS, _BATCH_KERNELS = 200_000, 24


class Built(Struct):
    """What was made: for each kernel its cubin, or why there is none; the tools that made them."""

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
        for one in pool.map(lambda batch: _made(batch, arch, folder), chosen):
            built.cubins |= one.cubins
            built.errors |= one.errors
            built.tools += [tool for tool in one.tools if tool not in built.tools]
            built.unchecked = built.unchecked or one.unchecked
    return built


def _made(batch: list[Kernel], arch: str, folder: Path | None) -> Built:
    names = [kernel.name for kernel in batch]
    try:
        cubin, tools, unchecked = _one(batch, arch, folder)
        return Built(dict.fromkeys(names, cubin), {}, tools, unchecked)
    except WarplensError as error:
        if len(batch) == 1:
            return Built({}, {names[0]: str(error)}, [])
    alone = [_made([kernel], arch, folder) for kernel in batch]
    built = Built({}, {}, [])
    for one in alone:
        built.cubins |= one.cubins
        built.errors |= one.errors
        built.tools = built.tools or one.tools
    return built


def _one(batch: list[Kernel], arch: str, folder: Path | None) -> tuple[bytes, list[str], str]:
    """Return a checked cubin, the tools that made it, and why it could not be checked."""
    name = fingerprint(batch, batch[0].target(arch))
    kept = folder / f"{name}.cubin" if folder else None
    if kept and kept.is_file():
        tools: list[str] = json.loads(kept.with_suffix(".json").read_text())
        return kept.read_bytes(), tools, ""
    cubin, tools = compiled(batch, arch)
    try:
        toolchain.tool("nvdisasm")
    except WarplensError as error:
        return cubin, tools, str(error)
    checked(batch, cubin)
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.with_suffix(".json").write_text(json.dumps(tools))
        kept.write_bytes(cubin)
    return cubin, tools, ""
