"""Kernel of a call: the file and options it is compiled with, and the call as the GPU gets it.

    file.cu + launch file           ──►  Program, and the call as it is
    file.py:kernel + launch file    ──►  Program, and the call as Triton's launcher completes it

The launch file of a Triton kernel has `num_warps` and `num_stages`, the constants of the kernel in [constexpr], and an
[[arg]] for every other parameter. As Triton's own launcher does, an integer of value 1 is compiled in and leaves the
parameters, and an integer or address that 16 divides is marked so. The compiler says how many warps and how much
shared memory the kernel has, and what it appends to the parameters.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from warplens.core.errors import FileError, WarplensError, nearest
from warplens.machine import Machine
from warplens.program.compile import Options, split_flags
from warplens.program.cubin import parse_cubin
from warplens.program.load import is_source, load_program, program_in
from warplens.program.program import Program
from warplens.program.triton import Target, compile_source, read_source, split_name
from warplens.workload.launch import Argument, KernelCall

OLDEST = "sm_75"  # for older GPUs too: compilers of today know none before it
_TYPES = {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64"}
_DIVISOR = 16  # bytes of an address, or units of an integer
_ALIGNED_BYTES = 256  # what every allocation of the driver is aligned to


def architecture(gpu: Machine, old: str | None = None) -> str:
    """Return the architecture to compile for, which must be one that compilers still know (or is an `old` one's)."""
    known = known_to_compilers(gpu.compute_capability) or old
    if known is None:
        raise WarplensError(f"compilers of today make no code for {gpu.name}; name a GPU from cc 7.5 on")
    return known


def known_to_compilers(capability: str | None) -> str | None:
    """Return the architecture of a compute capability; nothing where today's compilers do not know it."""
    return f"sm_{capability.replace('.', '')}" if capability and float(capability) >= 7.5 else None


def source_of(
    call: KernelCall, arch: str, file: str | Path | None = None, options: Options | None = None
) -> tuple[Path, Options]:
    """Return the file with a call's kernel and how to compile it for an architecture.

    `file` and `options` go before the launch file's. Folders of the launch file are relative to it.
    """
    if file is None and call.file is None:
        raise WarplensError(
            "the launch file names no `file` with the kernel (a graph has nodes, a launch file has one)"
        )
    path = Path(file) if file is not None else Path(call.folder) / str(call.file)
    given = options or Options()
    if not is_source(path):
        return path, Options(arch=arch, toolkit=given.toolkit)
    macros, folders, others = split_flags(call.flags)
    macros_given, folders_given, others_given = split_flags(given.flags)
    there = [*folders_given, *(str(Path(call.folder) / folder) for folder in (*call.includes, *folders))]
    if missing := [folder for folder in there if not Path(folder).is_dir()]:
        raise WarplensError(f"includes: {missing[0]}: no such folder")
    return path, Options(
        arch=arch,
        defines=[*call.defines, *macros, *given.defines, *macros_given],
        includes=[*given.includes, *there],
        fast_math=call.fast_math or given.fast_math,
        register_limit=given.register_limit or call.register_limit,
        flags=[*others, *others_given],
        toolkit=given.toolkit,
    )


class TritonKernel(Struct, frozen=True):
    """A compiled kernel: its machine code, and the call with the block, shared memory and parameters of the GPU."""

    cubin: bytes
    name: str
    call: KernelCall
    tool: str


def load_call(
    file: str | Path, kernel: str | None, call: KernelCall, options: Options | None = None
) -> tuple[Program, KernelCall]:
    """Load the kernel of a launch, and the call as the GPU gets it: of Triton kernels, as the compiler says."""
    name, named = split_name(str(file))
    if Path(name).suffix != ".py":
        return load_program(file, kernel or call.kernel, options), call
    compiled = compile_kernel(Path(name), named or kernel or call.kernel, call, (options or Options()).arch)
    return program_in(compiled.cubin, compiled.name, Path(name), [compiled.tool]), compiled.call


def compile_kernel(path: Path, kernel: str | None, call: KernelCall, arch: str) -> TritonKernel:
    """Compile a kernel of a Python file for a launch."""
    source, name = read_source(path, kernel)
    if call.num_warps is None:
        raise FileError(f"{path}: a Triton kernel's launch file needs num_warps (and [constexpr] for its constants)")
    target, arguments = specialise(call, source.parameters[name], f"{path}:{name}")
    cubin, answer = compile_source(source, name, path, target, arch)
    return TritonKernel(cubin, answer["name"], _completed(call, arguments, answer, cubin), answer["version"])


def specialise(call: KernelCall, parameters: dict[str, bool], what: str) -> tuple[Target, list[Argument]]:
    """Return the target of a kernel by the arguments of a launch, and those that stay; `what` is for messages."""
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
        if argument.type == "bytes":
            raise FileError(f"{what}: arg.{name}: a Triton kernel takes numbers and pointers, no bytes")
        signature[name] = ("*" if argument.is_pointer else "") + _TYPES.get(argument.element, argument.element)
        kept.append(argument)
        if argument.is_pointer or (_is_integer(argument) and int(argument.value or 0) % _DIVISOR == 0):
            divisible.append(name)  # arrays start at multiples of _ALIGNED_BYTES
    options = {"num_warps": call.num_warps, "num_stages": call.num_stages, "maxnreg": call.register_limit}
    named = {option: value for option, value in options.items() if value is not None}
    return Target(signature, constants, divisible, named), kept


def _is_integer(argument: Argument) -> bool:
    return not argument.is_pointer and argument.type[0] in "iu"


def _completed(call: KernelCall, arguments: list[Argument], answer: dict[str, Any], cubin: bytes) -> KernelCall:
    """Return the call as the GPU gets it."""
    if answer["num_ctas"] != 1:
        raise WarplensError(f"{answer['name']}: clusters of {answer['num_ctas']} blocks are not emulated")
    resources = parse_cubin(cubin, "Triton's cubin").resources(answer["name"])
    hidden = [
        _scratch("global_scratch", answer["global_scratch_bytes"] * call.blocks),
        _scratch("profile_scratch", answer["profile_scratch_bytes"] * call.blocks),
    ]
    extra = len(resources.parameters) - len(arguments)
    if not 0 <= extra <= len(hidden):
        raise WarplensError(f"{answer['name']}: {extra} parameters more than the source has, of an unknown kind")
    block = resources.threads_required or (32 * answer["num_warps"], 1, 1)
    return replace(
        call, block=list(block), num_warps=None, num_stages=None, constexpr={}, kernel=answer["name"],
        dynamic_shared_bytes=answer["shared_bytes"], arguments=[*arguments, *hidden[:extra]],
    )  # fmt: skip


def _scratch(name: str, size: int) -> Argument:
    """Return a parameter that Triton appends: a pointer to memory of its own, or to nothing."""
    return Argument(name=name, type="u8*", count=size or None, value=None if size else 0)
