"""Initial state of a launch: the constant banks and the warps of the resident blocks.

Bank 0 has what the driver writes before a launch, and the arguments; where it has them was found by compiling kernels
that ask for it, one value at a time. The other banks have what the cubin brings.

The arrays of one run serve the next one of as many blocks: they are cleared, not allocated again, and the constants
behind the registers of each warp, which nothing writes to, stay there.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from warplens.emulator import layout, ops
from warplens.emulator.decode import Code
from warplens.emulator.engine import State
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


_PREDICATES = 17
_TRUE = (7, 15)  # PT and UPT


class _Kept(Struct, frozen=True):
    """The arrays for so many blocks: state, words of shared memory of each block, of local memory of each warp."""

    blocks: int
    state: State
    shared: npt.NDArray[np.uint32]
    local: npt.NDArray[np.uint32]


class Resident:
    """Room for the blocks of one call that run side by side."""

    def __init__(
        self, program: Program, call: KernelCall, code: Code, pool: npt.NDArray[np.uint32],
        assumed: npt.NDArray[np.int64], words: tuple[int, int],
    ) -> None:  # fmt: skip
        """Take what all runs have in common; `words`: of shared memory of a block, of local memory of a thread."""
        self.call, self.code, self.pool, self.assumed, self.words = call, code, pool, assumed, words
        self.calls = np.array([ops.SYSTEM.get(n, ops.SYSTEM_UNKNOWN) for n in program.system] or [0], np.int64)
        bx, by, bz = call.block_shape
        self.threads = bx * by * bz
        self.per_block = -(-self.threads // 32)
        lanes = np.arange(self.per_block * 32).reshape(self.per_block, 32)
        self.index = np.stack([lanes % bx, lanes // bx % by, lanes // (bx * by)], axis=1).astype(np.int64)
        self.live = ((lanes < self.threads) << np.arange(32)).sum(axis=1).astype(np.uint32)
        self.kept: _Kept | None = None

    def begin(
        self, blocks: Sequence[int], sms: Sequence[int], flags: npt.NDArray[np.int64], marks: npt.NDArray[np.uint32]
    ) -> tuple[State, npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Return these blocks (numbers in the grid) on these SMs before their first instruction, and their memory."""
        if self.kept is None or self.kept.blocks != len(blocks):
            self.kept = None  # its memory first
            self.kept = self._made(len(blocks), marks)
        else:
            self._clear(self.kept)
        state = self.kept.state._replace(marks_global=marks)
        state.flags[:] = flags
        self._place(state.warps, np.asarray(blocks), np.asarray(sms))
        state.blocks[:, layout.ALIVE] = self.threads
        state.predicates[:, _TRUE] = 0xFFFFFFFF
        return state, self.kept.shared, self.kept.local

    def _made(self, count: int, marks: npt.NDArray[np.uint32]) -> _Kept:
        warps, rows = self.per_block * count, self.code.row_count + len(self.pool)
        shared, local = self.words
        registers = np.zeros((warps, rows, 32), np.uint32)
        registers[:, self.code.row_count :] = self.pool
        state = State(
            registers=registers,
            predicates=np.zeros((warps, _PREDICATES), np.uint32),
            threads=np.tile(self.index, (count, 1, 1)),
            warps=np.zeros((warps, layout.WARP_COLUMNS), np.int64),
            blocks=np.zeros((count, layout.BLOCK_COLUMNS), np.int64),
            unknown=np.zeros((warps, rows + _PREDICATES), np.uint32),
            flags=np.zeros(layout.FLAGS, np.int64),
            calls=self.calls,
            marks_global=marks,
            marks_shared=np.zeros((count, shared // 32 + 1), np.uint32),
            marks_local=np.zeros((warps, local + 1), np.uint32),
            assumed=self.assumed,
            turns=np.zeros((warps, int(self.assumed[:, 2].max(initial=0)) + 1), np.int64),
        )
        return _Kept(count, state, np.zeros((count, shared), np.uint32), np.zeros((warps, local * 32), np.uint32))

    def _clear(self, kept: _Kept) -> None:
        state = kept.state
        state.registers[:, : self.code.row_count] = 0
        for array in (
            state.predicates, state.warps, state.blocks, state.unknown, state.marks_shared, state.marks_local,
            state.turns, kept.shared, kept.local,
        ):  # fmt: skip
            array[:] = 0

    def _place(self, warps: Any, blocks: npt.NDArray[Any], sms: npt.NDArray[Any]) -> None:
        """Say where each warp is: its block in the grid, its SM, its number; all of its threads are to begin."""
        gx, gy, _ = self.call.grid_shape
        here, within = divmod(np.arange(len(warps)), self.per_block)
        block = blocks[here]
        for k, along in enumerate((block % gx, block // gx % gy, block // (gx * gy))):
            warps[:, layout.PLACE + k] = along
        warps[:, layout.SM], warps[:, layout.SLOT], warps[:, layout.WARP] = sms[here], here, within
        warps[:, layout.NUMBER] = block * self.per_block + within
        warps[:, layout.LIVE] = warps[:, layout.MASK] = np.tile(self.live, len(blocks))
        warps[:, layout.GROUPS], warps[:, layout.STATE] = 1, layout.READY
