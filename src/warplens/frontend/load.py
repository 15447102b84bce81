"""Files to programs: CUDA source, PTX, cubins, and executables or libraries with cubins in them.

.cu    NVRTC; nvcc where the source has host code and nvcc is installed
.ptx   ptxas
.cubin and anything else that is or contains a cubin
.sass, .txt   a disassembler's listing, then without control codes
"""

from __future__ import annotations

import ctypes
import ctypes.util
import re
import tempfile
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from warplens.errors import FileError, WarplensError, nearest
from warplens.files import read_text
from warplens.frontend import nvrtc, toolchain
from warplens.frontend.classes import classified
from warplens.frontend.cubin import INSTRUCTION_BYTES, Cubin, embedded_cubins, is_cubin, is_elf, parse_cubin, read_bytes
from warplens.frontend.disassembly import Function, control_of, hidden_descriptor, parse_disassembly
from warplens.kernel.instruction import Instruction
from warplens.kernel.program import Program, Resources

DEFAULT_ARCH = "sm_90"
_DISASSEMBLY_SECONDS = 20.0  # a kernel of 10,000 instructions takes two; a damaged one may hang it


class Options(Struct, frozen=True):
    """How to compile: architecture, macros, include folders, and what else the compiler shall be told."""

    arch: str = DEFAULT_ARCH
    defines: list[str] = []
    includes: list[str] = []
    fast_math: bool = False
    register_limit: int | None = None

    def flags(self) -> list[str]:
        """Return the options as NVRTC and nvcc both take them."""
        made = [f"-D{d}" for d in self.defines] + [f"-I{i}" for i in self.includes]
        made += ["--use_fast_math"] if self.fast_math else []
        return made + ([f"--maxrregcount={self.register_limit}"] if self.register_limit else [])


class Binary(Struct, frozen=True):
    """A cubin with the tools that made it."""

    cubin: Cubin
    tools: list[str]


def list_kernels(path: str | Path, options: Options | None = None) -> list[str]:
    """Return the demangled names of all kernels in a file."""
    return [demangle(name) for binary in _binaries(Path(path), options or Options()) for name in binary.cubin.kernels()]


def load_program(path: str | Path, kernel: str | None = None, options: Options | None = None) -> Program:
    """Load one kernel of a file; with several in it, `kernel` chooses by name (demangled, mangled or a part)."""
    path, options = Path(path), options or Options()
    if path.suffix in (".sass", ".txt"):
        return _from_listing(path, kernel)
    found = [(binary, name) for binary in _binaries(path, options) for name in binary.cubin.kernels()]
    if not found:
        raise FileError(f"{path}: no kernel in it")
    binary, name = found[_choose([n for _, n in found], kernel, str(path))]
    return _program(binary, name, str(path))


def _choose(names: list[str], wanted: str | None, file: str) -> int:
    readable = [demangle(name) for name in names]
    if wanted is None:
        if len(names) == 1:
            return 0
        raise WarplensError(f"{file}: {len(names)} kernels; choose one with --kernel: {', '.join(_shown(readable))}")
    exact = [i for i, n in enumerate(names) if wanted in (n, readable[i], readable[i].partition("(")[0])]
    hits = exact or [i for i, name in enumerate(readable) if wanted in name]
    if len(hits) == 1:
        return hits[0]
    if hits:
        fitting = ", ".join(_shown([readable[i] for i in hits]))
        raise WarplensError(f"{file}: {wanted!r} fits {len(hits)} kernels: {fitting}")
    hint = nearest(wanted, readable) or f"; there are: {', '.join(_shown(readable))}"
    raise WarplensError(f"{file}: no kernel {wanted!r}{hint}")


def _shown(names: list[str]) -> list[str]:
    short = [name if len(name) <= 80 else name[:77] + "..." for name in names[:8]]
    return short + ([f"and {len(names) - 8} more"] if len(names) > 8 else [])


def _binaries(path: Path, options: Options) -> list[Binary]:
    """Compile or read a file into its cubins."""
    if path.suffix in (".cu", ".cuh", ".ptx"):
        if not re.fullmatch(r"sm_\d+[af]?", options.arch):
            raise WarplensError(f"--arch must be like sm_90, not {options.arch!r}")
        with tempfile.TemporaryDirectory(prefix="warplens-") as folder:
            out = Path(folder) / "out.cubin"
            tools = _compile(path, options, out)
            return [Binary(parse_cubin(read_bytes(out), path.name), tools)]
    data = read_bytes(path)
    if is_cubin(data):
        return [_known(data, path.name)]
    pieces = list(embedded_cubins(data))
    if not pieces and (is_elf(data) or b"\x50\xed\x55\xba" in data):  # a fat binary's magic: compressed ones
        pieces = _extracted(path)
    if not pieces:
        raise FileError(f"{path}: not CUDA source, PTX, a cubin, or a program with CUDA machine code in it")
    return [_known(piece, path.name) for piece in pieces]


def _known(data: bytes, name: str) -> Binary:
    cubin = parse_cubin(data, name)
    return Binary(cubin, [cubin.producer()] if cubin.producer() else [])


