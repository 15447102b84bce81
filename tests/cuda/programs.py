"""Machine code that several tests look at: compiled and taken apart once in a process, a file's kernels together."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from warplens.frontend import Options, load_programs
from warplens.frontend.compile import compile_file
from warplens.kernel.launch import KernelCall
from warplens.kernel.program import Program


def program_of(call: KernelCall) -> Program:
    """Return the kernel that a launch file calls, compiled as it says."""
    return programs(Path(call.folder) / str(call.file), options_of(call))[str(call.kernel)]


def options_of(call: KernelCall, arch: str = "sm_90") -> Options:
    """Return how a launch file wants its kernel compiled."""
    return Options(arch=arch, defines=call.defines, fast_math=call.fast_math, register_limit=call.register_limit)


def programs(file: Path, options: Options) -> dict[str, Program]:
    """Return the kernels of a file by their names without arguments."""
    return _programs(file, options.arch, tuple(options.defines), options.fast_math, options.register_limit)


def cubin(file: Path, options: Options) -> bytes:
    """Return what the compiler makes of a file."""
    return _cubin(file, options.arch, tuple(options.defines), options.fast_math, options.register_limit)


@cache
def _programs(file: Path, arch: str, defines: tuple[str, ...], fast: bool, limit: int | None) -> dict[str, Program]:
    with TemporaryDirectory(prefix="warplens-") as folder:
        path = Path(folder) / "kernels.cubin"
        path.write_bytes(_cubin(file, arch, defines, fast, limit))
        return {made.demangled.partition("(")[0]: made for made in load_programs(path).values()}


@cache
def _cubin(file: Path, arch: str, defines: tuple[str, ...], fast: bool, limit: int | None) -> bytes:
    options = Options(arch=arch, defines=list(defines), fast_math=fast, register_limit=limit)
    with TemporaryDirectory(prefix="warplens-") as folder:
        return compile_file(file, options, Path(folder))[0].read_bytes()
