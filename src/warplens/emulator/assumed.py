"""Assumed values: arrays, shared memory and constants that nobody gave and on which control flow depends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from warplens.emulator import layout, ops
from warplens.emulator.decode import Code
from warplens.emulator.emulator import EmulationError
from warplens.emulator.runner import Runner
from warplens.emulator.sample import Counts
from warplens.emulator.slicing import needed_only
from warplens.workload.contents import CONSTANT_BANK, not_given
from warplens.workload.launch import KernelCall
from warplens.workload.profile import Assumed

_ADDRESSES = 4  # the bank that has addresses of the module's variables
_POISON = 0xA5A5A5A5  # in each word of shared memory: no small number, no float of a size that programs compute with
_TIMES, _SOME = 20, 100_000  # of the block's instructions, that it may execute with such values before it is stopped
_UNKNOWN = (layout.UNKNOWN_BRANCH, layout.UNKNOWN_ADDRESS)


def assumed(runner: Runner, first: int, lone: Counts, executed: npt.NDArray[np.float64]) -> list[Assumed]:
    """Return the values taken as zeros because nobody gave them. `lone`: the counts of the first block alone."""
    emulator = runner.emulator
    pointers = [i for i, address in enumerate(emulator.addresses) if address]
    found = contents(emulator.code, runner.call, pointers, runner.arrays, executed)
    found += variables(runner, len(pointers), executed)
    beyond = sorted(emulator.beyond)
    if beyond:
        found.append(Assumed("constant", beyond))
    instruction = unwritten(runner, first, lone) if _asks(emulator.code, ops.SHARED, executed).size else None
    if instruction is not None:
        found.append(Assumed("shared", [instruction]))
    return found


def contents(
    code: Code, call: KernelCall, pointers: list[int], arrays: Counts, executed: npt.NDArray[np.float64]
) -> list[Assumed]:
    """Return the arrays without a fill from which something is loaded that an address or a branch depends on."""
    found: dict[int, list[int]] = {}
    for i in _asks(code, ops.GLOBAL, executed).tolist():
        at = int(arrays[i]) - 1
        if 0 <= at < len(pointers) and not call.arguments[pointers[at]].fill:
            found.setdefault(pointers[at], []).append(i)
    names = {n: call.arguments[n].name or f"argument {n + 1}" for n in found}
    return [Assumed("contents", found[n], names[n]) for n in sorted(found)]


def variables(runner: Runner, pointers: int, executed: npt.NDArray[np.float64]) -> list[Assumed]:
    """Return the variables of the module that nobody gives and that an address or a branch depends on.

    A load from global memory tells only the section that it goes to: all its variables whose address the code has.
    """
    emulator = runner.emulator
    missing = not_given(emulator.program, runner.call)
    if not missing:
        return []
    code = replace(emulator.code, table=needed_only(emulator.code, constants=True))
    found: dict[str, list[int]] = {}
    bank = emulator.program.symbols.get(".nv.constant3", 0)
    for i, offset in _constants(code, executed):
        for name, (address, size) in missing.items():
            if address <= bank + offset < address + size:
                found.setdefault(name, []).append(i)
    pairs = zip(code.pool, emulator.pool[:, 0].tolist(), strict=True)
    low = [
        value for (kind, number, _), value in pairs if kind == "address" or (kind == "bank" and number == _ADDRESSES)
    ]
    named = {name: at for name, at in missing.items() if any(0 <= v - (at[0] & 0xFFFFFFFF) < at[1] for v in low)}
    for i in _asks(code, ops.GLOBAL, executed).tolist():
        at = int(runner.arrays[i]) - 1 - pointers
        segment = emulator.program.segments[at] if 0 <= at < len(emulator.program.segments) else None
        for name, (address, _) in named.items() if segment else ():
            if segment and segment.address <= address < segment.address + segment.size_bytes:
                found.setdefault(name, []).append(i)
    return [Assumed("variable", found[name], name) for name in missing if name in found]


def _constants(code: Code, executed: npt.NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """Yield the instructions of which something is needed and their offsets in the bank of __constant__ variables."""
    table = code.table
    offsets = {code.row_count + k: offset for k, (kind, bank, offset) in enumerate(code.pool)
               if kind == "bank" and bank == CONSTANT_BANK}  # fmt: skip
    if not offsets and not (table[:, ops.OP] == ops.LOAD_CONSTANT).any():
        return
    for i in np.flatnonzero((executed > 0) & (table[:, ops.GROUP] != ops.NOTHING)).tolist():
        row = table[i].tolist()
        if row[ops.GROUP] == ops.INTEGER and row[ops.OP] == ops.LOAD_CONSTANT:
            if row[ops.Y] == CONSTANT_BANK:
                yield i, row[ops.X]
        else:
            yield from ((i, offsets[row[which]]) for which in (ops.A, ops.B, ops.C) if row[which] in offsets)


def _asks(code: Code, space: int, executed: npt.NDArray[np.float64]) -> Any:
    """Return the loads of a space of memory whose values are needed, in a code of which the others move nothing."""
    table = code.table
    loads = (table[:, ops.GROUP] == ops.MEMORY) & np.isin(table[:, ops.OP], (ops.LOAD, ops.LOAD_MATRIX))
    there = np.isin(table[:, ops.Z] >> 8, (space, ops.GENERIC))
    return np.flatnonzero(loads & there & (table[:, ops.MODE] & ops.NO_VALUES == 0) & (executed > 0))


def unwritten(runner: Runner, block: int, lone: Counts) -> int | None:
    """Return an instruction whose branch or address depends on shared memory that nobody wrote; None without one.

    The block is run again with all of shared memory unknown until it is written. Bytes and halves do not make a word
    known: where there are such stores, it is run a third time with other values, and has to count something else.
    """
    instruction = _run_again(runner, block, lone, unknown=True)
    stores = (x for x in runner.emulator.program.instructions if x.opcode in ("STS", "ATOMS"))
    if instruction is not None and any({"U8", "S8", "U16", "S16"} & set(x.modifiers) for x in stores):
        return None if _run_again(runner, block, lone, unknown=False) is None else instruction
    return instruction


def _run_again(runner: Runner, block: int, lone: Counts, *, unknown: bool) -> int | None:
    """Run a block with shared memory unknown, or full of other values; return the instruction where it differs."""
    emulator = runner.emulator
    kept = emulator.executed, emulator.unknown_executed, emulator.assumed_accesses, [*emulator.work]
    emulator.forget()
    emulator.stats[:] = 0
    emulator.shared_begins = None if unknown else _POISON
    budget = _SOME + _TIMES * int(lone[:, layout.EXECUTED].sum() + 8 * lone[:, layout.REQUESTS].sum())
    found: int | None = None
    try:
        emulator.run([block], budget=budget)
        differ = np.flatnonzero(emulator.stats[:, layout.EXECUTED] != lone[:, layout.EXECUTED])
        found = int(differ[0]) if differ.size and not unknown else None
    except EmulationError as error:
        found = error.instruction if not unknown or error.status in _UNKNOWN else None
    finally:
        emulator.shared_begins = 0
        emulator.executed, emulator.unknown_executed, emulator.assumed_accesses, emulator.work = kept
        emulator.forget()
    return found
