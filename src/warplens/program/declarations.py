"""Names and types as people write them: declarations in CUDA source, types of PTX entries, names of kernels.

Macros and template arguments are not expanded: types come from the compiler, and from source the names that it does not
keep. Every pattern has a bound on what it spans, and reads runs of blanks as one: time grows with the length of the
source, whatever is in it.

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
from itertools import islice

from msgspec import Struct

from warplens.core.errors import WarplensError, nearest
from warplens.core.units import printable
from warplens.program import toolchain
from warplens.program.toolchain import one_line

_NOISE = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|'\\?\"'|\"(?:[^\"\\\n]|\\.)*+\"?", re.DOTALL)
_BOUNDS = re.compile(
    r"__(?:launch_bounds|cluster_dims|maxnreg|block_size|attribute)__ ?"
    r"\((?:[^()]|\((?:[^()]|\([^()]{0,400}+\)){0,400}+\)){0,400}+\)"
)
_LONGEST = 400  # characters of a parameter or member: of a longer one nothing is told
_MOST_KERNELS = 1000  # of a source: more are not looked for
_MOST_REPLACED = 10_000  # names of types
_KERNEL = re.compile(
    r"\b__global__ (?:[^(){};< ]++(?:<[^(){};<>]{0,200}+>)? ){0,12}?(?:\w++::)*+(\w++) ?(?:<[^(){};]{0,200}>)? ?\("
)
_STRUCTURE = re.compile(r"\bstruct (?:(?:__align__|alignas) ?\([^)]{0,400}+\) ?)?(\w++) ?\{([^{}]*+)\}")
_ALIAS = re.compile(r"\btypedef struct ?\w*+ ?\{([^{}]*+)\} ?(\w++) ?;")
_VARIABLE = re.compile(r"\b__(?:constant|device)__ ((?:[\w:]++ ){1,12})(\w++) ?([\[;=])")
_MOST_ELEMENTS = 64  # of an array in a structure: a longer one is not given element by element
_LONGEST_NAME = 4000  # characters; a longer name stays mangled
_REFERENCE = re.compile(r"[ST][0-9A-Z]*_")  # may repeat all that is before it
_MOST_REFERENCES = 36
_LIMIT_SECONDS = 1.0
_known: dict[str, str] = {}


class Kernel(Struct, frozen=True):
    """A kernel's name, its parameters (type, name), and its body."""

    name: str
    parameters: list[tuple[str, str]]
    body: str


def without_comments(text: str) -> str:
    """Return source without comments, texts in quotes, and the bounds in brackets before a kernel's name.

    Every run of blanks becomes one.
    """
    return _blanks(_BOUNDS.sub(" ", _blanks(_NOISE.sub(" ", text))))


def _blanks(text: str) -> str:
    return re.sub(r"[^\S ]\s*+| \s++", " ", text)


def closing(text: str, at: int, stop: int) -> int:
    """Return where the bracket that opens there is closed; `stop` where it is not closed before that."""
    pair = {"(": ")", "{": "}"}[text[at]]
    depth = 0
    for found in re.compile(rf"[{re.escape(text[at] + pair)}]").finditer(text, at, stop):
        depth += 1 if found[0] == text[at] else -1
        if depth == 0:
            return found.start()
    return stop


def split_top(text: str) -> list[str]:
    """Split a list at its commas, but not within brackets."""
    parts, depth, start = list[str](), 0, 0
    for at, character in enumerate(text):
        depth += (character in "(<[{") - (character in ")>]}")
        if character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()] if text.strip() else []


def declared_kernels(text: str) -> list[Kernel]:
    """Return the kernels that source without comments defines, and those that it only declares.

    A kernel ends at the latest where the next one begins.
    """
    kernels = []
    for found in islice(_KERNEL.finditer(text), _MOST_KERNELS):
        stop = text.find("__global__", found.end())
        stop = len(text) if stop < 0 else stop
        end = closing(text, found.end() - 1, stop)
        if end == stop:
            continue
        items = split_top(text[found.end() : end])
        parameters = [_declared(one) for one in ([] if items == ["void"] else items)]
        body = re.compile(r" ?\{").match(text, end + 1)
        whole = text[body.end() : closing(text, body.end() - 1, stop)] if body else ""
        kernels.append(Kernel(found[1], parameters, whole))
    return sorted(kernels, key=lambda kernel: not kernel.body)


def _declared(text: str) -> tuple[str, str]:
    """Return type and name of `const float *__restrict__ x = nullptr` or `float x[]`."""
    plain = re.sub(r"\b(__restrict__|__restrict|restrict|__grid_constant__)\b", " ", text.partition("=")[0])
    plain = _blanks(plain)
    found = None
    if len(plain) <= _LONGEST:
        found = re.fullmatch(r" ?(.*?[ *&>]) ?(\w++) ?((?:\[[^\]]*+\] ?)*)", plain)
    if found is None:
        return plain.strip(), ""
    return (found[1] + "*" * found[3].count("[")).strip(), found[2]


def declared_structures(text: str) -> dict[str, list[tuple[str, str]]]:
    """Return the members (type, name) of structures that hold nothing but plain members and arrays of them, by name.

    An array is a member for each of its elements: `scale.0`, `scale.1`.
    """
    found = dict(_STRUCTURE.findall(text))
    found |= {name: body for body, name in _ALIAS.findall(text)}
    plain = {name: _plain_members(body, text) for name, body in found.items()}
    return {name: members for name, members in plain.items() if members}


