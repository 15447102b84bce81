"""The compiler flags that a launch file may give: an allow-list, for others can run programs or write files.

A flag is written as nvcc writes it, in one piece: `-std=c++17`, `--extended-lambda`. `-DNAME=VALUE` and `-IFOLDER` may
stand among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from warplens.core.errors import WarplensError
from warplens.core.units import printable

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


def checked(flags: Iterable[str], name: str) -> tuple[list[str], list[str]]:
    """Return the flags for NVRTC and those for nvcc; raise an error where one is not allowed. `name`: of the source."""
    for_nvrtc, for_nvcc = [], []
    for flag in flags:
        if _BOTH.fullmatch(flag):
            for_nvrtc.append(flag)
            for_nvcc.append(flag)
        elif _NVCC.fullmatch(flag):
            for_nvcc.append(flag)
        elif not _NOTHING.fullmatch(flag):
            raise WarplensError(f"{name}: the compiler flag {printable(flag)[:80]!r} {_why_not(flag)}")
    return for_nvrtc, for_nvcc


def _why_not(flag: str) -> str:
    if _MACHINE.fullmatch(flag):
        return "is not given: the architecture is that of the GPU (--gpu, or `show --arch`)"
    return "is not one that may be given; docs/reference/launch-file.md lists those that may"


def split(flags: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the macros, the include folders and the other flags among some flags."""
    made: tuple[list[str], list[str], list[str]] = ([], [], [])
    for flag in flags:
        found = _SPLIT.fullmatch(flag)
        made[2 if not found else 0 if "D" in found[1] or "define" in found[1] else 1].append(
            found[2] if found else flag
        )
    return made
