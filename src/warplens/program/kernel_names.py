"""Kernel names as people write them, and the choice of a kernel by its name.

A mangled name of 250 characters can stand for one of gigabytes. Names that might are demangled in a process of
its own, with a limit; a name that takes longer stays mangled.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from collections.abc import Iterable
from functools import cache

from warplens.core.errors import WarplensError, nearest
from warplens.core.units import printable
from warplens.program import toolchain
from warplens.program.toolchain import one_line

_LONGEST = 4000  # characters; a longer name stays mangled
_REFERENCE = re.compile(r"[ST][0-9A-Z]*_")  # may repeat all that is before it
_MOST_REFERENCES = 36
_LIMIT_SECONDS = 1.0
_known: dict[str, str] = {}


def demangle(name: str) -> str:
    """Return a C++ symbol as people write it; a name that is none comes back as it is."""
    return demangled([name])[name]


def demangled(names: list[str]) -> dict[str, str]:
    """Return names as people write them, by the name as it is."""
    new = [name for name in dict.fromkeys(names) if name not in _known]
    hard = sorted((n for n in new if len(_REFERENCE.findall(n)) > _MOST_REFERENCES), key=len)
    _known.update({name: _demangled(name) for name in set(new).difference(hard)})
    if hard:
        asked = "".join(json.dumps(n) + "\n" for n in hard).encode()
        _, out = toolchain.serve("program.kernel_names", asked, _LIMIT_SECONDS)
        done = map(json.loads, out.split(b"\n")[:-1])
        _known.update({name: next(done, name) for name in hard})
    return {name: _known[name] for name in names}


def serve() -> None:
    """Demangle the names on standard input, one by one (runs in the child process)."""
    for line in sys.stdin.buffer:
        print(json.dumps(_demangled(json.loads(line))), flush=True)


def choose(names: list[str], wanted: str | None, file: str) -> str:
    """Return the one name that `wanted` means: mangled, demangled, without its arguments, or a part that fits one only.

    Where none of these fits, a name or a part of one may be given as it is shown, its control characters replaced.
    """
    readable = demangled(names)
    if wanted is None:
        if len(names) == 1:
            return names[0]
        raise WarplensError(f"{file}: {len(names)} kernels; choose one with --kernel: {_shown(readable.values())}")
    hits = _fitting(readable, wanted) or _fitting(
        {name: _spelt(long) for name, long in readable.items()}, _spelt(wanted)
    )
    if len(hits) == 1:
        return hits[0]
    shown = one_line(wanted)
    if hits:
        raise WarplensError(f"{file}: {shown!r} fits {len(hits)} kernels: {_shown(readable[n] for n in hits)}")
    hint = nearest(wanted, map(one_line, readable.values())) or f"; there are: {_shown(readable.values())}"
    raise WarplensError(f"{file}: no kernel {shown!r}{hint}")


def _fitting(readable: dict[str, str], wanted: str) -> list[str]:
    exact = [n for n, long in readable.items() if wanted in (n, long, long.partition("(")[0])]
    listed = {n: (printable(long), one_line(long)) for n, long in readable.items()}
    return (
        exact
        or [n for n, long in readable.items() if wanted in long]
        or [n for n in readable if wanted in listed[n]]
        or [n for n in readable if any(wanted in shown for shown in listed[n])]
    )


def _spelt(name: str) -> str:
    """Return a name as it is compared: without spaces, and numbers without the letters of their type.

    Demanglers write `reduce<int, 256u>` and `k<S<3> >` for what a programmer calls `reduce<int, 256>` and `k<S<3>>`.
    """
    return re.sub(r"(?<![\w.])(\d+)[uUlL]+\b", r"\1", name).replace(" ", "")


def _shown(names: Iterable[str]) -> str:
    clean = [one_line(name) for name in names]
    short = [name if len(name) <= 80 else name[:77] + "..." for name in clean[:8]]
    return ", ".join(short + ([f"and {len(clean) - 8} more"] if len(clean) > 8 else []))


@cache
def _demangler() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libc++.1.dylib" if sys.platform == "darwin" else "libstdc++.so.6")
        library.__cxa_demangle.restype = ctypes.c_void_p
        library.free.argtypes = [ctypes.c_void_p]
    except (OSError, AttributeError):
        return None
    return library


def _demangled(name: str) -> str:
    library = _demangler() if name.startswith("_Z") else None
    if library is None:
        return name
    status = ctypes.c_int()
    pointer = library.__cxa_demangle(name.encode("utf-8", "replace"), None, None, ctypes.byref(status))
    if status.value or not pointer:
        return name
    text = (ctypes.cast(pointer, ctypes.c_char_p).value or b"").decode("utf-8", "replace")
    library.free(pointer)
    return text if len(text) <= _LONGEST else name
