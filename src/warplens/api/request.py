"""Kernel and call as a user asks for them: a file, a launch file, values of a call, or some of each.

Request.of("saxpy.cu", "saxpy.toml", {})                               a launch file
Request.of("saxpy.cu", None, {"grid": 64, "block": 256, "args": {...}})  values of the call in its stead
load(request, machine)                                                   the Program, and the call as the GPU gets it
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from warplens.core.cache import Cache
from warplens.core.errors import WarplensError, nearest, refuse
from warplens.core.file_kinds import CODE, kind_of, refusal
from warplens.machine import Machine
from warplens.program import Options
from warplens.program.declarations import choose
from warplens.program.load import found_kernels, is_source, kept, load_program
from warplens.program.program import Program
from warplens.program.triton import split_name
from warplens.workload.command_line import Flags, call_of, changed
from warplens.workload.compiled_call import OLDEST, architecture, load_call, source_of
from warplens.workload.interface import Interface, interfaces
from warplens.workload.launch import KernelCall, load_launch


class Call(TypedDict, total=False):
    """Values of a kernel's call, beside a launch file or in its stead; which kernel of a file, and how it is compiled.

    `args` and `variables` map a name to a number, to the count of an array's elements, or to a text as the command
    line takes it: `{"n": 1 << 20, "x": 1 << 20, "keys": "u32[4096]:iota"}`. `variant` names variants of a launch file.
    """

    grid: int | Sequence[int]
    block: int | Sequence[int]
    args: Mapping[str, Any]
    variables: Mapping[str, Any]
    shared_bytes: int
    num_warps: int
    variant: str
    kernel: str | None
    options: Options | None


class NoCall(WarplensError):
    """A kernel's file without a call. `kernels` are the interfaces of its kernels, from which a call can be suggested.

    `several` says that the file has more than one kernel, so that a command has to name the one that it means.
    """

    def __init__(self, file: str, kernels: list[Interface], *, several: bool) -> None:
        super().__init__(
            f"{file}: how is the kernel launched? Give grid, block and arguments, or a launch file, which "
            f"`warplens init {file}` writes"
        )
        self.file, self.kernels, self.several = file, kernels, several


class Request(Struct, frozen=True, kw_only=True):
    """A kernel and its call as they are asked for: what is left out comes from the launch file.

    `flags` is what is given beside the launch file or in its stead, `cache` keeps compiled kernels.
    """

    file: str | None = None
    launch: KernelCall | None = None
    kernel: str | None = None
    flags: Flags = Flags()
    options: Options = Options()
    cache: Cache = Cache(None)

    @classmethod
    def of(cls, file: str | Path | None, launch: KernelCall | str | Path | None, call: Call) -> Request:
        """Read the launch file, which may be given as the file, and check the values of a call."""
        for key in call.keys() - Call.__annotations__.keys():
            raise WarplensError(f"{key}: unknown value of a call{nearest(key, Call.__annotations__)}")
        variant = call.get("variant", "")
        if launch is None and file is not None and kind_of(split_variant(str(file))[0]) == "launch":
            file, launch = None, file
        if isinstance(launch, (str, Path)):
            launch, named = split_variant(str(launch))
            variant = ",".join(filter(None, (named, variant)))
        if variant and (launch is None or isinstance(launch, KernelCall)):
            raise WarplensError("a variant is one of a launch file: name the file")
        flags = Flags(
            grid=_shape(call, "grid"), block=_shape(call, "block"), shared=_whole(call, "shared_bytes"),
            num_warps=_whole(call, "num_warps"), arguments=_written(call, "args"),
            variables=_written(call, "variables"),
        )  # fmt: skip
        chosen_call = launch if launch is None or isinstance(launch, KernelCall) else load_launch(launch, variant)
        return cls(
            file=None if file is None else str(file),
            launch=chosen_call,
            kernel=call.get("kernel"),
            flags=flags,
            options=call.get("options") or Options(),
        )


def split_variant(name: str) -> tuple[str, str]:
    """Return the file and the variant of `L.toml:VARIANT`; an empty variant where none is named."""
    path, _, variant = name.rpartition(":") if re.search(r"\.toml:[\w,.-]+$", name) else (name, "", "")
    return path, variant


def _shape(call: Call, key: Literal["grid", "block"]) -> str | None:
    """Return a grid or block as the command line writes it."""
    given = call.get(key)
    if given is None:
        return None
    extents = [given] if isinstance(given, (int, np.integer)) else given
    if isinstance(extents, str) or not isinstance(extents, Sequence) or not all(map(_is_whole, extents)):
        raise WarplensError(f"{key}: one to three whole numbers are wanted, as in 1024 or (128, 64), not {given!r}")
    return ",".join(str(extent) for extent in extents)


def _whole(call: Call, key: Literal["shared_bytes", "num_warps"]) -> int | None:
    given = call.get(key)
    refuse(given is not None and not _is_whole(given), f"{key}: a whole number is wanted, not {given!r}")
    return given


def _is_whole(given: object) -> bool:
    return isinstance(given, (int, np.integer)) and not isinstance(given, bool)


def _written(call: Call, key: Literal["args", "variables"]) -> list[str]:
    """Return arguments as the command line writes them: `n=1024`."""
    given = call.get(key, {})
    if not isinstance(given, Mapping):
        raise WarplensError(f"{key}: values by name are wanted, as in {{'n': 1024}}, not {type(given).__name__}")
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, (int, float, str, np.number)) or value == "":
            raise WarplensError(
                f"{key}: {name}: a number, the count of an array's elements or a text such as 'f32[1024]:random' is "
                f"wanted, not {type(value).__name__}"
            )
    numbers = {name: value.item() if isinstance(value, np.number) else value for name, value in given.items()}
    return [f"{name}={int(value) if isinstance(value, bool) else value}" for name, value in numbers.items()]


def load(request: Request, machine: Machine) -> tuple[Program, KernelCall]:
    """Load the kernel that is asked for, and its call as the GPU gets it: of Triton kernels the compiler says that."""
    file, call = request.file, request.launch
    if call is not None:
        call = changed(call, request.flags) if request.flags else call
        path, how = source_of(call, architecture(machine, OLDEST), file, request.options)
        if Path(split_name(str(path))[0]).suffix == ".py" or not path.is_file():
            return load_call(path, request.kernel, call, how)
        return kept(path, request.kernel or call.kernel, how, request.cache), call
    if file is None:
        raise WarplensError("name a kernel's file (.cu, .ptx, .cubin, .py) or a launch file")
    arch = architecture(machine, OLDEST)
    how = replace(request.options, arch=arch) if is_source(file) else Options(arch, toolkit=request.options.toolkit)
    there, kernels = kernels_of(file, how)
    script, named = split_name(file)
    wanted = named or request.kernel
    meant = kernels if wanted is None and not request.flags else [chosen(kernels, wanted, file)]
    if not request.flags:
        raise NoCall(file, meant, several=len(kernels) > 1 and named is None)
    if Path(script).suffix == ".py":
        call = call_of(meant[0], request.flags, script)
        return load_call(f"{script}:{meant[0].chosen}", request.kernel, call, how)
    return load_program(file, meant[0].demangled, how, there), call_of(meant[0], request.flags, file)


def kernels_of(file: str, options: Options) -> tuple[Any, list[Interface]]:
    """Return the kernels of a file as the compiler left them, and their interfaces."""
    if kind_of(file) not in CODE:
        raise _no_kernel(file)
    found = None if Path(split_name(file)[0]).suffix == ".py" else found_kernels(Path(file), options)
    kernels = interfaces(file, options, found)
    if not kernels and found is None:
        raise WarplensError(f"{file}: not CUDA source, PTX, a cubin or a program, and no function under @triton.jit")
    refuse(not kernels, f"{file}: no kernel in it")
    return found, kernels


def chosen(kernels: list[Interface], wanted: str | None, file: str) -> Interface:
    """Return the kernel that is meant."""
    by_name = {kernel.demangled: kernel for kernel in kernels}
    return by_name[choose(list(by_name), wanted, file)]


def _no_kernel(file: str) -> WarplensError:
    """Return what to say of a file that is no kernel's."""
    kind = kind_of(file)
    if kind:
        return refusal(file, kind, "a kernel's file")
    if not Path(file).exists():
        return WarplensError(f"{file}: No such file or directory")
    if Path(file).suffix == ".toml":
        load_launch(file)  # says what is wrong with it
    return WarplensError(f"{file}: neither a kernel's file (.cu, .ptx, .cubin, .py) nor a launch file")
