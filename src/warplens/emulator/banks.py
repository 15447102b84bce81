"""Constant banks: what the driver writes into bank 0 before a launch, the arguments, and what the cubin brings.

Where bank 0 has what was found by compiling kernels that ask for it, one value at a time.
"""

from __future__ import annotations

import re
import struct

import numpy as np
import numpy.typing as npt

from warplens.emulator import layout
from warplens.program.program import Program
from warplens.workload.contents import dtype_of
from warplens.workload.launch import Argument, KernelCall

PARAMETERS_AT = (0x198, 0x348)  # where bank 0 has the address of the parameters: sm_90, from sm_100 on
_ONE = 0x3F800000  # as a float


def constant_banks(
    program: Program, call: KernelCall, offsets: list[int], addresses: list[int], local_bytes: int
) -> npt.NDArray[np.uint32]:
    """Return the banks, a row each; `offsets` are those of the arguments, `addresses` of the arrays they point to."""
    banks = np.zeros((layout.BANKS, layout.BANK_BYTES // 4), np.uint32)
    for bank, data in program.constants.items():
        if bank < layout.BANKS:
            data = data[: layout.BANK_BYTES]
            words = np.frombuffer(data + bytes(-len(data) % 4), np.uint32)
            banks[bank, : words.size] = words
    generation = int(re.sub(r"\D", "", program.arch) or 90)
    _write(banks[0], _launch(call, generation, local_bytes))
    for at, address in _places(program, generation).items():
        _write(banks[0], {at: (address & 0xFFFFFFFF, address >> 32)})
    raw = banks[0].view(np.uint8)
    for argument, offset, address in zip(call.arguments, offsets, addresses, strict=True):
        data = _argument_bytes(argument, address)
        at = program.resources.parameter_offset + offset
        raw[at : at + len(data)] = np.frombuffer(data, np.uint8)
    return banks


def _write(bank: npt.NDArray[np.uint32], values: dict[int, tuple[int, ...]]) -> None:
    for at, words in values.items():
        bank[at >> 2 : (at >> 2) + len(words)] = words


def _launch(call: KernelCall, generation: int, local_bytes: int) -> dict[int, tuple[int, ...]]:
    """Shapes of block and grid, the top of the stack, and a cluster of one block: its shape, 1 / x, 1 / y and 1 / z
    as floats, clusters of the grid, blocks of a cluster."""
    block, grid, one = call.block_shape, call.grid_shape, (1, 1, 1)
    if generation < 90:
        return {0x0: block, 0xC: grid, 0x28: (local_bytes,)}
    if generation < 100:
        cluster = {0x144: one, 0x150: (_ONE, _ONE, _ONE), 0x15C: grid, 0x188: (1,)}
        return {0x0: block, 0xC: grid, 0x28: (local_bytes,), **cluster}
    # from sm_100 on the cluster is described twice: SR_CgaSize times 0xa0 lower
    parts = {0x2A0: one, 0x2B0: (_ONE, _ONE, _ONE), 0x2C0: grid, 0x2CC: (1,)}
    cluster = {at - lower: words for lower in (0, 0xA0) for at, words in parts.items()}
    return {0x360: block, 0x370: grid, 0x37C: (local_bytes,), **cluster}


def _places(program: Program, generation: int) -> dict[int, int]:
    """Addresses: windows of local and shared memory, __constant__ variables, parameters."""
    local, shared = layout.LOCAL_WINDOW << 32, layout.SHARED_WINDOW << 32
    constants = program.symbols.get(".nv.constant3", 0)
    if generation >= 100:
        return {0x2F8: local, 0x120: constants, 0x348: layout.PARAMETERS}
    if generation >= 90:
        return {0x20: local, 0xD0: constants, 0x198: layout.PARAMETERS}
    return {0x18: shared, 0x20: local, 0x50: constants}


def _argument_bytes(argument: Argument, address: int) -> bytes:
    if argument.is_pointer:
        return struct.pack("<Q", address)
    if argument.type == "bytes":
        return bytes.fromhex(str(argument.value))
    value = argument.value
    assert isinstance(value, (int, float))
    if argument.type == "bf16":
        return struct.pack("<I", int(np.float32(value).view(np.uint32)))[2:]
    made = np.array([value]).astype(dtype_of(argument.type))
    return made.tobytes()