def _extracted(path: Path) -> list[bytes]:
    """Have cuobjdump unpack the cubins of a program whose fat binary is compressed."""
    with tempfile.TemporaryDirectory(prefix="warplens-") as folder:
        arguments = ["-xelf", "all", str(path.resolve())]
        toolchain.run("cuobjdump", *arguments, folder=folder)
        return [file.read_bytes() for file in sorted(Path(folder).glob("*.cubin"))]


def _compile(path: Path, options: Options, out: Path) -> list[str]:
    if path.suffix == ".ptx":
        read_text(path)
        limit = [f"--maxrregcount={options.register_limit}"] if options.register_limit else []
        toolchain.run("ptxas", f"--gpu-name={options.arch}", *limit, "--output-file", out, path.resolve())
        return [toolchain.version("ptxas")]
    source = read_text(path)
    includes = [f"-I{folder}" for folder in (path.resolve().parent, *toolchain.include_folders())]
    try:
        return [nvrtc.compile_source(source, str(path), options.arch, [*options.flags(), *includes, "-lineinfo"], out)]
    except WarplensError as error:
        if not _has_host_code(source):
            raise
        try:
            toolchain.tool("nvcc")
        except toolchain.ToolError:
            raise WarplensError(
                f"{path}: has host code, which NVRTC refuses, and nvcc is not installed: {error}"
            ) from None
        command: list[str | Path] = [
            "-cubin",
            f"-arch={options.arch}",
            "-lineinfo",
            *options.flags(),
            "-o",
            out,
            path.resolve(),
        ]
        toolchain.run("nvcc", *command)
        return [toolchain.version("nvcc")]


def _has_host_code(source: str) -> bool:
    return bool(
        re.search(r"\bint\s+main\s*\(|<<<|#\s*include\s*<(iostream|vector|string|chrono|thread|cub/|thrust/)", source)
    )


def _program(binary: Binary, name: str, origin: str) -> Program:
    cubin = binary.cubin
    with tempfile.TemporaryDirectory(prefix="warplens-") as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin.elf)
        try:
            text = toolchain.run("nvdisasm", "-c", "-g", file, limit_seconds=_DISASSEMBLY_SECONDS)
        except toolchain.ToolError as error:
            if "is not installed" in str(error) or "within" in str(error):
                raise
            raise FileError(f"{origin}: nvdisasm refuses its machine code: {_first_line(error)}") from None
    function = next((f for f in parse_disassembly(text) if f.name == name), None)
    if function is None:
        raise FileError(f"{origin}: nvdisasm found no code for {name!r}")
    words = cubin.words(name)
    if len(words) < 2 * (function.instructions[-1].offset // INSTRUCTION_BYTES + 1):
        raise FileError(f"{origin}: {name}: machine code and disassembly do not fit together")
    tools = [*binary.tools, toolchain.version("nvdisasm")]
    return _assembled(function, cubin.resources(name), origin, tools, words)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200]


def _assembled(
    function: Function, resources: Resources, origin: str, tools: list[str], words: tuple[int, ...] | None
) -> Program:
    code: list[Instruction] = []
    for instruction in function.instructions:
        at = instruction.offset // INSTRUCTION_BYTES
        kind = classified(instruction.opcode, instruction.modifiers)
        if words is None:
            code.append(replace(instruction, kind=kind))
            continue
        low, high = words[2 * at], words[2 * at + 1]
        reads = tuple(dict.fromkeys((*instruction.reads, *hidden_descriptor(function.arch, instruction, low, high))))
        code.append(replace(instruction, control=control_of(high), kind=kind, reads=reads))
    while code and code[-1].opcode == "NOP":  # padding behind the last instruction
        code.pop()
    return Program(
        name=function.name,
        demangled=demangle(function.name),
        arch=function.arch,
        instructions=code,
        resources=resources,
        labels=function.labels,
        jump_targets=function.jump_targets,
        source_file=next(iter(function.files.values()), ""),
        origin=origin,
        tools=tools,
    )


def _from_listing(path: Path, kernel: str | None) -> Program:
    """Read a disassembler's text: instructions without control codes."""
    functions = [f for f in parse_disassembly(read_text(path)) if f.instructions]
    if not functions:
        raise FileError(f"{path}: no instructions found; a listing has lines like `/*0010*/ FADD R1, R1, R2 ;`")
    chosen = functions[_choose([f.name for f in functions], kernel, str(path))]
    return _assembled(chosen, Resources(), str(path), [], None)


@cache
def _demangler() -> ctypes.CDLL | None:
    found = ctypes.util.find_library("stdc++") or "libstdc++.so.6"
    try:
        library = ctypes.CDLL(found)
        library.__cxa_demangle.restype = ctypes.c_void_p
    except (OSError, AttributeError):
        return None
    return library


def demangle(name: str) -> str:
    """Return a C++ symbol as people write it; a name that is none comes back as it is."""
    library = _demangler() if name.startswith("_Z") else None
    if library is None:
        return name
    status = ctypes.c_int()
    pointer = library.__cxa_demangle(name.encode("utf-8", "replace"), None, None, ctypes.byref(status))
    if status.value or not pointer:
        return name
    text = ctypes.cast(pointer, ctypes.c_char_p).value or b""
    return text.decode("utf-8", "replace")
