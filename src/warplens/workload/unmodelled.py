"""Unmodelled features of a kernel: named in the answer, line by line, with a wider interval or none.

A table lists instructions (files/unmodelled.toml), a function each of what is not a single instruction. A factor widens
the interval on both sides; without a factor there is no interval.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from warplens.core.files import convert, read_toml
from warplens.program.dataflow import clocked, counter, spins
from warplens.program.instruction import Instruction
from warplens.program.program import Program
from warplens.workload.profile import Profile, Unmodelled

_FEW = 4  # lines that are named; fences of a warp of which nothing is said
_LONGEST_SLEEP = 1e-3  # seconds, by the PTX manual; an H200 sleeps 1.05 ms (data/experiments/fences/nanosleep.json)


class Rule(Struct, frozen=True):
    """Instructions by the first words of their names, with any of some modifiers if there are such."""

    names: list[str]
    thing: str
    says: str
    factor: float | None = None
    modifiers: list[str] = []

    def fits(self, x: Instruction) -> bool:
        """Return whether this is such an instruction."""
        named = any(x.name == name or x.name.startswith(f"{name}.") for name in self.names)
        return named and (not self.modifiers or not set(self.modifiers).isdisjoint(x.modifiers))


class _File(Struct, frozen=True):
    instruction: list[Rule]
    assumed: dict[str, tuple[str, str]]  # what, and what is said of it


_FILE = Path(__file__).parent / "files" / "unmodelled.toml"
_KNOWN = convert(read_toml(_FILE), _File, str(_FILE))
RULES = _KNOWN.instruction
_MOVED_ELSEWHERE = ("CCTL", "PREFETCH", "QSPC", "UBLKCP", "UBLKRED")  # accesses without requests of their own
_SYSTEM = {"vprintf": "printf", "__assertfail": "assert"}  # as the programmer calls the driver's functions


def unmodelled(program: Program, profile: Profile) -> list[Unmodelled]:
    """Return the unmodelled features of a call, by its program and its profile; those without an interval first."""
    ran = [x for x, threads in zip(program.instructions, profile.counts["threads"], strict=True) if threads]
    measured = profile.emulated_blocks == 0  # a profiler has counted the bytes
    rules = [rule for rule in RULES if not (measured and "bytes" in rule.says)]
    found = [
        *(u for rule in rules for u in _found([x for x in ran if rule.fits(x)], rule.thing, rule.says, rule.factor)),
        *_sleeps(ran),
        *_of_the_driver(program, profile),
        *_waits(program, profile, ran),
        *_past_l1(program, profile),
        *_assumed(program, profile),
        *_unknown(program, profile),
    ]
    cluster = program.resources.cluster
    if cluster is not None and max(cluster) > 1:
        shape = ", ".join(str(n) for n in cluster)
        found.insert(0, Unmodelled(f"__cluster_dims__({shape})", "its blocks are taken as blocks without a cluster"))
    return sorted(found, key=lambda u: u.factor is not None)


def texts(found: Iterable[Unmodelled]) -> list[str]:
    """Return the sentence on each, with the factor of the interval."""
    return [u.text + ("" if u.factor in (None, 1.0) else f" (interval widened {u.factor:g} times)") for u in found]


def sleep_seconds(x: Instruction) -> float | None:
    """Return the seconds that an instruction asks to sleep; None where a register says it, 0 for others."""
    if x.opcode != "NANOSLEEP" or "SYNCS" in x.modifiers:  # .SYNCS: until a barrier's phase, which comes by itself
        return 0.0
    known = next((o.value for o in x.operands if o.kind == "immediate"), None)
    return None if known is None else min(1e-9 * known, _LONGEST_SLEEP)


def _found(code: Sequence[Instruction], thing: str, says: str, factor: float | None = None) -> list[Unmodelled]:
    """Return a finding of some instructions, with their lines, if there are any."""
    if not code:
        return []
    lines = sorted({x.line for x in code if x.line is not None})
    named = ", ".join(str(n) for n in lines[:_FEW]) + (", ..." if len(lines) > _FEW else "")
    where = f"line{'s' if len(lines) > 1 else ''} {named}" if lines else f"{code[0].offset:04x} {code[0].name}"
    return [Unmodelled(thing, says, where, factor)]


def _sleeps(ran: Sequence[Instruction]) -> Iterator[Unmodelled]:
    sleeps = [x for x in ran if sleep_seconds(x) != 0.0]
    known, unknown = ([x for x in sleeps if (sleep_seconds(x) is None) == computed] for computed in (False, True))
    yield from _found(known, "__nanosleep", "counted as long as it asks for; it may take from none to twice that", 2.0)
    yield from _found(unknown, "__nanosleep", "for a time that is computed: it is not counted")


def _of_the_driver(program: Program, profile: Profile) -> Iterator[Unmodelled]:
    """Name the driver's functions that are called: their code is not in the kernel."""
    calls: dict[str, list[int]] = {}
    for i, x in enumerate(program.instructions):
        if x.opcode == "CALL" and "ABS" in x.modifiers and (name := _callee(program, i)):
            calls.setdefault(name, []).append(i)
    for name, positions in calls.items():
        ran = [program.instructions[i] for i in positions if profile.counts["threads"][i]]
        yield from _found(ran, _SYSTEM.get(name, name), "the driver's code, whose time is not counted")
        if not ran and not profile.exact:
            code = [program.instructions[i] for i in positions]
            yield from _found(code, _SYSTEM.get(name, name), "called by no block that was emulated: not counted", 1.0)


