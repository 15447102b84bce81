"""Values on which the way of a kernel depends and that nobody gave: contents of arrays, shared memory, constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warplens.emulate import layout, ops
from warplens.emulate.decode import Code
from warplens.emulate.emulator import EmulationError
from warplens.emulate.runner import Runner
from warplens.emulate.sample import Counts
from warplens.kernel.launch import KernelCall
from warplens.kernel.profile import Assumed

_POISON = 0xA5A5A5A5  # in each word of shared memory: no small number, no float of a size that programs compute with
_TIMES, _SOME = 20, 100_000  # of the block's instructions, that it may execute with such values before it is stopped
_UNKNOWN = (layout.UNKNOWN_BRANCH, layout.UNKNOWN_ADDRESS)


def assumed(runner: Runner, first: int, lone: Counts, executed: npt.NDArray[np.float64]) -> list[Assumed]:
    """Return what is taken as zeros because nobody gave it. `lone`: the counts of the first block alone."""
    emulator = runner.emulator
    pointers = [i for i, address in enumerate(emulator.addresses) if address]
    made = contents(emulator.code, runner.call, pointers, runner.arrays, executed)
    beyond = sorted(emulator.beyond)
    if beyond:
        made.append(Assumed("constant", beyond))
    place = unwritten(runner, first, lone) if _asks(emulator.code, ops.SHARED, executed).size else None
    if place is not None:
        made.append(Assumed("shared", [place]))
    return made


def contents(
    code: Code, call: KernelCall, pointers: list[int], arrays: Counts, executed: npt.NDArray[np.float64]
) -> list[Assumed]:
    """Return the arrays without a fill from which something is loaded that an address or a branch depends on."""
    made: dict[int, list[int]] = {}
    for i in _asks(code, ops.GLOBAL, executed).tolist():
        at = int(arrays[i]) - 1
        if 0 <= at < len(pointers) and not call.arguments[pointers[at]].fill:
            made.setdefault(pointers[at], []).append(i)
    names = {n: call.arguments[n].name or f"argument {n + 1}" for n in made}
    return [Assumed("contents", made[n], names[n]) for n in sorted(made)]


def _asks(code: Code, space: int, executed: npt.NDArray[np.float64]) -> Any:
    """Return the loads of a space of memory whose values are needed, in a code of which the others move nothing."""
    table = code.table
    loads = (table[:, ops.GROUP] == ops.MEMORY) & np.isin(table[:, ops.OP], (ops.LOAD, ops.LOAD_MATRIX))
    there = np.isin(table[:, ops.Z] >> 8, (space, ops.GENERIC))
    return np.flatnonzero(loads & there & (table[:, ops.MODE] & ops.NO_VALUES == 0) & (executed > 0))


def unwritten(runner: Runner, block: int, lone: Counts) -> int | None:
    """Return an instruction whose way or address depends on shared memory that nobody wrote; None without one.

    The block is run again with all of shared memory unknown until it is written. Bytes and halves do not make a word
    known: where there are such stores, it is run a third time with other values, and has to count something else.
    """
    place = _run_again(runner, block, lone, unknown=True)
    stores = (x for x in runner.emulator.program.instructions if x.opcode in ("STS", "ATOMS"))
    if place is not None and any({"U8", "S8", "U16", "S16"} & set(x.modifiers) for x in stores):
        return None if _run_again(runner, block, lone, unknown=False) is None else place
    return place


def _run_again(runner: Runner, block: int, lone: Counts, *, unknown: bool) -> int | None:
    """Run a block with shared memory unknown, or full of other values; return where it goes another way."""
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
