"""CUDA source and PTX to a cubin.

.cu    NVRTC of the toolkit that compiles; its nvcc where it has no NVRTC, or NVRTC refuses the source (host code)
.ptx   ptxas
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from msgspec import Struct

from warplens.core.errors import RefusedSource, WarplensError
from warplens.core.files import read_text
from warplens.core.processes import ToolError
from warplens.program import compiler_flags as flags
from warplens.program import nvrtc, toolchain, toolkits
from warplens.program.compiler_messages import shown
from warplens.program.toolkits import OTHERWISE, Toolkit

DEFAULT_ARCH = "sm_90"
_NEEDS_HOST_COMPILER = "nvcc needs a host compiler (g++), and there is none on the PATH"


class Options(Struct, frozen=True):
    """How to compile: architecture, macros, include folders, and what else the compiler shall be told.

    Of a file with machine code for several architectures, `arch` chooses. `flags` are nvcc's, of those that may be
    given. `toolkit` is a folder or `wheels`; without it the installed toolkit compiles (`warplens.program.toolkits`).
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


class Compiled(Struct, frozen=True):
    """A cubin that was made: by which tools, and which files nvcc says that it read."""

    cubin: Path
    tools: list[str]
    read: list[Path] = []


def compile_file(path: Path, options: Options, folder: Path) -> Compiled:
    """Compile a file in a folder for what comes and goes."""
    if not re.fullmatch(r"sm_[0-9]{2,3}[af]?", options.arch):
        raise WarplensError(f"--arch must be like sm_90, not {toolchain.one_line(options.arch)!r}")
    source = read_text(path)
    for_nvrtc, for_nvcc = flags.checked(options.flags, str(path))
    toolkit = toolkits.chosen(options.toolkit)
    toolkit.refuse_if_old()
    if path.suffix == ".ptx":
        return assemble(path, options, folder, folder / "out.cubin")
    if (library := toolkit.nvrtc()) is None and toolkit.tool("nvcc") is None:
        raise toolchain.MissingTool(f"nothing that compiles CUDA is installed; {toolchain.bringing('NVRTC')}")
    _refuse_endless(path, options)
    refused: RefusedSource | None = None
    if library is not None and for_nvrtc == for_nvcc:
        try:
            return _by_nvrtc(path, source, options, toolkit, folder)
        except RefusedSource as error:
            refused = error
    if toolkit.tool("nvcc") is None:
        raise refused or toolchain.MissingTool(f"{path}: its flags need nvcc; {toolchain.bringing('nvcc')}")
    if shutil.which("gcc") is None and refused is not None:
        raise RefusedSource(refused.line, f"{refused.message}\n{_NEEDS_HOST_COMPILER}")
    return _by_nvcc(path, source, options, toolkit, folder)


def _refuse_endless(path: Path, options: Options) -> None:
    """Refuse a source that includes what is no plain file, or one that is too large."""
    from warplens.program.compile_cache import sources  # it imports this module

    for _ in sources(path, options):
        pass


def assemble(ptx: Path, options: Options, folder: Path, out: Path) -> Compiled:
    """Turn PTX into a cubin; where ptxas is older than the PTX, by that of the wheels."""
    limit = [f"--maxrregcount={options.register_limit}"] if options.register_limit else []
    arguments = [f"--gpu-name={options.arch}", *limit, "--output-file", str(out), str(ptx.resolve())]
    used = toolchain.found("ptxas", options.toolkit)
    code, text = _run(used.path, arguments, folder, str(ptx))
    if code and "Unsupported .version" in text and (newer := toolchain.newer("ptxas", used)):
        used = newer
        code, text = _run(used.path, arguments, folder, str(ptx))
    if code:
        names = {str(ptx.resolve()): str(ptx)}
        raise RefusedSource(f"{ptx}: {used.version} refused it:", shown(text, str(ptx), [ptx.parent], names, folder))
    return Compiled(out, [used.version])


