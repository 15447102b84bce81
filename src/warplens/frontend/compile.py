"""CUDA source and PTX to a cubin.

.cu    NVRTC; nvcc where the source has host code and nvcc is installed
.ptx   ptxas
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from warplens.errors import WarplensError
from warplens.files import read_text
from warplens.frontend import nvrtc, toolchain

DEFAULT_ARCH = "sm_90"
_HOST = re.compile(r"\bint\s+main\s*\(|<<<|#\s*include\s*<(iostream|vector|string|chrono|thread|cub/|thrust/)")


class Options(Struct, frozen=True):
    """How to compile: architecture, macros, include folders, and what else the compiler shall be told.

    Of a file with machine code for several architectures, `arch` chooses.
    """

    arch: str = DEFAULT_ARCH
    defines: list[str] = []
    includes: list[str] = []
    fast_math: bool = False
    register_limit: int | None = None

    def flags(self) -> list[str]:
        """Return what NVRTC and nvcc both take, macros and folders left out."""
        limit = [f"--maxrregcount={self.register_limit}"] if self.register_limit else []
        return ["-lineinfo", *(["--use_fast_math"] if self.fast_math else []), *limit]


def compile_file(path: Path, options: Options, folder: Path) -> tuple[Path, list[str]]:
    """Compile a file in a folder for what comes and goes; return the cubin and the tools that made it."""
    if not re.fullmatch(r"sm_[0-9]{2,3}[af]?", options.arch):
        raise WarplensError(f"--arch must be like sm_90, not {toolchain.one_line(options.arch)!r}")
    out = folder / "out.cubin"
    source = read_text(path)
    if path.suffix == ".ptx":
        assemble(path.resolve(), options, folder, out)
        return out, [toolchain.version("ptxas")]
    try:
        folders = [*options.includes, path.resolve().parent, *toolchain.include_folders()]
        given = [f"-D{d}" for d in options.defines] + [f"-I{i}" for i in folders]
        made = nvrtc.compile_source(source, str(path), options.arch, [*options.flags(), *given], out)
        return out, [made]
    except WarplensError as error:
        if not _HOST.search(source) and not isinstance(error, toolchain.MissingTool):
            raise
        try:
            toolchain.tool("nvcc")
        except toolchain.MissingTool:
            if isinstance(error, toolchain.MissingTool):
                raise error from None
            raise WarplensError(
                f"{path}: has host code, which NVRTC refuses, and nvcc is not installed: {error}"
            ) from None
    _by_nvcc(path, source, options, folder, out)
    return out, [toolchain.version("nvcc")]


def assemble(ptx: Path, options: Options, folder: Path, out: Path) -> None:
    """Turn PTX into a cubin."""
    limit = [f"--maxrregcount={options.register_limit}"] if options.register_limit else []
    toolchain.run("ptxas", f"--gpu-name={options.arch}", *limit, "--output-file", out, ptx, folder=folder)


def _by_nvcc(path: Path, source: str, options: Options, folder: Path, out: Path) -> None:
    """Compile with nvcc, which hands its arguments to a shell: nothing that the user named is among them."""
    shown = toolchain.one_line(str(path)).replace("\\", "\\\\").replace('"', '\\"')
    defines = [" ".join(d.partition("=")[::2] if "=" in d else (d, "1")) for d in options.defines]
    head = "".join(f"#define {d}\n" for d in defines) + f'#line 1 "{shown}"\n'
    (folder / "source.cu").write_text(head + source, encoding="utf-8", errors="replace")
    includes: list[str] = []
    for place in (*map(Path, options.includes), path.parent):
        includes.append(f"-Iinclude{len(includes)}")
        (folder / includes[-1].removeprefix("-I")).symlink_to(place.resolve(), target_is_directory=True)
    arguments = ["-cubin", f"-arch={options.arch}", *options.flags(), *includes, "-o", out.name, "source.cu"]
    toolchain.run("nvcc", *arguments, folder=folder)
