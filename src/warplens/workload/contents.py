"""Contents of arrays and variables: functions of the index, so that an array of any size costs only what is touched.

    zeros | ones | iota | linear(start, step) | random | uniform(lo, hi) | random_int(lo, hi) | hash_mod(m)
    permutation | cycle | file("x.npy")

`random` is uniform in [0, 1) for floating-point types and all bits for integers; uniform and random_int are in
lo <= x < hi, uniform before it is rounded to the element's type.
`permutation` maps 0..count-1 one to one, out of order; `cycle` does so in one single round (the count must be
a power of two): a list to chase. All are the same on every machine: the hash is splitmix64 of index and seed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from warplens.core.errors import FileError, WarplensError, nearest
from warplens.core.files import refuse_devices
from warplens.program.program import Program, Segment
from warplens.workload.launch import SCALAR_BYTES, Argument, KernelCall, Variable

Indices = npt.NDArray[np.int64]
Values = npt.NDArray[Any]
Contents = Callable[[Indices], Values]

_DTYPES = {
    "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32, "u32": np.uint32,
    "i64": np.int64, "u64": np.uint64, "f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
_PARAMETERS = {
    "zeros": 0, "ones": 0, "iota": 0, "linear": 2, "random": 0, "uniform": 2, "random_int": 2, "hash_mod": 1,
    "permutation": 0, "cycle": 0, "file": 1,
}  # fmt: skip
CONSTANT_BANK, _CONSTANTS = 3, ".nv.constant3"  # the bank and the section of __constant__ variables
_LARGEST_VARIABLE_BYTES = 1 << 28


def dtype_of(element: str) -> npt.DTypeLike:
    """Return the NumPy type that stores an element (bf16 as its 16 bits)."""
    return _DTYPES[element]


def parse_fill(argument: Argument, where: str = "arg") -> tuple[str, list[Any]]:
    """Return a fill's name and its numbers, checked; a file's name is given as the text that it is."""
    match = re.fullmatch(r"\s*([a-z_]+)\s*(?:\(\s*(.*?)\s*\))?\s*", argument.fill or "zeros")
    name, inside = match.groups() if match else (argument.fill, None)
    if name not in _PARAMETERS:
        raise FileError(f"{where}.fill: unknown fill {argument.fill!r}{nearest(name, _PARAMETERS)}")
    parts = [part.strip() for part in inside.split(",")] if inside else []
    if len(parts) != _PARAMETERS[name]:
        raise FileError(f"{where}.fill: {name} takes {_PARAMETERS[name]} numbers, not {len(parts)}")
    if name == "file":
        return name, [parts[0].strip("\"'")]
    try:
        numbers = [int(p, 0) if re.fullmatch(r"[-+]?(0[xX][0-9a-fA-F]+|\d+)", p) else float(p) for p in parts]
    except ValueError:
        raise FileError(f"{where}.fill: {inside!r}: must be numbers") from None
    if name in ("hash_mod", "random_int"):
        if not all(math.isfinite(n) and n == int(n) for n in numbers):
            raise FileError(f"{where}.fill: {name} takes whole numbers, not {inside!r}")
        numbers = [int(n) for n in numbers]
    _check(name, numbers, argument, where)
    return name, numbers


def _check(name: str, numbers: list[Any], argument: Argument, where: str) -> None:
    count = argument.count or 0
    if name == "hash_mod" and not 1 <= numbers[0] < 2**63:
        raise FileError(f"{where}.fill: hash_mod needs a positive whole number")
    if name == "random_int" and not -(2**63) <= numbers[0] < numbers[1] < 2**63:
        raise FileError(f"{where}.fill: random_int(lo, hi) needs lo < hi")
    if name == "linear" and any(isinstance(n, int) and not -(2**63) <= n < 2**63 for n in numbers):
        raise FileError(f"{where}.fill: linear takes whole numbers of 64 bits, or others with a point")
    if name == "uniform":
        if argument.element[0] in "iu":
            raise FileError(f"{where}.fill: uniform is for floating-point elements; use random_int for {argument.type}")
        if not numbers[0] < numbers[1] or not math.isfinite(numbers[1] - numbers[0]):
            raise FileError(f"{where}.fill: uniform(lo, hi) needs lo < hi, both finite")
    if name == "cycle" and count & (count - 1):
        raise FileError(f"{where}.fill: cycle needs a count that is a power of two, not {count}")


def contents(argument: Argument, seed: int, folder: str = ".", where: str = "arg") -> Contents:
    """Return the function from indices to elements of a pointer argument."""
    name, numbers = parse_fill(argument, where)
    if name == "file":
        return _from_file(numbers[0], argument, folder, where)
    count = argument.count or 0
    return lambda index: _stored(_values(name, numbers, index, seed, count, argument.element), argument.element)


def _values(name: str, numbers: list[Any], index: Indices, seed: int, count: int, element: str) -> Values:
    if name in ("zeros", "ones"):
        return np.full(index.shape, name == "ones", np.int64)
    if name == "iota":
        return index
    if name == "linear":
        return np.asarray(numbers[0] + numbers[1] * index)
    if name == "permutation":
        return _permuted(index, count, seed)
    if name == "cycle":
        return (index * 1664525 + 1013904223) & max(0, count - 1)
    bits = _splitmix(index, seed)
    if name in ("random", "uniform"):
        if element[0] in "iu":
            return bits
        share = (bits >> np.uint64(40)).astype(np.float64) * 2.0**-24
        return share if name == "random" else np.asarray(numbers[0] + (numbers[1] - numbers[0]) * share)
    low, span = (numbers[0], numbers[1] - numbers[0]) if name == "random_int" else (0, numbers[0])
    return (bits % np.uint64(span)).astype(np.int64) + int(low)


def _stored(values: Values, element: str) -> Values:
    """Convert values to the element's type; bf16 keeps the upper half of a float, rounded to nearest even."""
    if element == "bf16":
        bits = values.astype(np.float32).view(np.uint32)
        return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(
            np.uint16
        )
    return values.astype(_DTYPES[element])