def _by_nvrtc(path: Path, source: str, options: Options, toolkit: Toolkit, folder: Path) -> Compiled:
    out, library = folder / "out.cubin", toolkit.nvrtc()
    given = flags.checked(options.flags, str(path))[0] + [f"-D{d}" for d in options.defines]
    folders = [*map(Path, options.includes), path.resolve().parent, *toolkit.headers()]
    arguments = [*options.switches(), *given, *(f"-I{folder}" for folder in folders)]
    try:
        made = nvrtc.compile_source(source, str(path), options.arch, arguments, out, library)
    except RefusedSource as error:
        line = f"{path}: NVRTC {toolkit.version('NVRTC', 'nvidia-cuda-nvrtc')} {toolkit.where} refused it:"
        raise RefusedSource(line, shown(error.message, str(path), folders, {}, Path())) from None
    return Compiled(out, [f"{made} {toolkit.where}"])


def _by_nvcc(path: Path, source: str, options: Options, toolkit: Toolkit, folder: Path) -> Compiled:
    """Compile with nvcc, which hands its arguments to a shell: nothing that the user named is among them.

    But for the flags: they are of an allow-list.
    """
    name, out, nvcc = toolchain.one_line(str(path)), folder / "out.cubin", toolkit.tool("nvcc")
    assert nvcc is not None
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    defines = [" ".join(d.partition("=")[::2] if "=" in d else (d, "1")) for d in options.defines]
    head = "".join(f"#define {d}\n" for d in defines) + f'#line 1 "{quoted}"\n'
    (folder / "source.cu").write_text(head + source, encoding="utf-8", errors="replace")
    places = {f"include{i}": place for i, place in enumerate((*map(Path, options.includes), path.parent))}
    for link, place in places.items():
        (folder / link).symlink_to(place.resolve(), target_is_directory=True)
    beside = f"-Xcompiler=-iquote{[*places][-1]}"  # the copy is not beside what it includes in quotes
    given = [*options.switches(), *flags.checked(options.flags, name)[1], beside, *(f"-I{link}" for link in places)]
    arguments = ["-cubin", f"-arch={options.arch}", *given, "-MD", "-MF", "read.d", "-o", out.name, "source.cu"]
    version = f"nvcc {toolkit.version('nvcc', 'nvidia-cuda-nvcc')} {toolkit.where}"
    code, text = _run(nvcc, arguments, folder, name)
    if code:
        _refuse_unknown(text, options.arch, version)
        folders = [*places.values(), *toolkit.headers()]
        names = {"source.cu": name, **{link: str(place) for link, place in places.items()}}
        text = shown(text, name, folders, names, folder)
        raise RefusedSource(f"{name}: {version} refused it:", _with_hint(text))
    return Compiled(out, [version], _read(folder))


def _run(program: Path, arguments: list[str], folder: Path, name: str) -> tuple[int, str]:
    """Run a compiler in a folder; return its exit code and all that it said. What is beyond our limits is refused."""
    limits = toolchain.COMPILER_SECONDS, toolchain.COMPILER_BYTES
    try:
        code, out, err = toolchain.execute([str(program), *arguments], *limits, folder=folder)
    except OSError as error:
        raise ToolError(f"{program} could not be run: {error.strerror or error}") from None
    if beyond := toolchain.excess(code, err + out, *limits):
        raise ToolError(f"{name}: {program.name} {beyond}; compile it yourself and give the cubin")
    return code, (err + out).decode("utf-8", "replace")


def _refuse_unknown(text: str, arch: str, version: str) -> None:
    """Raise an error where a compiler says that it does not know the architecture."""
    if re.search(r"^nvcc fatal.*(gpu-architecture|[Uu]nsupported gpu architecture)", text, re.MULTILINE):
        raise nvrtc.UnknownArchitecture(f"{version} does not compile for {arch}; {OTHERWISE}")


def _with_hint(text: str) -> str:
    return text if shutil.which("gcc") else f"{text}\n{_NEEDS_HOST_COMPILER}"


def _read(folder: Path) -> list[Path]:
    """Return the files that nvcc read, by its list of dependencies; links that we made are followed.

    The list has the source by its name in `#line` too, relative to another folder: what is not there is left out.
    """
    try:
        text = (folder / "read.d").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    names = re.findall(r"((?:\\.|[^\s\\])+)", text.partition(" : ")[2].replace("\\\n", " "))
    files = [folder / re.sub(r"\\(.)", r"\1", name) for name in names]
    return [file.resolve() for file in files if file.is_file() and file != folder / "source.cu"]
