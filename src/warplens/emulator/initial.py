"""Initial state of a launch: the arrays in global memory, the constant banks, and the warps of the resident blocks.

Bank 0 has the values that the driver writes before a launch, and the arguments; their offsets were found by compiling
kernels that read them, one value at a time. The other banks have the cubin's data.

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

from warplens.emulator import layout, ops, pages
from warplens.emulator.decode import Code
from warplens.emulator.engine import State
from warplens.program.program import Program, Segment
from warplens.workload.contents import contents, dtype_of
from warplens.workload.launch import SCALAR_BYTES, Argument, KernelCall

FIRST_ADDRESS = 0x10_0000_0000  # of the arrays
_GAP = 1 << 21  # between arrays: an access beyond an end is an error
_PAGES = 1 << 18  # at first: 256 MiB, which cost nothing until they are touched
PARAMETERS_AT = (0x198, 0x348)  # where bank 0 has the address of the parameters: sm_90, from sm_100 on
_ONE = 0x3F800000  # as a float


def addresses_of(call: KernelCall) -> list[int]:
    """Return the address of each argument's array; 0 where it has none."""
    at, addresses = FIRST_ADDRESS, []
    for argument in call.arguments:
        size = (argument.count or 0) * SCALAR_BYTES[argument.element] if argument.is_pointer else 0
        addresses.append(at if size else 0)
        at = -(-(at + size + _GAP) // _GAP) * _GAP if size else at
    return addresses


def pages_of(call: KernelCall, addresses: Sequence[int], segments: Sequence[Segment]) -> pages.Pages:
    """Return the memory of the arrays and of these segments, with their contents."""
    rows, numbers, given = list[Any](), list[tuple[float, float]](), list[Any]()
    first = given_bytes = 0

    def keep(row: Any, pair: tuple[float, float], base: int, data: Any) -> None:
        nonlocal first, given_bytes
        row[pages.BASE], row[pages.FIRST_PAGE], row[pages.GIVEN_AT] = base, first, given_bytes
        if data is not None:
            given.append(data)
            given_bytes += data.size
        first += -(-int(row[pages.BYTES]) // pages.PAGE_BYTES)
        rows.append(row)
        numbers.append(pair)

    for i, (argument, base) in enumerate(zip(call.arguments, addresses, strict=True)):
        if base:
            values = contents(argument, i, call.folder, f"arg.{argument.name or i}")  # checks the fill
            row, pair = pages.array_row(argument, i)
            is_given = row[pages.KIND] == pages.GIVEN
            raw = np.ascontiguousarray(values(np.arange(argument.count or 0))).view(np.uint8) if is_given else None
            keep(row, pair, base, raw)
    for segment in segments:
        row = np.zeros(pages.COLUMNS, np.int64)
        row[pages.BYTES], row[pages.SIZE] = segment.size_bytes, 4
        row[pages.KIND] = pages.GIVEN if segment.data else pages.ZEROS
        data = segment.data.ljust(segment.size_bytes, b"\0")
        keep(row, (0.0, 0.0), segment.address, np.frombuffer(data, np.uint8) if segment.data else None)
    if not rows:
        keep(np.zeros(pages.COLUMNS, np.int64), (0.0, 0.0), 0, None)
        first = 1
    return pages.Pages(
        arrays=np.array(rows, np.int64),
        numbers=np.array(numbers, np.float64),
        table=np.zeros(first + 1, np.int32),
        words=np.zeros((_PAGES, pages.PAGE_WORDS), np.uint32),
        filled=np.zeros(_PAGES, np.uint32),
        slots=np.zeros(_PAGES, np.int64),
        given=np.concatenate(given) if given else np.zeros(1, np.uint8),
    )


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
    for at, address in _windows(program, generation).items():
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
    """Return by offset the shapes of block and grid, the top of the stack, and a cluster of one block.

    Of the cluster: its shape, 1 / x, 1 / y and 1 / z as floats, clusters of the grid, blocks of a cluster.
    """
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


def _windows(program: Program, generation: int) -> dict[int, int]:
    """Return the addresses by offset: windows of local and shared memory, __constant__ variables, parameters."""
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
    return np.array([value]).astype(dtype_of(argument.type)).tobytes()


_PREDICATES = 17
_TRUE = (7, 15)  # PT and UPT


class _Kept(Struct, frozen=True):
    """The arrays for so many blocks: state, words of shared memory of each block, of local memory of each warp."""

    blocks: int
    state: State
    shared: npt.NDArray[np.uint32]
    local: npt.NDArray[np.uint32]


class Resident:
    """State of the blocks of one call that run side by side."""

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
            self.kept = self._allocated(len(blocks), marks)
        else:
            self._clear(self.kept)
        state = self.kept.state._replace(marks_global=marks)
        state.flags[:] = flags
        self._number(state.warps, np.asarray(blocks), np.asarray(sms))
        state.blocks[:, layout.ALIVE] = self.threads
        state.predicates[:, _TRUE] = 0xFFFFFFFF
        return state, self.kept.shared, self.kept.local

    def _allocated(self, count: int, marks: npt.NDArray[np.uint32]) -> _Kept:
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

    def _number(self, warps: Any, blocks: npt.NDArray[Any], sms: npt.NDArray[Any]) -> None:
        """Write the block, the SM and the numbers of each warp; all of its threads are to begin."""
        gx, gy, _ = self.call.grid_shape
        here, within = divmod(np.arange(len(warps)), self.per_block)
        block = blocks[here]
        for k, along in enumerate((block % gx, block // gx % gy, block // (gx * gy))):
            warps[:, layout.PLACE + k] = along
        warps[:, layout.SM], warps[:, layout.SLOT], warps[:, layout.WARP] = sms[here], here, within
        warps[:, layout.NUMBER] = block * self.per_block + within
        warps[:, layout.LIVE] = warps[:, layout.MASK] = np.tile(self.live, len(blocks))
        warps[:, layout.GROUPS], warps[:, layout.STATE] = 1, layout.READY
