"""Compiled kernels, kept by content: what is made again from the same sources by the same tools is found again.

A key stands for a source with all that it includes, the options, the tools and our own code. A source of which it
cannot be told what it includes has none, and is compiled each time.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from warplens.cache import Cache, key_of
from warplens.files import read_bytes, read_text
from warplens.frontend import nvrtc, toolchain
from warplens.frontend.compile import Options
from warplens.kernel.program import Program

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(.*)$", re.MULTILINE)


def kept(path: Path, kernel: str | None, options: Options, there: Cache, load: Callable[[], Program]) -> Program:
    """Return a kernel that was kept, or load and keep it; one that nvcc made, whose headers are many, is not kept."""
    code = code_key(path, options, kernel)
    key = code and key_of("program", code, str(path))  # its lines name the file
    found = there.get(key, Program) if key else None
    if found is None:
        found = load()
        if key and not any(tool.startswith("nvcc") for tool in found.tools):
            there.put(key, found)
    return found


def code_key(path: Path, options: Options, kernel: str | None) -> str | None:
    """Return the key of a kernel's code; none where a source is not known whole."""
    if not is_text(path):
        return key_of("program", digest(path), options, kernel, _tools(""))
    texts = list(sources(path, options))
    if None in texts:
        return None
    return key_of("program", texts, replace(options, includes=[]), kernel, _tools(path.suffix))


def sources(path: Path, options: Options) -> Iterator[str | None]:
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


@cache
def _tools(suffix: str) -> list[str]:
    """What takes part in making a program: the compiler, and the disassembler, which may be asked if it is there."""
    made = list[str]()
    with contextlib.suppress(toolchain.MissingTool):
        made.append(toolchain.version("nvdisasm"))
    if suffix == ".ptx":
        made.append(toolchain.version("ptxas"))
    elif suffix:
        made.append(nvrtc.version())
    return made


def is_text(path: Path) -> bool:
    """Whether a file is a source that is compiled."""
    return path.suffix in (".cu", ".cuh", ".ptx")


def digest(path: Path) -> str:
    """Return the SHA-256 of what a file holds."""
    return hashlib.sha256(read_bytes(path)).hexdigest()
