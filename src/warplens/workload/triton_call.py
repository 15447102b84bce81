"""Launches of Triton kernels: what a launch compiles the kernel for, and the call as the GPU gets it.

    file.py:kernel + launch file ──►  Program, and the call as the GPU gets it

The launch file has `num_warps` and `num_stages`, the constants of the kernel in [constexpr], and an [[arg]] for every
other parameter. As Triton's own launcher does, an integer of value 1 is compiled in and leaves the parameters, and an
integer or address that 16 divides is marked so. The compiler says how many warps and how much shared memory the
kernel has, and what it appends to the parameters.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import FileError, WarplensError, nearest
from warplens.program.compile import Options
from warplens.program.cubin import parse_cubin
from warplens.program.load import load_program, program_in
from warplens.program.program import Program
from warplens.program.triton import Target, compile_source, read_source, split_name
from warplens.workload.launch import Argument, KernelCall

_TYPES = {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64"}
_DIVISOR = 16  # bytes of an address, or units of an integer
_ALIGNED_BYTES = 256  # what every allocation of the driver is aligned to


class Specialisation(Struct, frozen=True):
    """What a kernel is compiled for: types by parameter, constants, parameters that 16 divides, arguments that stay."""

    signature: dict[str, str]
    constexprs: dict[str, bool | int | float | str | None]
    divisible: list[str]
    arguments: list[Argument]


class TritonKernel(Struct, frozen=True):
    """A compiled kernel: its machine code, and the call with the block, shared memory and parameters of the GPU."""

    cubin: bytes
    name: str
    call: KernelCall
    tool: str


def load_call(
    file: str | Path, kernel: str | None, call: KernelCall, options: Options | None = None
) -> tuple[Program, KernelCall]:
    """Load the kernel of a launch, and the call as the GPU gets it: of Triton kernels, the compiler says that."""
    name, named = split_name(str(file))
    if Path(name).suffix != ".py":
        return load_program(file, kernel or call.kernel, options), call
    made = compile_kernel(Path(name), named or kernel or call.kernel, call, (options or Options()).arch)
    return program_in(made.cubin, made.name, Path(name), [made.tool]), made.call


def compile_kernel(path: Path, kernel: str | None, call: KernelCall, arch: str) -> TritonKernel:
    """Compile a kernel of a Python file for a launch."""
    source, name = read_source(path, kernel)
    if call.num_warps is None:
        raise FileError(f"{path}: a Triton kernel's launch file needs num_warps (and [constexpr] for its constants)")
    made = specialise(call, source.parameters[name], f"{path}:{name}")
    target = Target(made.signature, made.constexprs, made.divisible, _options(call))
    cubin, answer = compile_source(source, name, path, target, arch)
    return TritonKernel(cubin, answer["name"], _completed(call, made, answer, cubin), answer["version"])


def specialise(call: KernelCall, parameters: dict[str, bool], what: str) -> Specialisation:
    """Say what a launch with these arguments would compile the kernel for; `what` is for messages."""
    wanted = [name for name, constant in parameters.items() if not constant]
    for name in call.constexpr:
        if not parameters.get(name, False):
            known = [n for n, constant in parameters.items() if constant]
            raise FileError(f"{what}: constexpr.{name}: no such constant{nearest(name, known)}")
    missing = [n for n, constant in parameters.items() if constant and n not in call.constexpr]
    if missing:
        raise FileError(f"{what}: [constexpr] lacks {', '.join(missing)}")
    arguments = dict(zip(wanted, call.arguments, strict=False))
    wrong = next((n for n, a in arguments.items() if a.name and a.name != n), None)
    if len(call.arguments) != len(wanted) or wrong:
        given = ", ".join(a.name or a.type for a in call.arguments) or "none"
        raise FileError(f"{what} takes the arguments {', '.join(wanted) or 'none'}; the launch file gives {given}")
    signature = dict.fromkeys(call.constexpr, "constexpr")
    constants, divisible, kept = dict(call.constexpr), [], []
    for name, argument in arguments.items():
        if _is_integer(argument) and argument.value == 1:
            constants[name], signature[name] = 1, "constexpr"
            continue
        signature[name] = _type_of(argument, f"{what}: arg.{name}")
        kept.append(argument)
        if argument.is_pointer or (_is_integer(argument) and int(argument.value or 0) % _DIVISOR == 0):
            divisible.append(name)  # arrays start at multiples of _ALIGNED_BYTES
    return Specialisation(signature, constants, divisible, kept)


def _is_integer(argument: Argument) -> bool:
    return not argument.is_pointer and argument.type[0] in "iu"


def _type_of(argument: Argument, where: str) -> str:
    if argument.type == "bytes":
        raise FileError(f"{where}: a Triton kernel takes numbers and pointers, no bytes")
    return ("*" if argument.is_pointer else "") + _TYPES.get(argument.element, argument.element)


def _options(call: KernelCall) -> dict[str, int]:
    given = {"num_warps": call.num_warps, "num_stages": call.num_stages, "maxnreg": call.register_limit}
    return {name: value for name, value in given.items() if value is not None}


def _completed(call: KernelCall, made: Specialisation, answer: dict[str, Any], cubin: bytes) -> KernelCall:
    """Return the call as the GPU gets it."""
    if answer["num_ctas"] != 1:
        raise WarplensError(f"{answer['name']}: clusters of {answer['num_ctas']} blocks are not emulated")
    resources = parse_cubin(cubin, "Triton's cubin").resources(answer["name"])
    hidden = [
        _scratch("global_scratch", answer["global_scratch_bytes"] * call.blocks),
        _scratch("profile_scratch", answer["profile_scratch_bytes"] * call.blocks),
    ]
    extra = len(resources.parameters) - len(made.arguments)
    if not 0 <= extra <= len(hidden):
        raise WarplensError(f"{answer['name']}: {extra} parameters more than the source has, of an unknown kind")
    block = resources.threads_required or (32 * answer["num_warps"], 1, 1)
    return replace(
        call, block=list(block), num_warps=None, num_stages=None, constexpr={}, kernel=answer["name"],
        dynamic_shared_bytes=answer["shared_bytes"], arguments=[*made.arguments, *hidden[:extra]],
    )  # fmt: skip


def _scratch(name: str, size: int) -> Argument:
    """Return a parameter that Triton appends: a pointer to memory of its own, or to nothing."""
    return Argument(name=name, type="u8*", count=size or None, value=None if size else 0)
