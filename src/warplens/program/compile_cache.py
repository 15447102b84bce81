"""Cache of compiled kernels by content: the same sources and the same tools give the program that was kept.

A key stands for a source with all that it includes, the options, the tools and our own code. A source of which it
cannot be told what it includes has none, and is compiled each time. Headers of the system, which nvcc reads too, are
not in the key: what they held is kept beside the kernel.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from warplens.core.cache import Cache, key_of
from warplens.core.errors import WarplensError
from warplens.core.files import read_bytes
from warplens.core.processes import MissingTool
from warplens.program import toolchain
from warplens.program.compiler_options import Options, sources
from warplens.program.load import load_traced
from warplens.program.program import Program

_MAKERS = {".cu": ("NVRTC", "nvcc"), ".cuh": ("NVRTC", "nvcc"), ".ptx": ("ptxas",)}
# What nvcc obeys beside its arguments.
_HEEDED = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CPATH", "CPLUS_INCLUDE_PATH")


class Kept(Struct, frozen=True):
    """A compiled kernel, with the digest of each file that nvcc read for it: those that our scan does not come to."""

    program: Program
    read: dict[str, str]

    def is_current(self) -> bool:
        """Return whether these files hold what they held."""
        with contextlib.suppress(WarplensError):
            return all(digest(Path(file)) == was for file, was in self.read.items())
        return False


def kept(path: Path, kernel: str | None, options: Options, there: Cache) -> Program:
    """Return a kernel that was kept, or load and keep it."""
    return keyed(path, kernel, options, there)[1]


def keyed(path: Path, kernel: str | None, options: Options, there: Cache) -> tuple[str | None, Program]:
    """Return a kernel that was kept, or load and keep it; with it the key of its code and all that was read for it."""
    code = code_key(path, options, kernel)
    if code is None:
        return None, load_traced(path, kernel, options)[0]
    key = key_of("program", code, str(path))  # its lines name the file
    found = there.get(key, Kept)
    if found is None or not found.is_current():
        program, read = load_traced(path, kernel, options)
        try:
            found = Kept(program, {str(file): digest(file) for file in read})
        except WarplensError:  # one that is gone by now
            return None, program
        there.put(key, found)
    return key_of("program", code, sorted(found.read.values())), found.program


def code_key(path: Path, options: Options, kernel: str | None) -> str | None:
    """Return the key of a kernel's code; none where a source is not known whole."""
    tools = _tools(options.toolkit, path.suffix)
    options = replace(options, toolkit=None)
    if not is_text(path):
        return key_of("program", digest(path), options, kernel, tools)
    texts = list(sources(path, options))
    if None in texts:
        return None
    return key_of("program", texts, replace(options, includes=[]), kernel, tools)


def _tools(toolkit: str | None, suffix: str) -> list[str]:
    """Return what identifies the tools of a program: compilers, and the disassembler, which is asked if it is there."""
    makers = _MAKERS.get(suffix, ())
    identities = []
    for name in ("nvdisasm", *makers):
        with contextlib.suppress(MissingTool):
            identities.append(toolchain.identity(name, toolkit))
    if "nvcc" in makers:
        identities += [os.environ.get(name, "") for name in _HEEDED]
        host = shutil.which("gcc")
        identities.append(toolchain.stamp(Path(host)) if host else "")
    return identities


def is_text(path: Path) -> bool:
    """Return whether a file is a source that is compiled."""
    return path.suffix in _MAKERS


def digest(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(read_bytes(path)).hexdigest()
