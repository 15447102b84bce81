"""Compilation of CUDA source and PTX to a cubin.

.cu    NVRTC of the toolkit that compiles; its nvcc where it has no NVRTC, or NVRTC refuses the source (host code)
.ptx   ptxas
"""

from __future__ import annotations

import contextlib
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from warplens.core.errors import FileError, RefusedSource, WarplensError
from warplens.core.files import LARGEST_TEXT_BYTES, read_text
from warplens.core.processes import MissingTool
from warplens.core.units import printable
from warplens.program import nvrtc, toolchain
from warplens.program.toolchain import OTHERWISE, Toolkit

_NEEDS_HOST_COMPILER = "nvcc needs a host compiler (g++), and there is none on the PATH"
# A message's first line: the C++ front end's `k.cu(3): error`, the host compiler's `k.cu:3:5: error`.
_POSITION = re.compile(
    r"(?P<file>\S.*?)(\(\d+\)|:\d+(:\d+)?): "
    r"(?=(fatal|catastrophic|internal|command-line)? ?(error|warning|note|remark)\b)",
    re.IGNORECASE,
)
_SUMMARY = re.compile(
    r"\d+ (catastrophic )?errors? detected in the compilation of |[Cc]ompilation terminated|(nvcc|ptxas) +(fatal|error)"
)
_ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?", re.DOTALL)
_MOST_LINES, _MOST_CHARACTERS = 60, 400  # of a message, and of a line


class Compiled(Struct, frozen=True):
    """A cubin, the tools that compiled it, and the files that nvcc says it read."""

    cubin: Path
    tools: list[str]
    read: list[Path] = []


def compile_file(path: Path, options: Options, folder: Path) -> Compiled:
    """Compile a file in a temporary folder."""
    if not re.fullmatch(r"sm_[0-9]{2,3}[af]?", options.arch):
        raise WarplensError(f"--arch must be like sm_90, not {toolchain.one_line(options.arch)!r}")
    source = read_text(path)
    for_nvrtc, for_nvcc = checked_flags(options.flags, str(path))
    toolkit = toolchain.chosen(options.toolkit)
    toolkit.refuse_if_old()
    if path.suffix == ".ptx":
        return assemble(path, options, folder, folder / "out.cubin")
    nvcc, library = toolkit.tool("nvcc"), toolkit.tool("NVRTC")
    if nvcc is None and library is None:
        raise MissingTool(f"nothing that compiles CUDA is installed; {toolchain.bringing('NVRTC')}")
    for _ in sources(path, options):  # refuses what is no plain file, or is too large
        pass
    refused: RefusedSource | None = None
    if library is not None and for_nvrtc == for_nvcc:
        try:
            return _by_nvrtc(path, source, options, toolkit, folder)
        except RefusedSource as error:
            refused = error
    if nvcc is None:
        raise refused or MissingTool(f"{path}: its flags need nvcc; {toolchain.bringing('nvcc')}")
    if shutil.which("gcc") is None and refused is not None:
        raise RefusedSource(refused.line, f"{refused.message}\n{_NEEDS_HOST_COMPILER}")
    return _by_nvcc(path, source, options, toolkit, folder)


def assemble(ptx: Path, options: Options, folder: Path, out: Path) -> Compiled:
    """Assemble PTX to a cubin; where ptxas is older than the PTX, by that of the wheels."""
    limit = [f"--maxrregcount={options.register_limit}"] if options.register_limit else []
    arguments = [f"--gpu-name={options.arch}", *limit, "--output-file", str(out), str(ptx.resolve())]
    used = toolchain.found("ptxas", options.toolkit)
    code, text = _run(used.path, arguments, folder, str(ptx))
    if code and "Unsupported .version" in text and (newer := toolchain.newer("ptxas", used)):
        used = newer
        code, text = _run(used.path, arguments, folder, str(ptx))
    if code:
        message = shown_message(text, str(ptx), [ptx.parent], {str(ptx.resolve()): str(ptx)}, folder)
        raise RefusedSource(f"{ptx}: {used.version} refused it:", message)
    return Compiled(out, [used.version])


