"""Emulate a kernel call: lay out memory, run blocks, collect what each instruction did.

emulator = Emulator(program, call)
emulator.run(range(4))           # blocks, by their number in the grid
emulator.array("y")              # what is in an argument's array now
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from warplens.emulate import engine, layout, pages
from warplens.emulate.access import Memory
from warplens.emulate.cache import MAP_WORDS, Cache, new_cache
from warplens.emulate.decode import Code, decode
from warplens.errors import WarplensError
from warplens.kernel.contents import contents, dtype_of, parse_fill
from warplens.kernel.launch import SCALAR_BYTES, Argument, KernelCall, check_parameters
from warplens.kernel.program import Program

_FIRST_ADDRESS = 0x10_0000_0000  # where arrays begin
_GAP = 1 << 21  # between arrays: what runs over an end is seen
_SHARED_RESERVED = 1024
_BUDGET = 200_000_000
_PAGES = 1 << 18  # to begin with: 256 MiB, which cost nothing until they are touched


class EmulationError(WarplensError):
    """A kernel that went wrong: what, at which instruction and line, by which thread."""


class Emulator:
    """One kernel call on the emulated machine; memory stays between runs."""

    def __init__(self, program: Program, call: KernelCall, caches: tuple[Cache, Cache] | None = None) -> None:
        self.program, self.call = program, call
        self.code: Code = decode(program)
        self.offsets = check_parameters(call, program.resources.parameter_bytes, program.demangled)
        self.addresses = self._addresses()
        self.pages = self._pages()
        self.banks = self._banks()
        self.pool = self._pool()
        self.names = self._names()
        self.stats = np.zeros((len(program.instructions), layout.STATISTICS), np.int64)
        self.caches = caches or (new_cache(0, 0, 1), new_cache(0, 0, 1))
        self.touched = np.zeros((len(self.pages.words), MAP_WORDS), np.uint32)  # sectors by page: see cache.py
        self.trace = np.zeros((0, 3), np.int32)  # give it rows to have the runs of the next call to `run`
        self.traced = 0
        self.executed = self.unknown_executed = 0
        self.work: list[tuple[int, int]] = []  # per warp: block, instructions

    # ---- memory

    def _addresses(self) -> list[int]:
        at, made = _FIRST_ADDRESS, []
        for argument in self.call.arguments:
            if argument.is_pointer and argument.count:
                made.append(at)
                size = argument.count * SCALAR_BYTES[argument.element]
                at = -(-(at + size + _GAP) // _GAP) * _GAP
            else:
                made.append(0)
        return made

    def _pages(self) -> pages.Pages:
        rows, numbers, given, first = [], [], [], 0
        given_bytes = 0
        for i, (argument, base) in enumerate(zip(self.call.arguments, self.addresses, strict=True)):
            if not base:
                continue
            where = f"arg.{argument.name or i}"
            values = contents(argument, i, self.call.folder, where)  # checks the fill
            row, pair = _array_row(argument, i)
            if row[pages.KIND] == pages.GIVEN:
                raw = np.ascontiguousarray(values(np.arange(argument.count or 0))).view(np.uint8)
                row[pages.GIVEN_AT] = given_bytes
                given.append(raw)
                given_bytes += raw.size
            row[pages.BASE], row[pages.FIRST_PAGE] = base, first
            first += -(-int(row[pages.BYTES]) // pages.PAGE_BYTES)
            rows.append(row)
            numbers.append(pair)
        if not rows:
            rows, numbers, first = [np.zeros(12, np.int64)], [(0.0, 0.0)], 1
        return pages.Pages(
            arrays=np.array(rows, np.int64),
            numbers=np.array(numbers, np.float64),
            table=np.zeros(first + 1, np.int32),
            words=np.zeros((_PAGES, pages.PAGE_WORDS), np.uint32),
            filled=np.zeros(_PAGES, np.uint32),
            given=np.concatenate(given) if given else np.zeros(1, np.uint8),
        )

    def _grow(self) -> None:
        count = len(self.pages.words)
        if 2 * count * pages.PAGE_BYTES > 1 << 31:
            raise WarplensError("the kernel touches more than 2 GiB of memory in the emulated blocks: emulate fewer")
        words, filled = np.zeros((2 * count, pages.PAGE_WORDS), np.uint32), np.zeros(2 * count, np.uint32)
        words[:count], filled[:count] = self.pages.words, self.pages.filled
        self.pages = self.pages._replace(words=words, filled=filled)
        touched = np.zeros((2 * count, MAP_WORDS), np.uint32)
        touched[:count] = self.touched
        self.touched = touched

    def forget(self) -> None:
        """Let all arrays have their first contents again."""
        used = int(self.pages.table[-1])
        self.pages = self.pages._replace(table=np.zeros_like(self.pages.table))
        self.pages.filled[:used] = 0
        self.touched[:used] = 0

    def array(self, name: str | int) -> npt.NDArray[Any]:
        """Return the contents of a pointer argument (by name or position) as they are now."""
        i = name if isinstance(name, int) else [a.name for a in self.call.arguments].index(name)
        argument = self.call.arguments[i]
        count = argument.count or 0
        made = np.ascontiguousarray(contents(argument, i, self.call.folder)(np.arange(count))).view(np.uint8)
        row = next(r for r in self.pages.arrays if r[pages.BASE] == self.addresses[i])
        first, size = int(row[pages.FIRST_PAGE]), int(row[pages.BYTES])
        count = -(-size // pages.PAGE_BYTES)
        table = self.pages.table[first : first + count]
        touched = np.flatnonzero(table)
        filled = self.pages.filled[table[touched] - 1, None] >> np.arange(32, dtype=np.uint32) & 1 != 0
        whole = np.zeros((count, 32, pages.PAGE_BYTES // 32), np.uint8)
        whole.reshape(-1)[:size] = made
        pages_of, sectors = np.nonzero(filled)
        raw = self.pages.words.view(np.uint8).reshape(-1, 32, pages.PAGE_BYTES // 32)
        whole[touched[pages_of], sectors] = raw[table[touched[pages_of]] - 1, sectors]
        return whole.reshape(-1)[:size].view(dtype_of(argument.element))

    # ---- constants

    def _banks(self) -> npt.NDArray[np.uint32]:
        """Constant banks: what the driver writes into bank 0, the arguments, and what the cubin brings."""
        banks = np.zeros((8, 16384), np.uint32)
        for bank, data in self.program.constants.items():
            if bank < 8:
                words = np.frombuffer(data[:65536] + bytes(-len(data[:65536]) % 4), np.uint32)
                banks[bank, : words.size] = words
        raw = banks[0].view(np.uint8)
        r = self.program.resources
        new = int(re.sub(r"\D", "", self.program.arch) or 90) >= 100
        base = 0x360 if new else 0
        raw[base : base + 12] = np.array(self.call.block_shape, np.uint32).view(np.uint8)
        raw[base + (0x10 if new else 12) :][:12] = np.array(self.call.grid_shape, np.uint32).view(np.uint8)
        stack = 0x37C if new else 0x28
        raw[stack : stack + 4] = np.array([self._local_bytes()], np.uint32).view(np.uint8)
        for argument, offset, address in zip(self.call.arguments, self.offsets, self.addresses, strict=True):
            data = _argument_bytes(argument, address)
            at = r.parameter_offset + offset
            raw[at : at + len(data)] = np.frombuffer(data, np.uint8)
        return banks

    def _pool(self) -> npt.NDArray[np.uint32]:
        values = [b if kind == "bits" else int(self.banks[b, o >> 2]) for kind, b, o in self.code.pool]
        return np.repeat(np.array(values, np.uint32)[:, None], 32, axis=1).copy()

    def _names(self) -> engine.Names:
        parts = []
        for lists in (self.code.reads, self.code.writes):
            flat = [n for numbers in lists for n in numbers]
            ends = np.cumsum([0, *(len(numbers) for numbers in lists)])
            parts += [np.array(flat or [0], np.int64), ends.astype(np.int64)]
        return engine.Names(*parts)

    def _local_bytes(self) -> int:
        return -(-self.program.resources.frame_bytes // 16) * 16

    def _shared_words(self) -> int:
        size = _SHARED_RESERVED + self.program.resources.static_shared_bytes + self.call.dynamic_shared_bytes
        return -(-size // 4)

    # ---- running

    def is_compiled(self) -> bool:
        """Whether the machine code for this kernel is there; if not, the first run of it takes some seconds more."""
        return engine.is_compiled(self.code.table, self.caches[0])

    def run(
        self,
        blocks: Sequence[int],
        sms: Sequence[int] | None = None,
        budget: int = _BUDGET,
        delays: Sequence[int] | None = None,
    ) -> None:
        """Run these blocks (numbers in the grid) side by side, on these SMs (for L1).

        `delays`: instructions by which each block starts late.
        """
        state = self._state(blocks, sms or [0] * len(blocks))
        if delays is not None:
            per_block = len(state.warps) // len(blocks)
            state.warps[:, layout.DELAY] = np.repeat(np.asarray(delays) // engine.TURN, per_block)
        self.traced = 0
        while True:
            memory = self._memory(len(blocks), state)
            memory.scratch[layout.TRACED] = self.traced
            status = engine.run(self.code.table, self.names, state, memory, budget)
            self.traced = int(memory.scratch[layout.TRACED])
            if status != engine.GROW:
                break
            self._shared, self._local = memory.shared, memory.local
            self._grow()
        self._shared = self._local = None
        self.executed += int(state.flags[layout.EXECUTED_ALL])
        self.unknown_executed += int(state.flags[layout.EXECUTED_UNKNOWN])
        self.work += [(blocks[int(w[layout.SLOT])], int(w[layout.WORK])) for w in state.warps]
        if status != engine.DONE:
            raise EmulationError(self._explained(status, memory, state, budget))

    _shared: npt.NDArray[np.uint32] | None = None
    _local: npt.NDArray[np.uint32] | None = None

    def _memory(self, block_count: int, state: engine.State) -> Memory:
        shared = self._shared
        if shared is None:
            shared = np.zeros((block_count, self._shared_words()), np.uint32)
        local = self._local
        if local is None:
            local = np.zeros((len(state.warps), max(1, self._local_bytes() // 4) * 32), np.uint32)
        return Memory(
            pages=self.pages, shared=shared, local=local, banks=self.banks, stats=self.stats,
            scratch=np.zeros(layout.SCRATCH, np.int64), l1=self.caches[0], l2=self.caches[1],
            touched=self.touched, trace=self.trace,
        )  # fmt: skip

    def _state(self, blocks: Sequence[int], sms: Sequence[int]) -> engine.State:
        bx, by, bz = self.call.block_shape
        gx, gy, _ = self.call.grid_shape
        threads = bx * by * bz
        per_block = -(-threads // 32)
        warps = per_block * len(blocks)
        lanes = np.arange(per_block * 32).reshape(per_block, 32)
        index = np.stack([lanes % bx, lanes // bx % by, lanes // (bx * by)], axis=1).astype(np.int64)
        live = ((lanes < threads) << np.arange(32)).sum(axis=1).astype(np.uint32)
        table = np.zeros((warps, layout.WARP_COLUMNS), np.int64)
        for n, block in enumerate(blocks):
            here = table[n * per_block : (n + 1) * per_block]
            here[:, layout.PLACE : layout.PLACE + 3] = block % gx, block // gx % gy, block // (gx * gy)
            here[:, layout.SM], here[:, layout.SLOT] = sms[n], n
            here[:, layout.WARP] = np.arange(per_block)
            here[:, layout.NUMBER] = block * per_block + np.arange(per_block)
            here[:, layout.LIVE] = here[:, layout.MASK] = live
        table[:, layout.GROUPS], table[:, layout.STATE] = 1, layout.READY
        per_slot = np.zeros((len(blocks), layout.BLOCK_COLUMNS), np.int64)
        per_slot[:, layout.ALIVE], per_slot[:, layout.REDUCED + 1] = threads, 1
        predicates = np.zeros((warps, 17), np.uint32)
        predicates[:, [7, 15]] = 0xFFFFFFFF
        registers = np.zeros((warps, self.code.row_count + len(self.pool), 32), np.uint32)
        registers[:, self.code.row_count :] = self.pool
        return engine.State(
            registers=registers,
            predicates=predicates,
            threads=np.tile(index, (len(blocks), 1, 1)),
            warps=table,
            blocks=per_slot,
            unknown=np.zeros((warps, registers.shape[1] + 17), np.uint32),
            flags=np.zeros(layout.FLAGS, np.int64),
        )

    # ---- errors

    def _explained(self, status: int, memory: Memory, state: engine.State, budget: int) -> str:
        code = self.program.instructions
        if status in (engine.BUDGET, engine.DEADLOCK):
            at = int(state.warps[int(np.argmax(state.warps[:, layout.GROUPS] > 0)), layout.PC])
            place = self._place(min(at, len(code) - 1))
            if status == engine.BUDGET:
                return f"{place}: still running after {budget:,} warp instructions: an endless loop?"
            return f"{place}: a barrier that not all threads of the block reach"
        what, lane, address, size, pc, warp = (int(x) for x in memory.scratch[layout.ERROR : layout.ERROR + 6])
        place = self._place(pc)
        block = ", ".join(str(int(x)) for x in state.warps[warp, :3])
        thread = ", ".join(str(int(x)) for x in state.threads[warp, :, lane])
        who = f"thread ({thread}) of block ({block})"
        if what == layout.OUT_OF_RANGE:
            return f"{place}: {who} accesses {size} bytes at {address:#x}, {self._nearest(address)}"
        if what == layout.MISALIGNED:
            return f"{place}: {who} accesses {size} bytes at {address:#x}, which is not a multiple of {size}"
        if what in (layout.SHARED_RANGE, layout.LOCAL_RANGE):
            name = "shared" if what == layout.SHARED_RANGE else "local"
            return f"{place}: {who} accesses {name} memory at {address:#x}, beyond its end"
        if what == layout.TRAPPED:
            return f"{place}: {who} traps (an assertion or __trap)"
        if what in (layout.UNKNOWN_BRANCH, layout.UNKNOWN_ADDRESS):
            kind = "branch" if what == layout.UNKNOWN_BRANCH else "address"
            unknown = ", ".join(sorted(self.code.unknown)[:4]) or "an earlier instruction"
            return (
                f"{place}: a {kind} that depends on unknown values (of {unknown}); "
                "give a profiler report, or an assumption for this line in the launch file"
            )
        return f"{place}: a jump to a place outside the kernel"

    def _place(self, pc: int) -> str:
        x = self.program.instructions[pc]
        line = f", line {x.line}" if x.line is not None else ""
        return f"{self.program.demangled.partition('(')[0]}{line}, {x.offset:04x} {x.name}"

    def _nearest(self, address: int) -> str:
        if address < 1 << 20:
            return "a null pointer"
        best = None
        for argument, base in zip(self.call.arguments, self.addresses, strict=True):
            if base:
                end = base + (argument.count or 0) * SCALAR_BYTES[argument.element]
                gap = address - end + 1 if address >= end else base - address
                if best is None or gap < best[0]:
                    side = "behind the end" if address >= end else "before the start"
                    best = (gap, f"{gap:,} bytes {side} of {argument.name or 'an array'}")
        return best[1] if best else "where no array is"


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


def _array_row(argument: Argument, seed: int) -> tuple[npt.NDArray[np.int64], tuple[float, float]]:
    """Return the row of an array in the table of arrays."""
    name, numbers = parse_fill(argument)
    row = np.zeros(12, np.int64)
    size = SCALAR_BYTES[argument.element]
    row[pages.BYTES] = (argument.count or 0) * size
    row[pages.SIZE], row[pages.KIND], row[pages.SEED] = size, pages.KINDS[name], seed
    row[pages.COUNT] = argument.count or 0
    row[pages.IS_FLOAT], row[pages.IS_BF16] = argument.element[0] in "fb", argument.element == "bf16"
    pair = (0.0, 0.0)
    if name == "uniform":
        pair = (float(numbers[0]), float(numbers[1] - numbers[0]))
    elif name == "linear" and not all(isinstance(n, int) for n in numbers):
        pair = (float(numbers[0]), float(numbers[1]))
    elif name in ("linear", "random_int"):
        low, high = numbers
        row[pages.START], row[pages.STEP] = low, high if name == "linear" else high - low
    elif name == "hash_mod":
        row[pages.STEP] = numbers[0]
    return row, pair