def _splitmix(index: Indices, seed: int) -> npt.NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        z = index.astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) & (2**64 - 1))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def _permuted(index: Indices, count: int, seed: int) -> Indices:
    """Return a bijection of 0..count-1: four Feistel rounds on the next even power of two, walked until inside."""
    half = max(1, (max(2, count) - 1).bit_length() + 1 >> 1)
    mask = np.int64((1 << half) - 1)

    def once(x: Indices) -> Indices:
        left, right = x >> half, x & mask
        for n in range(4):
            left, right = right, left ^ (_splitmix(right, seed * 4 + n + 1).astype(np.int64) & mask)
        return (left << half) | right

    image = once(index)
    while count and (outside := image >= count).any():
        image = np.where(outside, once(image), image)
    return image


def _from_file(name: str, argument: Argument, folder: str, where: str) -> Contents:
    path = Path(folder) / name
    if path.suffix != ".npy":
        raise FileError(f"{where}.fill: file(...) reads .npy files, not {name!r}")
    try:
        refuse_devices(path)
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise FileError(f"{where}.fill: {path}: {getattr(error, 'strerror', None) or error}") from None
    flat = array.reshape(-1)
    if flat.dtype.itemsize != SCALAR_BYTES[argument.element] or flat.size < (argument.count or 0):
        raise FileError(
            f"{where}.fill: {path} holds {flat.size} x {flat.dtype}, not {argument.count} x {argument.element}"
        )
    return lambda index: np.asarray(flat[index]).view(_DTYPES[argument.element])


def with_variables(program: Program, call: KernelCall) -> Program:
    """Return the program with the call's values in its module's memory and in its constant bank."""
    if not call.variables:
        return program
    segments, constants = list(program.segments), dict(program.constants)
    start = program.symbols.get(_CONSTANTS)
    for i, variable in enumerate(call.variables):
        address, size = program.variables[_named(program, variable.name)]
        data = _initial(variable, size, len(call.arguments) + i, call.folder)
        at = next(k for k, s in enumerate(segments) if s.address <= address < s.address + s.size_bytes)
        first = address - segments[at].address
        whole = bytearray(segments[at].data.ljust(segments[at].size_bytes, b"\0"))
        whole[first : first + len(data)] = data
        segments[at] = Segment(segments[at].address, segments[at].size_bytes, bytes(whole))
        if start == segments[at].address:
            constants[CONSTANT_BANK] = segments[at].data
    return replace(program, segments=segments, constants=constants)


def not_given(program: Program, call: KernelCall) -> dict[str, tuple[int, int]]:
    """Return addresses and sizes of the variables that the call does not give and that hold nothing but zeros at first.

    The compiler's own are left out. A variable that the source sets to zero is not told from one that it does
    not set.
    """
    listed = {_named(program, variable.name) for variable in call.variables}
    found = {}
    for name, (address, size) in program.variables.items():
        segment = next((s for s in program.segments if s.address <= address < s.address + s.size_bytes), None)
        is_zero = segment is not None and not any(segment.data[address - segment.address :][:size])
        if is_zero and name not in listed and not name.startswith(("_", "$")) and "::_" not in name:
            found[name] = address, size
    return found


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


def _initial(variable: Variable, size: int, seed: int, folder: str) -> bytes:
    """Return the bytes of a variable of this size; what does not fit it is refused."""
    where, element = f"global.{variable.name}", SCALAR_BYTES.get(variable.type, 1)
    if size > _LARGEST_VARIABLE_BYTES:
        raise WarplensError(f"{where}: {size:,} bytes; a launch file fills {_LARGEST_VARIABLE_BYTES:,} at most")
    if variable.type == "bytes":
        data = bytes.fromhex(str(variable.value))
    elif isinstance(variable.value, (int, float)):
        if variable.type == "bf16":
            data = int(np.float32(variable.value).view(np.uint32)).to_bytes(4, "little")[2:]
        else:
            data = bytes(np.array([variable.value]).astype(dtype_of(variable.type)).tobytes())
    else:
        count = size // element if variable.count is None else variable.count
        array = Argument(type=f"{variable.type}*", name=variable.name, count=count, fill=variable.fill)
        data = np.ascontiguousarray(contents(array, seed, folder, where)(np.arange(count))).tobytes()
    if len(data) > size:
        raise WarplensError(f"{where}: {len(data)} bytes are given, the variable has {size}")
    return data
