"""Which file and options a call is compiled with: what its launch file says, for the architecture of a GPU."""

from __future__ import annotations

from pathlib import Path

from warplens.core.errors import WarplensError
from warplens.machine import Machine
from warplens.program.compile import Options
from warplens.program.compiler_flags import split
from warplens.program.load import is_source
from warplens.workload.launch import KernelCall

OLDEST = "sm_75"  # what a GPU before it is given: today's compilers make nothing older


def architecture(gpu: Machine, old: str | None = None) -> str:
    """Return the architecture to compile for, which must be one that compilers still know (or is an `old` one's)."""
    made = known_to_compilers(gpu.compute_capability) or old
    if made is None:
        raise WarplensError(f"compilers of today make no code for {gpu.name}; name a GPU from cc 7.5 on")
    return made


def known_to_compilers(capability: str | None) -> str | None:
    """Return the architecture of a compute capability; nothing where compilers have forgotten it."""
    return f"sm_{capability.replace('.', '')}" if capability and float(capability) >= 7.5 else None


def source_of(
    call: KernelCall, arch: str, file: str | Path | None = None, options: Options | None = None
) -> tuple[Path, Options]:
    """Return the file with a call's kernel and how to compile it for an architecture.

    `file` and `options` go before the launch file's. Folders of the launch file are relative to it.
    """
    if file is None and call.file is None:
        raise WarplensError(
            "the launch file names no `file` with the kernel (a graph has nodes, a launch file has one)"
        )
    path = Path(file) if file is not None else Path(call.folder) / str(call.file)
    given = options or Options()
    if not is_source(path):
        return path, Options(arch=arch, toolkit=given.toolkit)
    macros, folders, others = split(call.flags)
    macros_given, folders_given, others_given = split(given.flags)
    there = [*folders_given, *(str(Path(call.folder) / folder) for folder in (*call.includes, *folders))]
    if missing := [folder for folder in there if not Path(folder).is_dir()]:
        raise WarplensError(f"includes: {missing[0]}: no such folder")
    return path, Options(
        arch=arch,
        defines=[*call.defines, *macros, *given.defines, *macros_given],
        includes=[*given.includes, *there],
        fast_math=call.fast_math or given.fast_math,
        register_limit=given.register_limit or call.register_limit,
        flags=[*others, *others_given],
        toolkit=given.toolkit,
    )
