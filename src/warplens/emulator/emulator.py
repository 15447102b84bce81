"""Emulator of a kernel call: memory, runs of blocks, and the counts of each instruction.

emulator = Emulator(program, call)
emulator.run(range(4))           # blocks, by their number in the grid
emulator.array("y")              # what is in an argument's array now
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warplens.core.errors import WarplensError
from warplens.emulator import engine, layout, pages
from warplens.emulator.cache import MAP_WORDS, Cache, new_cache
from warplens.emulator.decode import Code, decode
from warplens.emulator.engine import Memory
from warplens.emulator.initial import FIRST_ADDRESS, PARAMETERS_AT, Resident, addresses_of, constant_banks, pages_of
from warplens.emulator.slicing import sliced
from warplens.program.program import Program, Segment
from warplens.workload.contents import contents, dtype_of, with_variables
from warplens.workload.launch import SCALAR_BYTES, KernelCall, check_parameters

_SHARED_RESERVED = 1024
_MOST_PAGES = 1 << 24  # that the map of touched sectors has: 16 GiB
_COPIED_PAGES = 1 << 14
# Most instructions of a run (an access is eight): some, and some more for each of its warps. An endless loop stops
# there in a few seconds; no kernel is known of which a warp really executes more.
_BUDGET, _BUDGET_PER_WARP = 100_000_000, 5_000_000
_SLICE = 4_000_000  # likewise, in one call of compiled code, which no signal interrupts: a tenth of a second
_STACK_BYTES = 1024  # of a thread that calls functions, unless the compiler knows it needs more: CUDA's default


class EmulationError(WarplensError):
    """An error of a kernel: its kind, instruction, line and thread."""

    status = instruction = 0  # as the engine says it (`layout`), and the number of the instruction


_CODES: dict[Any, tuple[Program, Code, engine.Names]] = {}  # of the programs that ran last: launches share them
_MOST_CODES = 8


def _code(program: Program, pointers: tuple[int, ...] | None) -> tuple[Code, engine.Names]:
    """Decode a program; given where its pointers are, only what addresses and branches depend on is computed."""
    key = id(program.instructions), pointers  # kept with the entry, so that no other list has this number
    if key not in _CODES:
        code = decode(program)
        if pointers is not None and not program.system:  # the system's functions read registers that nothing names
            code = sliced(code, pointers)
        while len(_CODES) >= _MOST_CODES:
            del _CODES[next(iter(_CODES))]
        _CODES[key] = program, code, _names(code)
    return _CODES[key][1:]


def _names(code: Code) -> engine.Names:
    flat = [np.array([*itertools.chain(*lists)] or [0], np.int64) for lists in (code.reads, code.writes)]
    ends = [np.cumsum([0, *map(len, lists)], dtype=np.int64) for lists in (code.reads, code.writes)]
    return engine.Names(flat[0], ends[0], flat[1], ends[1])


class Emulator:
    """One kernel call on the emulated machine; memory stays between runs."""

    def __init__(
        self, program: Program, call: KernelCall, caches: tuple[Cache, Cache] | None = None, *, values: bool = True
    ) -> None:
        """Make the memory of a call. Without `values` only what addresses and branches depend on is computed."""
        self.call, self.program = call, (program := with_variables(program, call))
        r = program.resources
        self.offsets = check_parameters(call, r.parameter_bytes, program.demangled, r.parameters)
        self.addresses = addresses_of(call)
        self.pointers = tuple(r.parameter_offset + o for o, a in zip(self.offsets, self.addresses, strict=True) if a)
        self.code, self.names = _code(program, None if values else self.pointers)
        self.banks = constant_banks(program, call, self.offsets, self.addresses, self._local_bytes)
        self.pages = pages_of(call, self.addresses, self._segments())
        self.pool = self._pool()
        self.stats = np.zeros((len(program.instructions), layout.STATISTICS), np.int64)
        self.caches = caches or (new_cache(0, 0, 1), new_cache(0, 0, 1))
        self.touched = np.zeros((len(self.pages.words), MAP_WORDS), np.uint32)  # sectors by page: see cache.py
        self.trace = np.zeros((0, 3), np.int32)  # give it rows to have the runs of the next call to `run`
        self.traced = 0
        self.samples = np.zeros((len(program.instructions), 0, layout.SAMPLE_COLUMNS), np.int64)  # as `trace`
        self.patterns = np.zeros((layout.PATTERN_ROWS, layout.PATTERN_COLUMNS), np.int64)
        self._idle = np.zeros((len(program.instructions) + 1, 2), np.int64)
        self.stopped = False  # from another thread: see `run`
        self.executed = self.unknown_executed = self.assumed_accesses = 0
        self.beyond: set[int] = set()  # instructions that read behind the end of a constant bank
        self.shared_begins: int | None = 0  # what shared memory holds before it is written; None: it is unknown
        self._flags = np.zeros(layout.FLAGS, np.int64)  # kept between runs: whether values are unknown, the heap
        self._marks = np.zeros((self.pages.words.shape[0], pages.PAGE_WORDS // 32), np.uint32)
        self.work: list[tuple[int, int]] = []  # per warp: block, instructions
        self._looked_up: dict[tuple[bool, bool, int], engine.Functions] = {}
        self._scratch = np.zeros(layout.SCRATCH, np.int64)
        self._block = engine.new_block()

    # ---- memory

    def _segments(self) -> list[Segment]:
        """Return the variables of the module, the heap if the kernel allocates, its parameters if it points to them."""
        segments = [*self.program.segments]
        if "malloc" in self.program.system:
            segments.append(Segment(layout.HEAP, layout.HEAP_BYTES))
        if any(kind == "bank" and bank == 0 and at in PARAMETERS_AT for kind, bank, at in self.code.pool):
            r = self.program.resources
            raw = self.banks[0].view(np.uint8)[r.parameter_offset : r.parameter_offset + r.parameter_bytes].tobytes()
            segments.append(Segment(layout.PARAMETERS, r.parameter_bytes, raw))
        return segments

    def _grow(self) -> None:
        filled = np.flatnonzero(self.pages.filled)  # the others hold nothing, and take no memory
        count = len(self.pages.words)
        if 2 * len(filled) * pages.PAGE_BYTES > 1 << 31 or 2 * count > _MOST_PAGES:
            raise WarplensError("the kernel touches more than 2 GiB of memory in the emulated blocks: emulate fewer")
        words = np.zeros((2 * count, pages.PAGE_WORDS), np.uint32)
        for start in range(0, len(filled), _COPIED_PAGES):  # not all at once, which would be a third copy
            part = filled[start : start + _COPIED_PAGES]
            words[part] = self.pages.words[part]
        larger = {name: pages.doubled(getattr(self.pages, name)) for name in ("filled", "slots")}
        self.pages = self.pages._replace(words=words, **larger)
        self.touched, self._marks = pages.doubled(self.touched), pages.doubled(self._marks)

    def forget(self) -> None:
        """Give all arrays their first contents again."""
        used = pages.forget(self.pages)
        self.touched[:used] = self._marks[:used] = 0
        self._flags[:] = 0

    def array(self, name: str | int) -> npt.NDArray[Any]:
        """Return the contents of a pointer argument (by name or position) as they are now."""
        i = name if isinstance(name, int) else [a.name for a in self.call.arguments].index(name)
        argument = self.call.arguments[i]
        count = argument.count or 0
        values = np.ascontiguousarray(contents(argument, i, self.call.folder)(np.arange(count))).view(np.uint8)
        row = next(r for r in self.pages.arrays if r[pages.BASE] == self.addresses[i])
        first, size = int(row[pages.FIRST_PAGE]), int(row[pages.BYTES])
        count = -(-size // pages.PAGE_BYTES)
        table = self.pages.table[first : first + count]
        touched = np.flatnonzero(table)
        filled = self.pages.filled[table[touched] - 1, None] >> np.arange(32, dtype=np.uint32) & 1 != 0
        whole = np.zeros((count, 32, pages.PAGE_BYTES // 32), np.uint8)
        whole.reshape(-1)[:size] = values
        pages_of, sectors = np.nonzero(filled)
        raw = self.pages.words.view(np.uint8).reshape(-1, 32, pages.PAGE_BYTES // 32)
        whole[touched[pages_of], sectors] = raw[table[touched[pages_of]] - 1, sectors]
        return whole.reshape(-1)[:size].view(dtype_of(argument.element))

    def known(self, name: str | int) -> npt.NDArray[np.bool_]:
        """Return which 4-byte words of a pointer argument's array are known: not computed from unknown values."""
        i = name if isinstance(name, int) else [a.name for a in self.call.arguments].index(name)
        row = next(r for r in self.pages.arrays if r[pages.BASE] == self.addresses[i])
        first, count = int(row[pages.FIRST_PAGE]), -(-int(row[pages.BYTES]) // 4)
        known = np.ones(-(-count // pages.PAGE_WORDS) * pages.PAGE_WORDS, np.bool_)
        for k, page in enumerate(self.pages.table[first : first + known.size // pages.PAGE_WORDS]):
            if page > 0:
                bits = np.unpackbits(self._marks[page - 1].view(np.uint8), bitorder="little")
                known[k * pages.PAGE_WORDS : (k + 1) * pages.PAGE_WORDS] = bits == 0
        return known[:count]

    # ---- constants

    def _pool(self) -> npt.NDArray[np.uint32]:
        values = [int(self.banks[b, o >> 2]) if kind == "bank" else b for kind, b, o in self.code.pool]
        return np.repeat(np.array(values, np.uint32)[:, None], 32, axis=1).copy()

    @cached_property
    def _local_bytes(self) -> int:
        calls = any(x.opcode == "CALL" for x in self.program.instructions)
        return -(-max(self.program.resources.frame_bytes, _STACK_BYTES if calls else 0) // 16) * 16

    def _shared_words(self) -> int:
        size = _SHARED_RESERVED + self.program.resources.static_shared_bytes + self.call.dynamic_shared_bytes
        return -(-size // 4)

    # ---- running

    def is_compiled(self) -> bool:
        """Return whether the machine code for this kernel is there; if not, its first run takes some seconds more."""
        return engine.is_compiled(self.code.table, self.caches[0], bool(self._flags[layout.SOME_UNKNOWN]))

    def run(self, blocks: Sequence[int], sms: Sequence[int] | None = None, budget: int | None = None) -> None:
        """Run these blocks (numbers in the grid) side by side, on these SMs (for L1).

        Compiled code returns now and then, for signals and for `stopped`.
        """
        state, shared, local = self._resident.begin(blocks, sms or [0] * len(blocks), self._flags, self._marks)
        if self.shared_begins:
            shared[:] = self.shared_begins
        elif self.shared_begins is None:
            state.marks_shared[:], state.flags[layout.SOME_UNKNOWN] = 0xFFFFFFFF, 1
        budget = budget or _BUDGET + _BUDGET_PER_WARP * len(state.warps)
        self.traced = 0
        while True:
            memory = self._memory(shared, local)
            memory.scratch[layout.TRACED] = self.traced
            functions = self._functions(bool(state.flags[layout.SOME_UNKNOWN]))
            stop = min(budget, engine.effort(state) + _SLICE)
            status = engine.run(self.code.table, functions, self.names, state, memory, stop, self._block)
            self.traced = int(memory.scratch[layout.TRACED])
            if status == engine.GROW:
                self._grow()
                state = state._replace(marks_global=self._marks)
            elif status == engine.BUDGET and stop < budget >= engine.effort(state):
                state.flags[[layout.NEXT_WARP, layout.NEXT_GROUP, layout.NEXT_TURN]] = 0  # all warps had their turn
                self._stop_if_asked()
            else:
                break
        engine.count_idle(self.stats, self._idle)
        self.executed += int(state.flags[layout.EXECUTED_ALL])
        self.unknown_executed += int(state.flags[layout.EXECUTED_UNKNOWN])
        self.assumed_accesses += int(state.flags[layout.ASSUMED_ACCESSES])
        if state.flags[layout.BEYOND]:
            self.beyond.add(int(state.flags[layout.BEYOND]) - 1)
        self._flags[[layout.SOME_UNKNOWN, layout.HEAP_USED]] = state.flags[[layout.SOME_UNKNOWN, layout.HEAP_USED]]
        slots, work = (state.warps[:, column].tolist() for column in (layout.SLOT, layout.WORK))
        self.work += [(blocks[slot], each) for slot, each in zip(slots, work, strict=True)]
        if status != engine.DONE:
            error = EmulationError(self._explained(status, memory, state))
            error.status = int(memory.scratch[layout.ERROR])
            error.instruction = int(memory.scratch[layout.ERROR + 4])
            raise error

    def _stop_if_asked(self) -> None:
        """End a run in a thread of which nobody waits for the result: it was told so, or the process ends."""
        if self.stopped or not threading.main_thread().is_alive():
            raise EmulationError("the emulation was interrupted")

    def _functions(self, unknown: bool) -> engine.Functions:
        """Return where the compiled functions are that a run needs, looked up once for each kind of run."""
        kind = bool(self.caches[0].size), unknown, id(self.code)
        if kind not in self._looked_up:
            self._looked_up[kind] = engine.addresses(self.code.table, self.caches[0], unknown)
        return self._looked_up[kind]

    def _memory(self, shared: npt.NDArray[np.uint32], local: npt.NDArray[np.uint32]) -> Memory:
        self._scratch[:] = 0
        return Memory(
            pages=self.pages, shared=shared, local=local, banks=self.banks, stats=self.stats,
            scratch=self._scratch, l1=self.caches[0], l2=self.caches[1],
            touched=self.touched, trace=self.trace, samples=self.samples,
            patterns=self.patterns, idle=self._idle,
        )  # fmt: skip

    @cached_property
    def _resident(self) -> Resident:
        words = self._shared_words(), max(1, self._local_bytes // 4)
        return Resident(self.program, self.call, self.code, self.pool, self._assumed, words)

    @cached_property
    def _assumed(self) -> npt.NDArray[np.int64]:
        """Return the launch file's assumptions by instruction: kind, number, index among all of them."""
        table = np.zeros((len(self.program.instructions), 3), np.int64)
        count = 0
        for a in self.call.assumptions:
            found = [(i, x) for i, x in enumerate(self.program.instructions) if x.line == a.line]
            if not found:
                raise WarplensError(f"assume: no instruction of {self.program.demangled} comes from line {a.line}")
            for i, x in found:
                if not x.guard or x.opcode not in ("BRA", "EXIT", "BREAK"):
                    if a.bytes_apart is not None:
                        table[i] = layout.ASSUMED_STRIDE, a.bytes_apart, 0
                    continue
                back = x.target is not None and x.target <= x.offset  # a branch forward leaves the loop
                if a.trips is not None and back:
                    table[i] = layout.ASSUMED_TRIPS, round(a.trips), count
                elif a.trips is not None or a.taken_fraction is not None:
                    share = a.taken_fraction if a.trips is None and a.taken_fraction is not None else 0
                    table[i] = layout.ASSUMED_SHARE, round(share * (1 << 20)), count
                count += 1
        return table

    # ---- errors

    def _explained(self, status: int, memory: Memory, state: engine.State) -> str:
        code = self.program.instructions
        if status in (engine.BUDGET, engine.DEADLOCK):
            alive = [(warp, g) for warp in state.warps for g in range(int(warp[layout.GROUPS]))]
            warp, g = next((x for x in alive if x[0][layout.STATE + x[1]] == layout.READY), alive[0])
            at, waits = int(warp[layout.PC + g]), int(warp[layout.STATE + g])
            behind = waits in (layout.AT_SYNC, layout.AT_WARPSYNC, layout.AT_BARRIER)  # it points to the next one
            where = self._where(min(at - behind, len(code) - 1))
            if status == engine.BUDGET:
                done = int(state.flags[layout.EXECUTED_ALL])
                return f"{where}: still running after {done:,} warp instructions: an endless loop?"
            return f"{where}: a barrier that not all threads of the block reach: {self._who_waits(state)}"
        what, lane, address, size, pc, warp = (int(x) for x in memory.scratch[layout.ERROR : layout.ERROR + 6])
        where = self._where(pc)
        block = ", ".join(str(int(x)) for x in state.warps[warp, :3])
        thread = ", ".join(str(int(x)) for x in state.threads[warp, :, lane])
        who = f"thread ({thread}) of block ({block})"
        if what == layout.OUT_OF_RANGE:
            return f"{where}: {who} accesses {size} bytes at {address:#x}, {self._nearest(address)}"
        if what == layout.MISALIGNED:
            return f"{where}: {who} accesses {size} bytes at {address:#x}, which is not a multiple of {size}"
        if what in (layout.SHARED_RANGE, layout.LOCAL_RANGE):
            name = "shared" if what == layout.SHARED_RANGE else "local"
            deep = what == layout.LOCAL_RANGE and any(x.opcode == "CALL" for x in code)
            calls = "; does a function call itself more often than the stack is deep?" if deep else ""
            return f"{where}: {who} accesses {name} memory at {address:#x}, beyond its end{calls}"
        if what == layout.BAD_CALL:
            return f"{where}: {who} calls a function of the system that is not known ({', '.join(self.program.system)})"
        if what == layout.TRAPPED:
            return f"{where}: {who} traps (an assertion or __trap)"
        if what in (layout.UNKNOWN_BRANCH, layout.UNKNOWN_ADDRESS):
            kind = "a branch" if what == layout.UNKNOWN_BRANCH else "an address"
            unknown = ", ".join(sorted(self.code.unknown)[:4]) or "an earlier instruction"
            return (
                f"{where}: {kind} that depends on unknown values (of {unknown}); "
                "give a profiler report, or an assumption for this line in the launch file"
            )
        return f"{where}: a jump to a place outside the kernel"

    @staticmethod
    def _who_waits(state: engine.State) -> str:
        """Name the warps of the first block that waits: those that do, and those that have ended."""
        first = int(np.argmax(state.warps[:, layout.GROUPS] > 0))
        block = state.warps[(state.warps[:, :3] == state.warps[first, :3]).all(axis=1)]
        alive = block[:, layout.GROUPS] > 0
        at = ", ".join(str(int(x)) for x in state.warps[first, :3])
        ended = f", warp {_few(np.flatnonzero(~alive))} ended" if not alive.all() else ""
        return f"in block ({at}) warp {_few(np.flatnonzero(alive))} of {len(block)} waits{ended}"

    def _where(self, pc: int) -> str:
        x = self.program.instructions[pc]
        file = Path(self.program.source_file).name  # named where it is not the one that was given
        file = "" if file == Path(self.call.file or self.program.origin).name else f"{file} "
        line = f", {file}line {x.line}" if x.line is not None else ""
        return f"{self.program.demangled.partition('(')[0]}{line}, {x.offset:04x} {x.name}"

    def _nearest(self, address: int) -> str:
        names = [x.name or f"argument {i}" for i, x in enumerate(self.call.arguments, 1)]
        null = [n for n, x in zip(names, self.call.arguments, strict=True) if x.is_pointer and not x.count]
        if address < (FIRST_ADDRESS // 2 if null else 1 << 20):  # a thread far from the first reads far from zero
            return "a null pointer" + (f" ({', '.join(null)})" if null else "")
        best = None
        for name, argument, base in zip(names, self.call.arguments, self.addresses, strict=True):
            if base:
                end = base + (argument.count or 0) * SCALAR_BYTES[argument.element]
                gap = address - end + 1 if address >= end else base - address
                if best is None or gap < best[0]:
                    side = "behind the end" if address >= end else "before the start"
                    best = (gap, f"{gap:,} bytes {side} of {name}")
        return best[1] if best else "where no array is"


def _few(numbers: Any) -> str:
    return ", ".join(str(int(n)) for n in numbers[:8]) + (", ..." if len(numbers) > 8 else "")
