"""Compiler options: architecture, macros, folders and flags, and the files that a source includes.

The flags are those of an allow-list, for others can run programs or write files. A flag is written as nvcc writes it,
in one piece: `-std=c++17`, `--extended-lambda`. `-DNAME=VALUE` and `-IFOLDER` may stand among them.
"""

from __future__ import annotations

import contextlib
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from warplens.core.errors import FileError, WarplensError
from warplens.core.files import LARGEST_TEXT_BYTES, read_text
from warplens.core.units import printable

DEFAULT_ARCH = "sm_90"
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(.*)$", re.MULTILINE)
_PTXAS = r"(-v|-O[0-3]|-d[ls]cm=c[agsv]|-warn-spills|--warn-on-spills|--allow-expensive-optimizations=(true|false))"
# What NVRTC and nvcc both take.
_BOTH = re.compile(
    r"--?std=c\+\+(03|11|14|17|20|23)|--?(ftz|prec-div|prec-sqrt|fmad)=(true|false)|--?use_fast_math"
    rf"|--?maxrregcount=\d{{2,3}}|(-Xptxas|--ptxas-options)={_PTXAS}(,{_PTXAS})*|--?restrict"
    r"|--?extra-device-vectorization|--?device-as-default-execution-space|-default-device"
    r"|--?diag-(suppress|warn)=\d+(,\d+)*|-w|--disable-warnings"
)
# What nvcc alone takes: NVRTC has no host code for it to be about.
_NVCC = re.compile(
    r"--?(expt-)?extended-lambda|--?expt-relaxed-constexpr|-expt-extended-lambda|--?default-stream=per-thread"
    r"|-Wno-deprecated-(gpu-targets|declarations)"
)
_NOTHING = re.compile(r"-O[0-3]?|--optimize=\d|--?(generate-)?line-?info|-m64|-g")  # of device code they change nothing
_SPLIT = re.compile(r"(-D|--define-macro=|-I|--include-path=)(.+)", re.DOTALL)
_MACHINE = re.compile(r"--?(gpu-)?(arch|architecture|code|gencode|generate-code)\b.*")


class Options(Struct, frozen=True):
    """Compiler options: architecture, macros, include folders, and further flags.

    Of a file with machine code for several architectures, `arch` chooses. `flags` are nvcc's, of those that are
    allowed. `toolkit` is a folder or `wheels`; without it the installed toolkit compiles (toolchain.py).
    """

    arch: str = DEFAULT_ARCH
    defines: list[str] = []
    includes: list[str] = []
    fast_math: bool = False
    register_limit: int | None = None
    flags: list[str] = []
    toolkit: str | None = None

    def switches(self) -> list[str]:
        """Return what NVRTC and nvcc both take, macros, folders and flags left out."""
        limit = [f"--maxrregcount={self.register_limit}"] if self.register_limit else []
        return ["-lineinfo", *(["--use_fast_math"] if self.fast_math else []), *limit]


def checked_flags(flags: Iterable[str], name: str) -> tuple[list[str], list[str]]:
    """Return the flags for NVRTC and those for nvcc; refuse one that is not allowed. `name` is that of the source."""
    for_nvrtc, for_nvcc = [], []
    for flag in flags:
        if _BOTH.fullmatch(flag):
            for_nvrtc.append(flag)
            for_nvcc.append(flag)
        elif _NVCC.fullmatch(flag):
            for_nvcc.append(flag)
        elif not _NOTHING.fullmatch(flag):
            why = "is not one that may be given; docs/reference/launch-file.md lists those that may"
            if _MACHINE.fullmatch(flag):
                why = "is not given: the architecture is that of the GPU (--gpu, or `show --arch`)"
            raise WarplensError(f"{name}: the compiler flag {printable(flag)[:80]!r} {why}")
    return for_nvrtc, for_nvcc


def split_flags(flags: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the macros, the include folders and the other flags among some flags."""
    macros, folders, others = list[str](), list[str](), list[str]()
    for flag in flags:
        found = _SPLIT.fullmatch(flag)
        if found is None:
            others.append(flag)
        else:
            (macros if "D" in found[1] or "define" in found[1] else folders).append(found[2])
    return macros, folders, others


def sources(path: Path, options: Options) -> Iterator[str | None]:
    """Yield a source and all that it includes by name; None where what it includes cannot be told.

    A header in quotes is looked for beside the file that includes it first; one in angle brackets, which is in no
    include folder, is the compiler's own. What is no plain file, or is too large, is refused.
    """
    folders = [*map(Path, options.includes), path.parent]
    pending, seen = [path], set[Path]()
    while pending:
        file = pending.pop()
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
            paths = [folder / (found[1] or found[2]) for folder in ([file.parent] if found[1] else []) + folders]
            pending += _first_file(paths, f"{file}: #include {found[0]}")


def _first_file(paths: list[Path], name: str) -> list[Path]:
    """Return the first of these paths where there is a file; `name` is for messages."""
    for path in paths:
        with contextlib.suppress(OSError, ValueError):  # not there, too long a name, a NUL byte in it
            found = path.stat()
            if stat.S_ISDIR(found.st_mode):
                continue
            if not stat.S_ISREG(found.st_mode):
                raise FileError(f"{name}: not a plain file")
            if found.st_size > LARGEST_TEXT_BYTES:
                raise FileError(f"{name}: larger than {LARGEST_TEXT_BYTES >> 20} MiB")
            return [path]
    return []
