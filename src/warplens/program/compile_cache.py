"""Compiled kernels, kept by content: what is made again from the same sources by the same tools is found again.

A key stands for a source with all that it includes, the options, the tools and our own code. A source of which it
cannot be told what it includes has none, and is compiled each time. Headers of the system, which nvcc reads too, are
not in the key: what they held is kept beside the kernel.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from warplens.core.cache import Cache, key_of
from warplens.core.errors import FileError, WarplensError
from warplens.core.files import LARGEST_TEXT_BYTES, read_bytes, read_text
from warplens.program import toolchain
from warplens.program.compile import Options
from warplens.program.load import load_traced
from warplens.program.program import Program

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(.*)$", re.MULTILINE)
_MAKERS = {".cu": ("NVRTC", "nvcc"), ".cuh": ("NVRTC", "nvcc"), ".ptx": ("ptxas",)}
# What nvcc obeys beside its arguments.
_HEEDED = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CPATH", "CPLUS_INCLUDE_PATH")


class Kept(Struct, frozen=True):
    """A compiled kernel, with the digest of each file that nvcc read for it: those that our scan does not come to."""

    program: Program
    read: dict[str, str]

    def is_current(self) -> bool:
        """Whether these files hold what they held."""
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
    tools = _tools(options.toolkit, path.suffix if is_text(path) else "")
    options = replace(options, toolkit=None)
    if not is_text(path):
        return key_of("program", digest(path), options, kernel, tools)
    texts = list(sources(path, options))
    if None in texts:
        return None
    return key_of("program", texts, replace(options, includes=[]), kernel, tools)


def sources(path: Path, options: Options) -> Iterator[str | None]:
    """Yield a source and all that it includes by name; None where what it includes cannot be told.

    A header in quotes is looked for beside the file that includes it first; one in angle brackets, which is in no
    include folder, is the compiler's own. What is no plain file, or is too large, is refused.
    """
    folders = [*map(Path, options.includes), path.parent]
    waiting, seen = [path], set[Path]()
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        text = read_text(file, "backslashreplace")  # a comment in a header may be of any encoding
        yield text
        for named in _INCLUDE.findall(text):
            found = re.match(r'"([^"]+)"|<([^>]+)>', named)
            if not found:
                yield None
                continue
            places = [folder / (found[1] or found[2]) for folder in ([file.parent] if found[1] else []) + folders]
            waiting += _first_file(places, f"{file}: #include {found[0]}")


def _first_file(places: list[Path], name: str) -> list[Path]:
    """Return the first of these places where there is a file; `name` is for messages."""
    for place in places:
        with contextlib.suppress(OSError, ValueError):  # not there, too long a name, a NUL byte in it
            found = place.stat()
            if stat.S_ISDIR(found.st_mode):
                continue
            if not stat.S_ISREG(found.st_mode):
                raise FileError(f"{name}: not a plain file")
            if found.st_size > LARGEST_TEXT_BYTES:
                raise FileError(f"{name}: larger than {LARGEST_TEXT_BYTES >> 20} MiB")
            return [place]
    return []


def _tools(toolkit: str | None, suffix: str) -> list[str]:
    """What takes part in making a program: compilers, and the disassembler, which may be asked if it is there."""
    makers = _MAKERS.get(suffix, ())
    made = []
    for name in ("nvdisasm", *makers):
        with contextlib.suppress(toolchain.MissingTool):
            made.append(toolchain.identity(name, toolkit))
    if "nvcc" in makers:
        made += [os.environ.get(name, "") for name in _HEEDED]
        host = shutil.which("gcc")
        made.append(toolchain.stamp(Path(host)) if host else "")
    return made


def is_text(path: Path) -> bool:
    """Whether a file is a source that is compiled."""
    return path.suffix in _MAKERS


def digest(path: Path) -> str:
    """Return the SHA-256 of what a file holds."""
    return hashlib.sha256(read_bytes(path)).hexdigest()
