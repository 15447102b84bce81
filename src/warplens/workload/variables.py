"""Initial values of a module's `__device__` and `__constant__` variables, as a launch file gives them."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from warplens.core.errors import WarplensError, nearest
from warplens.program.program import Program, Segment
from warplens.workload.contents import contents, dtype_of
from warplens.workload.launch import SCALAR_BYTES, Argument, KernelCall, Variable

CONSTANT_BANK, _CONSTANTS = 3, ".nv.constant3"  # the bank and the section of __constant__ variables
_LARGEST_BYTES = 1 << 28


def with_variables(program: Program, call: KernelCall) -> Program:
    """Return the program with the call's values in its module's memory and in its constant bank."""
    if not call.variables:
        return program
    segments, constants = list(program.segments), dict(program.constants)
    start = program.symbols.get(_CONSTANTS)
    for i, variable in enumerate(call.variables):
        address, size = program.variables[_named(program, variable.name)]
        data = _stored(variable, size, len(call.arguments) + i, call.folder)
        at = next(k for k, s in enumerate(segments) if s.address <= address < s.address + s.size_bytes)
        segments[at] = _written(segments[at], address - segments[at].address, data)
        if start == segments[at].address:
            constants[CONSTANT_BANK] = segments[at].data
    return replace(program, segments=segments, constants=constants)


def not_given(program: Program, call: KernelCall) -> dict[str, tuple[int, int]]:
    """Return the places of the variables that the call does not give and that hold nothing but zeros at first.

    Those that the compiler made are left out. A variable that the source sets to zero is not told from one that it does
    not set.
    """
    given = {_named(program, variable.name) for variable in call.variables}
    there = {name: place for name, place in program.variables.items() if name not in given}
    return {name: place for name, place in there.items() if not _reserved(name) and not _first(program, *place)}


def _reserved(name: str) -> bool:
    return name.startswith(("_", "$")) or "::_" in name


def _first(program: Program, address: int, size: int) -> bool:
    """Whether a variable holds anything but zeros at first."""
    segment = next((s for s in program.segments if s.address <= address < s.address + s.size_bytes), None)
    return segment is None or any(segment.data[address - segment.address :][:size])


def _named(program: Program, name: str) -> str:
    """Return the variable that a name means: the whole one, or its last part where that is the only one."""
    if name in program.variables:
        return name
    found = [known for known in program.variables if known.rpartition("::")[2] == name]
    if len(found) == 1:
        return found[0]
    there = f"; there are: {', '.join(program.variables)}" if program.variables else "; its code uses none"
    hint = f"; it fits {', '.join(found)}" if found else nearest(name, program.variables) or there
    raise WarplensError(f"global.{name}: no such __device__ or __constant__ variable{hint}")


def _stored(variable: Variable, size: int, seed: int, folder: str) -> bytes:
    """Return the bytes of a variable of this size; what does not fit it is refused."""
    where, element = f"global.{variable.name}", SCALAR_BYTES.get(variable.type, 1)
    if size > _LARGEST_BYTES:
        raise WarplensError(f"{where}: {size:,} bytes; a launch file fills {_LARGEST_BYTES:,} at most")
    if variable.type == "bytes":
        data = bytes.fromhex(str(variable.value))
    elif isinstance(variable.value, (int, float)):
        data = _numbers(variable.type, float(variable.value), variable.value)
    else:
        count = size // element if variable.count is None else variable.count
        array = Argument(type=f"{variable.type}*", name=variable.name, count=count, fill=variable.fill)
        data = np.ascontiguousarray(contents(array, seed, folder, where)(np.arange(count))).tobytes()
    if len(data) > size:
        raise WarplensError(f"{where}: {len(data)} bytes are given, the variable has {size}")
    return data


def _numbers(kind: str, real: float, value: int | float) -> bytes:
    if kind == "bf16":
        return int(np.float32(real).view(np.uint32)).to_bytes(4, "little")[2:]
    return bytes(np.array([value]).astype(dtype_of(kind)).tobytes())


def _written(segment: Segment, at: int, data: bytes) -> Segment:
    whole = bytearray(segment.data.ljust(segment.size_bytes, b"\0"))
    whole[at : at + len(data)] = data
    return replace(segment, data=bytes(whole))