def _plain_members(body: str, text: str) -> list[tuple[str, str]]:
    members = list[tuple[str, str]]()
    for statement in body.split(";"):
        if not statement.strip():
            continue
        first, *more = split_top(statement.partition("=")[0] if "," not in statement else statement)
        if re.search(r"[():&=#]|\b(static|union|using)\b", statement.replace("::", "")):
            return []  # functions, bit fields: not told
        kind, name = _declared(first.partition("[")[0])
        base = kind.rstrip("* ")
        pointed = [(base + " *" * o.count("*"), o.partition("[")[0].replace("*", "").strip()) for o in more]
        for declared, (each, called) in zip([first, *more], [(kind, name), *pointed], strict=True):
            members += [(each, called + element) for element in _elements(declared, text)]
    return members if members and all(re.match(r"\w", name) for _, name in members) else []


def _elements(declared: str, text: str) -> list[str]:
    """Return the suffix of each element's name: an empty one for a plain member, none where their number is unknown.

    The elements of `m[2][3]` are in a row: `.0` to `.5`.
    """
    count = 1
    for extent in (extents := re.findall(r"\[\s*(\w*)\s*\]", declared)):
        count *= _number(extent, text) or 0
    if len(extents) != declared.count("["):
        return []
    return [f".{i}" for i in range(count)] if extents and count <= _MOST_ELEMENTS else [] if extents else [""]


def _number(written: str, text: str) -> int | None:
    """Return a whole number by its digits, or by the macro or constant of the source that it names."""
    if written.isdecimal():
        return int(written)
    name = re.escape(written)
    known = re.search(rf"# ?define {name} (\d+)|\b{name} ?= ?(\d+)", text) if written else None
    return int(known[1] or known[2]) if known else None


def ptx_types(text: str) -> dict[str, list[str]]:
    """Return the types of each PTX entry's parameters, as C++ writes them; `?` for pointers and what is not told."""
    types = {}
    for name, listed in _ENTRY.findall(text)[:_MOST_KERNELS]:
        rows = [row.split() for row in listed.split(",") if row.strip()]
        pointers = any(".ptr" in row for row in rows)
        types[name] = ["?" if ".ptr" in row else _ptx_type(row, pointers) for row in rows]
    return types


_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^()]*)\)")
_PTX_TYPES = {
    ".f32": "float", ".f64": "double", ".u32": "int", ".s32": "int", ".b32": "int", ".u16": "short", ".s16": "short",
    ".b16": "short", ".u8": "char", ".s8": "char",
}  # fmt: skip


def _ptx_type(row: list[str], pointers: bool) -> str:
    """Return the type of one parameter; `pointers`: whether the compiler marks those that are pointers."""
    kind = next((word for word in row if word in _PTX_TYPES or word in (".u64", ".s64", ".b64", ".b8")), "")
    return "long" if pointers and kind in (".u64", ".s64", ".b64") else _PTX_TYPES.get(kind, "?")


def with_types(text: str) -> str:
    """Return source without comments with the names that it gives to plain types replaced by them."""
    aliases = re.findall(r"\btypedef ([\w ]{1,40}?) (\w++) ?;", text)
    aliases += [(kind, name) for name, kind in re.findall(r"\busing (\w++) ?= ?([\w ]{1,40}?) ?;", text)]
    kinds = {name: kind for kind, name in reversed(aliases[:100]) if not kind.startswith("struct")}
    if not kinds:
        return text
    return re.sub(rf"\b(?:{'|'.join(kinds)})\b", lambda found: kinds[found[0]], text, count=_MOST_REPLACED)


def declared_variables(text: str) -> dict[str, tuple[str, bool]]:
    """Return, by name, the type of each `__device__` or `__constant__` variable, and whether the source sets it."""
    return {name: (kind, behind == "=") for kind, name, behind in reversed(_VARIABLE.findall(text))}


def shared_extent(body: str, long: str, text: str) -> int | None:
    """Return the first extent of a kernel's array in shared memory: a number, a macro, a constant, or a template's."""
    found = re.search(r"\b__shared__\b[^;\[]{0,400}+\[ ?(\w+)", body)
    if found is None:
        return None
    number = _number(found[1], text)
    if number is None:
        numbers = re.findall(r"(?<=[<, ])(\d+)(?=[uUlL]*[,>])", long)
        number = int(numbers[0]) if len(numbers) == 1 else None
    return number if number and number < 100_000 else None


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
        _, out = toolchain.serve("program.declarations", asked, _LIMIT_SECONDS)
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
    hits = fitting(readable, wanted) or fitting({name: _spelt(long) for name, long in readable.items()}, _spelt(wanted))
    if len(hits) == 1:
        return hits[0]
    shown = one_line(wanted)
    if hits:
        raise WarplensError(f"{file}: {shown!r} fits {len(hits)} kernels: {_shown(readable[n] for n in hits)}")
    hint = nearest(wanted, map(one_line, readable.values())) or f"; there are: {_shown(readable.values())}"
    raise WarplensError(f"{file}: no kernel {shown!r}{hint}")


def fitting(readable: dict[str, str], wanted: str) -> list[str]:
    """Return the names that `wanted` may mean, given all names as people write them."""
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
    return text if len(text) <= _LONGEST_NAME else name
