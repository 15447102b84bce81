"""Loader of programs: kernels of CUDA source, PTX, cubins, executables and listings.

.cu, .cuh, .ptx   compiled (`warplens.program.compile`)
.sass, .txt       a listing: of a disassembler, with its control codes if it has the machine words, or of a paper
.py               Triton, for a launch (`warplens.program.triton`)
anything else     a cubin, or a program, library, object or fat binary: the cubins in it, compressed or not, or its PTX
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from warplens.core.cache import Cache, key_of
from warplens.core.errors import FileError, WarplensError
from warplens.core.files import read_bytes, read_text
from warplens.core.processes import MissingTool, ToolError
from warplens.program import toolchain
from warplens.program.compile import Options, assemble, compile_file, sources
from warplens.program.cubin import (
    Cubin,
    embedded_cubins,
    function_names,
    is_cubin,
    link,
    parse_cubin,
    plain,
    relocations,
)
from warplens.program.declarations import choose, demangle, demangled
from warplens.program.disassembly import parse_bare, parse_disassembly, parse_words
from warplens.program.encoding import UnknownTable, source_lines, writer
from warplens.program.program import Program
from warplens.program.triton import extract, split_name

_FATBINARY = b"\x50\xed\x55\xba"
_BYTES_PER_SECOND, _BYTES_PER_BYTE = 5e6, 16  # time and memory of cuobjdump, by the size of the file
# Limits of nvdisasm by the size of a cubin: ten times the time and four times the memory of a healthy one.
_READ_PER_SECOND, _MEMORY_PER_BYTE = 16000.0, 500
_MAKERS = {".cu": ("NVRTC", "nvcc"), ".cuh": ("NVRTC", "nvcc"), ".ptx": ("ptxas",)}
# What nvcc obeys beside its arguments.
_HEEDED = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CPATH", "CPLUS_INCLUDE_PATH")
_LABEL_USED, _LABEL = re.compile(r"`\(\.L_x_(\d+)\)"), re.compile(r"\.L_x_(\d+)\b")


class Kernel(Struct, frozen=True):
    """A kernel in its container: a cubin, with its compilers and the files that nvcc read, or a listing."""

    name: str
    arch: str
    container: Cubin | Program
    tools: list[str] = []
    read: list[Path] = []


def is_source(path: str | Path) -> bool:
    """Return whether a file is compiled, for an architecture that may be chosen."""
    return Path(split_name(str(path))[0]).suffix in (".cu", ".cuh", ".ptx", ".py")


def list_kernels(path: str | Path, options: Options | None = None) -> list[str]:
    """Return the demangled names of all kernels in a file, each once."""
    found = demangled([kernel.name for kernel in found_kernels(Path(path), options or Options())])
    return list(dict.fromkeys(found.values()))


def load_program(
    path: str | Path, kernel: str | None = None, options: Options | None = None, found: list[Kernel] | None = None
) -> Program:
    """Load one kernel of a file; with several in it, `kernel` chooses by name (demangled, mangled or a part).

    `found` are the file's kernels, where they were looked for already.
    """
    return load_traced(Path(path), kernel, options or Options(), found)[0]


def load_traced(
    path: Path, kernel: str | None, options: Options, found: list[Kernel] | None = None
) -> tuple[Program, list[Path]]:
    """Load one kernel of a file; return with it the files that nvcc read, if that compiled it."""
    found = found_kernels(path, options) if found is None else found
    if not found:
        raise FileError(f"{path}: no kernel in it")
    name = choose(list(dict.fromkeys(k.name for k in found)), kernel, str(path))
    chosen = _for_arch([k for k in found if k.name == name], options.arch, path)
    if isinstance(chosen.container, Program):
        return without_padding(chosen.container, str(path)), []
    return _disassembled(chosen, str(path), options.toolkit), chosen.read


def program_in(cubin: bytes, kernel: str, path: Path, tools: list[str] | None = None) -> Program:
    """Load one kernel, by its mangled name, of a cubin that came from a file."""
    found = next((k for k in _in_cubin(cubin, path, tools) if k.name == kernel), None)
    if found is None:
        raise FileError(f"{path}: no kernel {kernel!r} in its machine code")
    return _disassembled(found, str(path))


def load_programs(path: str | Path) -> dict[str, Program]:
    """Load all kernels of a cubin by their mangled names, with one run of the disassembler for all of them."""
    path = Path(path)
    found = _in_cubin(read_bytes(path), path)
    if not found:
        raise FileError(f"{path}: no kernel in it")
    cubin = found[0].container
    assert isinstance(cubin, Cubin)
    texts, tool = _by_nvdisasm(cubin, str(path), [])
    functions = {function.name: function for function in texts}
    there = [kernel for kernel in found if plain(kernel.name) in functions]
    return {k.name: _with_resources(k, cubin, functions[plain(k.name)], str(path), tool) for k in there}


def found_kernels(path: Path, options: Options) -> list[Kernel]:
    """Return all kernels of a file, compiled where it is a source."""
    if path.suffix in (".sass", ".txt"):
        text = read_text(path)
        functions = parse_disassembly(text) or [parse_bare(text, str(path))]
        return [Kernel(function.name, function.arch, function) for function in functions]
    if path.suffix in (".cu", ".cuh", ".ptx"):
        with tempfile.TemporaryDirectory(prefix="warplens-") as folder:
            compiled = compile_file(path, options, Path(folder))
            found = _in_cubin(read_bytes(compiled.cubin), path, compiled.tools)
            return [replace(kernel, read=compiled.read) for kernel in found]
    script = Path(split_name(str(path))[0])
    if script.suffix == ".py" and extract(read_text(script), str(script)).parameters:
        raise FileError(f"{path}: a Triton kernel is compiled for a launch: give --launch, or --grid and so on")
    data = read_bytes(path)
    if is_cubin(data):
        return _in_cubin(data, path)
    return [kernel for piece in _cubins_in(path, data, options) for kernel in _in_cubin(piece, path)]


def _in_cubin(data: bytes, path: Path, tools: list[str] | None = None) -> list[Kernel]:
    cubin = parse_cubin(data, str(path))
    makers = tools or ([cubin.producer()] if cubin.producer() else [])
    return [Kernel(name, cubin.arch, cubin, makers) for name in cubin.kernels()]


def _cubins_in(path: Path, data: bytes, options: Options) -> list[bytes]:
    """Return the cubins inside a file, whose bytes are `data`."""
    loose = list(embedded_cubins(data))
    if _FATBINARY not in data:
        if not loose:
            raise FileError(f"{path}: not CUDA source, PTX, a cubin, or a program with CUDA machine code in it")
        return loose
    try:
        with tempfile.TemporaryDirectory(prefix="warplens-") as name:
            folder = Path(name)
            found = [read_bytes(file) for file in _extracted("elf", path, len(data), folder, options)]
            return found or loose or _from_ptx(path, len(data), options, folder)
    except ToolError as error:
        if loose:
            return loose  # what is not compressed needs no tool
        raise FileError(f"{path}: {error}") from None


def _extracted(kind: str, path: Path, size: int, folder: Path, options: Options) -> list[Path]:
    """Extract the machine code (`elf`) or the `ptx` of a file with cuobjdump."""
    limits = toolchain.TOOL_SECONDS + size / _BYTES_PER_SECOND, toolchain.TOOL_BYTES + _BYTES_PER_BYTE * size
    tool = toolchain.tool("cuobjdump", options.toolkit)
    toolchain.run("cuobjdump", f"-x{kind}", "all", path.resolve(), by=tool, folder=folder, limits=limits)
    return sorted(folder.glob("*.cubin" if kind == "elf" else f"*.{kind}"))


def _from_ptx(path: Path, size: int, options: Options, folder: Path) -> list[bytes]:
    """Assemble the PTX of a file."""
    assembled = []
    for i, ptx in enumerate(_extracted("ptx", path, size, folder, options)):
        out = folder / f"{i}.cubin"
        assemble(ptx, options, folder, out)
        assembled.append(read_bytes(out))
    if not assembled:
        raise FileError(f"{path}: a program without CUDA machine code or PTX in it")
    return assembled


def _for_arch(found: list[Kernel], arch: str, path: Path) -> Kernel:
    """Choose among the architectures that a kernel is there for: the one asked for, what runs on it, or the only one.

    Of code of the same major version that is not newer than the GPU, the newest runs.
    """
    there = sorted({kernel.arch for kernel in found})
    fitting = [k for k in found if k.arch == arch] or [k for k in found if k.arch.rstrip("af") == arch.rstrip("af")]
    if fitting or len(there) == 1:
        return (fitting or found)[0]
    asked = _version(arch)
    runs = [k for k in found if k.arch[-1] != "a" and _version(k.arch)[0] == asked[0] and _version(k.arch) < asked]
    if runs:
        return max(runs, key=lambda k: _version(k.arch))
    name = toolchain.one_line(demangle(found[0].name))
    raise WarplensError(
        f"{path}: {name} is there for {', '.join(there)}, and none runs on {arch}; name a GPU of one of these"
    )


def _version(arch: str) -> tuple[int, int]:
    """Return the compute capability of an architecture: (10, 3) of sm_103f."""
    number = int(re.sub(r"\D", "", arch) or 0)
    return divmod(number, 10)


def _disassembled(kernel: Kernel, origin: str, toolkit: str | None = None) -> Program:
    """Disassemble a kernel: by our own table of its encoding, or by nvdisasm."""
    cubin = kernel.container
    assert isinstance(cubin, Cubin)
    symbol = cubin.symbol(kernel.name)
    known = None if symbol is None else _by_encoding(kernel, cubin, symbol)
    if known is not None:
        return _with_resources(kernel, cubin, known, origin)
    only = [] if symbol is None else ["-fun", str(symbol)]
    if not cubin.computes_branches(kernel.name):
        only.append("-ndf")  # it does not look for their targets: a fifth of its time
    found, tool = _by_nvdisasm(cubin, origin, only, toolkit)
    function = next((f for f in found if symbol is not None or f.name == plain(kernel.name)), None)
    if function is None:
        raise FileError(f"{origin}: nvdisasm found no code for {toolchain.one_line(kernel.name)!r}")
    return _with_resources(kernel, cubin, function, origin, tool)


def _by_encoding(kernel: Kernel, cubin: Cubin, symbol: int) -> Program | None:
    """Disassemble by our own table, if every word is known and nvdisasm would add no more than lines and names."""
    name, words = kernel.name, writer(kernel.arch)
    if words is None or cubin.computes_branches(name) or any(relocations(cubin, f".text.{name}")):
        return None
    code = cubin.content(f".text.{name}")
    texts = words.texts(code)
    if texts is None:
        return None
    try:
        lines = source_lines(cubin, symbol)
    except UnknownTable:
        return None
    return parse_words(texts, code, name, kernel.arch, function_names(cubin, name), lines)


def _by_nvdisasm(cubin: Cubin, origin: str, only: list[str], toolkit: str | None = None) -> tuple[list[Program], str]:
    """Disassemble a cubin by an nvdisasm that is not older than its code; return its version too."""
    used = toolchain.found("nvdisasm", toolkit, cubin.producer().rpartition(" ")[2])
    size = len(cubin.elf)
    seconds = max(toolchain.TOOL_SECONDS, min(toolchain.COMPILER_SECONDS, size / _READ_PER_SECOND))
    limits = seconds, toolchain.TOOL_BYTES + _MEMORY_PER_BYTE * size
    with tempfile.TemporaryDirectory(prefix="warplens-") as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin.with_plain_names())
        arguments: list[str | Path] = ["-c", "-gi", "-hex", *only, file]
        try:
            text = toolchain.run("nvdisasm", *arguments, by=used.path, folder=folder, limits=limits)
        except ToolError as error:
            raise FileError(f"{origin}: its machine code is refused: {error}") from None
    if only:  # count the labels of the kernel from 0 on, as they are used, whatever other kernels are in its file
        names = dict.fromkeys([*_LABEL_USED.findall(text), *_LABEL.findall(text)])
        order = {number: position for position, number in enumerate(names)}
        text = _LABEL.sub(lambda found: f".L_x_{order[found[1]]}", text)
    return [_without_cuts(program) for program in parse_disassembly(text)], used.version


def _without_cuts(program: Program) -> Program:
    """Drop the numbered labels that no instruction names: nvdisasm 13.5 writes one where it cuts straight code."""
    named = {label for i in program.instructions if ".L_" in i.text for label in _LABEL.findall(i.text)}
    labels = {n: at for n, at in program.labels.items() if not (cut := _LABEL.fullmatch(n)) or cut[1] in named}
    return replace(program, labels=labels)


def _with_resources(kernel: Kernel, cubin: Cubin, program: Program, origin: str, *tools: str) -> Program:
    finished = without_padding(replace(program, name=kernel.name), origin)
    resources = cubin.resources(kernel.name)
    return link(replace(finished, resources=resources, tools=[*kernel.tools, *tools]), cubin)


def without_padding(program: Program, origin: str) -> Program:
    """Return a program without the padding behind its last instruction; `origin` is its file."""
    code = list(program.instructions)
    while len(code) > 1 and code[-1].opcode == "NOP":
        code.pop()
    offsets = {instruction.offset for instruction in code} if program.jump_targets else set()
    jumps = {at: tuple(t for t in targets if t in offsets) for at, targets in program.jump_targets.items()}
    return replace(
        program, demangled=demangle(program.name), instructions=code, jump_targets=jumps, origin=origin
    )  # fmt: skip


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
            identities.append(toolchain.found(name, toolkit).identity)
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
