"""Machine code that several tests look at: compiled and taken apart once in a process, a file's kernels together."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from warplens.program import Options, load_programs, toolchain
from warplens.program.compile import compile_file
from warplens.program.cubin import Cubin
from warplens.program.load import Kernel, _by_encoding, _disassembled, _in_cubin
from warplens.program.program import Program
from warplens.workload.launch import KernelCall

OTHER_ORDER = "orders the instructions in another way than the code that was measured"


def skip_before(first: tuple[int, int], why: str) -> None:
    """Skip a test where the compiler is older than the first whose code it is about."""
    compiler = toolchain.found("NVRTC").version
    found = re.match(r"NVRTC (\d+)\.(\d+)", compiler)
    if found and (int(found[1]), int(found[2])) < first:
        pytest.skip(f"{compiler} {why}; {'.'.join(map(str, first))} and later do not")


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
        path.write_bytes(made := _cubin(file, arch, defines, fast, limit))
        found = _in_cubin(made, path)
        known = all(_needs_no_nvdisasm(kernel) for kernel in found)
        taken = [_disassembled(kernel, str(path)) for kernel in found] if known else load_programs(path).values()
        return {program.demangled.partition("(")[0]: program for program in taken}


def _needs_no_nvdisasm(kernel: Kernel) -> bool:
    """Whether a kernel's encoding is known, which test_encoding.py holds to nvdisasm: this takes a second."""
    cubin = kernel.container
    symbol = cubin.symbol(kernel.name) if isinstance(cubin, Cubin) else None
    return isinstance(cubin, Cubin) and symbol is not None and _by_encoding(kernel, cubin, symbol) is not None


@cache
def _cubin(file: Path, arch: str, defines: tuple[str, ...], fast: bool, limit: int | None) -> bytes:
    options = Options(arch=arch, defines=list(defines), fast_math=fast, register_limit=limit)
    with TemporaryDirectory(prefix="warplens-") as folder:
        return compile_file(file, options, Path(folder)).cubin.read_bytes()