def _callee(program: Program, at: int) -> str:
    """Return the driver's function that a call goes to, by the address that is loaded for it; all, if unclear."""
    addresses = {program.symbols[name]: name for name in program.system if name in program.symbols}
    code, register = program.instructions, program.instructions[at].operands[0].registers[:1]
    load = _writer(code, at, register)
    if load is None or not addresses:
        return ""
    i, x = load
    address = re.search(r"c\[0x4\]\s*\[(?:(U?R\d+))?\+?(0x[0-9a-f]+)?\]", x.text)
    if address is None:
        named = re.search(r"32@lo\(+([\w.$]+)", x.text)
        return named[1] if named and named[1] in program.system else ""
    offset = int(address[2] or "0", 16)
    if address[1] and (index := _writer(code, i, (address[1],))) is not None:
        offset += int(next((o.value for o in index[1].operands if o.kind == "immediate" and o.value), 0))
    raw = program.constants.get(4, b"")[offset : offset + 8]
    return addresses.get(int.from_bytes(raw, "little"), "")


def _writer(code: Sequence[Instruction], at: int, registers: Sequence[str]) -> tuple[int, Instruction] | None:
    """Return the last instruction before position `at` that writes these registers."""
    return next(((i, code[i]) for i in range(at - 1, -1, -1) if set(registers) & set(code[i].writes)), None)


def _waits(program: Program, profile: Profile, ran: Sequence[Instruction]) -> Iterator[Unmodelled]:
    queue = counter(program)
    if queue is not None and not profile.exact:
        says = (
            "blocks take their work from a counter; each of the few that were emulated did all of it, and counts and "
            "time are far too high; --exact counts the whole grid"
        )
        yield from _found([queue], "a work queue", says)
    waits = [x for x in spins(program) if any(x is y for y in ran)]
    yield from _found(
        waits, "a loop until another thread has written", "how often it goes round is as the emulator's order has it"
    )
    clocks, barriers = ([x for x in found if any(x is y for y in ran)] for found in clocked(program))
    yield from _found(clocks, "a branch that depends on a clock", "the emulator's clock counts instructions")
    yield from _found(barriers, "a wait for a barrier (mbarrier)", "it asks a clock, and its time is not modelled")


def _past_l1(program: Program, profile: Profile) -> Iterator[Unmodelled]:
    """Name the loads that bypass L1 and are counted as hits there, and the fences that empty it, if they are many."""
    code, executed = program.instructions, profile.counts["executed"]
    hits = zip(code, profile.counts["l1_hit_sectors"], strict=True)
    volatile = [x for x, n in hits if n and x.opcode in ("LD", "LDG") and "STRONG" in x.modifiers]
    yield from _found(volatile, "a volatile load", "counted as one that L1 may serve", 1.5)
    counted = [(x, n) for x, n in zip(code, executed, strict=True) if n]
    fences = [(x, n) for x, n in counted if x.opcode == "CCTL" and "IVALL" in x.modifiers]
    if sum(n for _, n in fences) > _FEW * profile.grid_blocks * profile.warps_per_block:
        says = "it empties L1, and later accesses are counted as if it did not"
        yield from _found([x for x, _ in fences], "a fence", says, 1.25)


def _assumed(program: Program, profile: Profile) -> Iterator[Unmodelled]:
    """Name the values on which the kernel's control flow depends, and that the launch does not give."""
    for assumption in profile.assumed:
        code = [program.instructions[i] for i in assumption.instructions]
        thing, says = (text.replace("NAME", assumption.name) for text in _KNOWN.assumed[assumption.kind])
        yield from _found(code, thing, says)


def _unknown(program: Program, profile: Profile) -> Iterator[Unmodelled]:
    """Name instructions that neither table nor machine file has, and accesses that the emulator does not follow."""
    counts = zip(program.instructions, profile.counts["threads"], profile.counts["requests"], strict=True)
    threads = [(x, asked) for x, n, asked in counts if n and not any(rule.fits(x) for rule in RULES)]
    for name in dict.fromkeys(x.name for x, _ in threads if x.kind == "other"):
        code = [x for x, _ in threads if x.name == name]
        yield from _found(code, name, "an instruction whose rate is not known: counted as an issue slot", 1.5)
    if profile.emulated_blocks == 0:
        return
    lost = [x for x, asked in threads if x.kind in ("load", "store") and not asked and x.opcode not in _MOVED_ELSEWHERE]
    for name in dict.fromkeys(x.name for x in lost):
        yield from _found([x for x in lost if x.name == name], name, "the bytes that it moves are not counted")