def _by_nvrtc(path: Path, source: str, options: Options, toolkit: Toolkit, folder: Path) -> Compiled:
    out, library = folder / "out.cubin", toolkit.tool("NVRTC")
    flags = checked_flags(options.flags, str(path))[0] + [f"-D{d}" for d in options.defines]
    folders = [*map(Path, options.includes), path.resolve().parent, *toolkit.headers()]
    arguments = [*options.switches(), *flags, *(f"-I{folder}" for folder in folders)]
    try:
        version = nvrtc.compile_source(source, str(path), options.arch, arguments, out, library)
    except RefusedSource as error:
        line = f"{path}: {toolkit.named('NVRTC')} refused it:"
        raise RefusedSource(line, shown_message(error.message, str(path), folders, {}, Path())) from None
    return Compiled(out, [f"{version} {toolkit.where}"])


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
    links = {f"include{i}": target for i, target in enumerate((*map(Path, options.includes), path.parent))}
    for link, target in links.items():
        (folder / link).symlink_to(target.resolve(), target_is_directory=True)
    beside = f"-Xcompiler=-iquote{[*links][-1]}"  # the copy is not beside what it includes in quotes
    flags = [*options.switches(), *checked_flags(options.flags, name)[1], beside, *(f"-I{link}" for link in links)]
    arguments = ["-cubin", f"-arch={options.arch}", *flags, "-MD", "-MF", "read.d", "-o", out.name, "source.cu"]
    version = toolkit.named("nvcc")
    code, text = _run(nvcc, arguments, folder, name)
    if code:
        if re.search(r"^nvcc fatal.*(gpu-architecture|[Uu]nsupported gpu architecture)", text, re.MULTILINE):
            raise WarplensError(f"{version} does not compile for {options.arch}; {OTHERWISE}")
        folders = [*links.values(), *toolkit.headers()]
        names = {"source.cu": name, **{link: str(target) for link, target in links.items()}}
        text = shown_message(text, name, folders, names, folder)
        hint = "" if shutil.which("gcc") else f"\n{_NEEDS_HOST_COMPILER}"
        raise RefusedSource(f"{name}: {version} refused it:", text + hint)
    return Compiled(out, [version], _files_read(folder))


def _run(program: Path, arguments: list[str], folder: Path, name: str) -> tuple[int, str]:
    """Run a compiler in a folder within our limits; return its exit code and its messages."""
    hint = "; compile it yourself and give the cubin"
    limits = toolchain.COMPILER_SECONDS, toolchain.COMPILER_BYTES
    code, out, err = toolchain.ran(f"{name}: {program.name}", program, arguments, folder, limits, hint)
    return code, err + out


def _files_read(folder: Path) -> list[Path]:
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


def shown_message(text: str, source: str, folders: Iterable[Path], names: dict[str, str], where: Path) -> str:
    """Return a compiler's message on a source, without a word of files that the user did not name.

    A source can include any file that its user may read, and a compiler quotes the line that it stops at. So a message
    on a file is shown where that is in the source's folder, an include folder or the toolkit's; elsewhere one line
    names the file. `folders` are those whose files may be quoted; `names` has what to write for the start of a file's
    name; `where` is the folder in which the compiler ran, to which other names are relative.
    """
    homes = [folder.resolve() for folder in folders]
    lines, quoted = list[str](), True
    for line in _ESCAPE.sub("", text).splitlines():
        position = _POSITION.match(line)
        if position:
            name = _renamed(position["file"], names)
            base = Path() if name != position["file"] else where
            quoted = name == source or _is_in(base / name, homes)
            if not quoted and (hidden := f"in {name} (not shown)") not in lines[-1:]:
                lines.append(hidden)
        elif _SUMMARY.match(line):
            quoted = True
        if quoted:
            lines.append(_renamed(line, names))
    clean = [printable(line.expandtabs().rstrip()[:_MOST_CHARACTERS]) for line in lines]
    more = [f"... {len(clean) - _MOST_LINES} lines more"] if len(clean) > _MOST_LINES else []
    return "\n".join([*clean[:_MOST_LINES], *more]).strip("\n")


def _is_in(file: Path, homes: list[Path]) -> bool:
    try:
        real = file.resolve()
    except (OSError, RuntimeError, ValueError):
        return False
    return any(real.is_relative_to(home) for home in homes)


def _renamed(line: str, names: dict[str, str]) -> str:
    for there, here in names.items():
        line = here.join(re.split(rf"(?<![\w./-]){re.escape(there)}(?![\w.-])", line))
    return line


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
