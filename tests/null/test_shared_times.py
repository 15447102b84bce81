"""How registers and wavefronts get to shared memory: code by hand of a lone warp (shared_times.py), to the cycle."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import pytest
from msgspec.structs import replace

from warplens.machine import Machine, load_machine
from warplens.papers.validation.mixes import read
from warplens.program.decoding import decode_text
from warplens.program.instruction import Control, Instruction, Operand
from warplens.simulator import layout as at
from warplens.simulator.accesses import register_cycles, sent
from warplens.simulator.code import Step, Way
from warplens.simulator.from_program import from_program
from warplens.simulator.overlay import overlay
from warplens.simulator.run import Options, run
from warplens.simulator.units import PIPES, Units, units

# Their modifiers, class, registers of the result, of the address and of other operands.
KINDS = {
    "lds": ("LDS", "shared", 1, 1, ()), "lds_64": ("LDS.64", "shared", 2, 1, ()),
    "lds_128": ("LDS.128", "shared", 4, 1, ()), "sts": ("STS", "shared", 0, 1, (1,)),
    "sts_64": ("STS.64", "shared", 0, 1, (2,)), "sts_128": ("STS.128", "shared", 0, 1, (4,)),
    "atoms": ("ATOMS.ADD", "shared", 1, 1, (1,)), "cas": ("ATOMS.CAS", "shared", 1, 1, (1, 1)),
    "bfly": ("SHFL.BFLY", "shuffle", 1, 0, (1,)), "idx": ("SHFL.IDX", "shuffle", 1, 0, (1, 1)),
    "mufu": ("MUFU.RSQ", "sfu", 1, 0, (1,)), "f2f_64": ("F2F.F64.F32", "convert", 2, 0, (1,)),
    "f2f_32": ("F2F.F32.F64", "convert", 1, 0, (2,)), "s2r": ("S2R", "int", 1, 0, ()),
}  # fmt: skip
SHARED = tuple(name for name, kind in KINDS.items() if kind[1] in ("shared", "shuffle"))
APART = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15)
_WARM = 100  # cycles before programs of several warps


@cache
def _h200() -> Units:
    return units(load_machine("h200"))


def _instruction(name: str, stall: int, *, watched: bool = False) -> Instruction:
    text, kind, results, address, others = KINDS[name]
    opcode, *modifiers = text.split(".")
    sizes = [n for n in (results, address, *others) if n]
    taken = [tuple(f"R{32 + 4 * k + j}" for j in range(n)) for k, n in enumerate(sizes)]
    made = [
        Operand(r[0], "memory" if address and k == bool(results) else "register", r[:1]) for k, r in enumerate(taken)
    ]
    writes = taken.pop(0) if results else ()
    control = Control(stall, False, 0 if watched and results else None, 0 if watched and not results else None, 0, 0)
    return Instruction(
        text=text, opcode=opcode, modifiers=tuple(modifiers), kind=kind, operands=tuple(made), writes=writes,
        reads=tuple(r for part in taken for r in part), control=control,
    )  # fmt: skip


def _cycles(program: list[Instruction]) -> int:
    """Return when an instruction behind a program issues that waits for its last result, or for its last sources."""
    clock = Instruction(text="NOP", opcode="NOP", kind="branch", control=Control(1, False, None, None, 1, 0))
    code = [*program, clock]
    made = from_program(code, _h200(), ways=[Way([([(0, len(code))], 1)])], blocks=[[0]])
    done = run(made, _h200(), Options(events=1000), resident=1, blocks=1)
    issued = [int(row[0]) for row in done.events if row[1] == at.ISSUED]
    return issued[-1] - issued[0]


def test_instructions_in_a_row_are_done_as_measured() -> None:
    rows = [r[1:] for r in read("h200/shared_times.json.gz")["rows"] if r[0] == "row" and r[1] in (*SHARED, "s2r")]
    for name, stall, measured in rows:
        made = [_instruction(name, stall)] * 6
        found = [_cycles([*made[:k], _instruction(name, max(2, stall), watched=True)]) for k in range(7)]
        assert (name, stall, found) == (name, stall, measured)
    assert len(rows) == 4 * len(SHARED) + 4


def test_one_behind_another_waits_as_measured() -> None:
    """Behind 128 bits some are off: results of others come behind theirs, and stores read their registers sooner."""
    off = []
    for what, *rest in read("h200/shared_times.json.gz")["rows"]:
        if what == "pair" and {*rest[:2]} <= {*SHARED}:
            first, second, measured = rest
            for apart, cycles in zip(APART, measured, strict=True):
                found = _cycles([_instruction(first, apart), _instruction(second, 2, watched=True)])
                off.append((first, second, apart, found - cycles))
    assert len(off) == 10 * len(SHARED) ** 2
    missed = [x for x in off if x[-1]]
    assert {first for first, *_ in missed} == {"lds_128", "sts_128"}
    assert len(missed) <= 56 and max(abs(cycles) for *_, cycles in missed) <= 4


def test_a_conversion_from_two_registers_takes_a_cycle_more_of_its_unit() -> None:
    rows = {r[1]: r[3] for r in read("h200/shared_times.json.gz")["rows"] if r[0] == "row" and r[2] == 8}
    for name in ("mufu", "f2f_64", "f2f_32"):
        steps = from_program([_instruction(name, 8, watched=True)], _h200(), ways=[Way([([(0, 1)], 1)])], blocks=[[0]])
        assert (steps.steps[0].passes, steps.steps[0].latency) == (rows[name][1] - rows[name][0], rows[name][0])


def test_a_further_wavefront_takes_two_cycles_and_one_that_fills_a_register_three() -> None:
    """Conflicts of two and four ways, and one word of 128 bits for all threads: two wavefronts."""
    rows = {r[1]: r[3] for r in read("h200/shared_times.json.gz")["rows"] if r[0] == "row" and r[2] == 1}
    for name, what, wavefronts in (("lds_2way", "lds", 2), ("lds_4way", "lds", 4), ("lds_128_same", "lds_128", 2)):
        x = _instruction(what, 1, watched=True)
        plain = Step(label=what, kind=at.QUEUED, pipe=PIPES.index("shared memory"), passes=float(wavefronts))
        made = sent(plain, x, _h200())
        assert made.latency == rows[name][0]
        assert at.WAVEFRONT_CYCLES * made.passes == rows[name][1] - rows[name][0]


def _made(text: str, machine: Machine | None = None) -> Step:
    """Return what becomes of an instruction, as the disassembler writes it."""
    x = decode_text(text)
    assert x is not None
    of = _h200() if machine is None else units(machine)
    x = replace(x, control=Control(2, False, 0, None, 0, 0))
    return from_program([x], of, ways=[Way([([(0, 1)], 1)])], blocks=[[0]]).steps[0]


def test_bytes_and_values_of_64_bits_take_the_registers_that_they_lie_in() -> None:
    words = {"STS.U8 [R2], R4": 2, "STS.U16 [R2], R4": 2, "STS.128 [R2], R4": 5, "LDS.U8 R4, [R2]": 1,
             "LDS.128 R4, [R2]": 1, "ATOMS.CAS R4, [R2], R6, R8": 3, "ATOMS.CAS.64 R4, [R2], R6, R8": 5}  # fmt: skip
    assert {text: _made(text).sends / 2 for text in words} == words


def test_a_guard_is_no_second_register_of_a_conversion() -> None:
    assert _made("@P0 I2F.U32 R4, R2").passes == _made("I2F.U32 R4, R2").passes < _made("@P0 F2F.F32.F64 R4, R2").passes


@pytest.mark.parametrize(("key", "value"), [("latency", 60.0), ("latency", 4.0), ("rate", 1.0), ("rate", 16.0)])
def test_conversions_from_64_bits_follow_the_others(key: str, value: float) -> None:
    machine, _ = overlay(load_machine("h200"), None, {f"convert.{key}": value})
    single, double = _made("I2F.U32 R4, R2", machine), _made("F2F.F32.F64 R4, R2", machine)
    assert (double.passes - single.passes, double.latency - single.latency) == (1.0, 2.0)


def test_a_register_is_sent_in_no_less_than_nothing() -> None:
    assert register_cycles(load_machine("h200").with_values(operations__sts_64__latency_cycles=20.0)) == 0.0


def _noted(name: str, stall: int, sets: int | None = None, waits: int = 0) -> Instruction:
    """Return an instruction that sets a scoreboard, or a NOP, and waits for some."""
    if name == "nop":
        return Instruction(text="NOP", opcode="NOP", kind="branch", control=Control(stall, False, None, None, waits, 0))
    stores = KINDS[name][2] == 0
    control = Control(stall, False, None if stores else sets, sets if stores else None, waits, 0)
    return replace(_instruction(name, stall), control=control)


def _together(
    programs: list[list[Instruction]], begins: list[int], order: list[int], *, compiled: bool = True
) -> list[int]:
    """Return when warps end, one on each scheduler, that begin at these cycles; in which order all were served before.

    What a warp waits for at its end is all that its program has.
    """
    code, ways = list[Instruction](), list[Way]()
    for k, (program, begin) in enumerate(zip(programs, begins, strict=True)):
        before = 8 * order.index(k) + 8
        made = [_noted("nop", before), _noted("lds", 2), _noted("nop", _WARM - 2 - before + begin)]
        made += [*program, _noted("nop", 1, waits=0b111111)]
        ways.append(Way([([(len(code), len(code) + len(made))], 1)]))
        code += made
    laid = from_program(code, _h200(), ways=ways, blocks=[list(range(len(ways)))])
    done = run(laid, _h200(), Options(events=10_000, compiled=compiled), resident=1, blocks=1)
    last = {int(row[2]): int(row[0]) for row in done.events if row[1] == at.ISSUED}
    return [last[k] - _WARM for k in range(len(ways))]


def _rounds(kind: str, count: int) -> list[Instruction]:
    """Return chains as `shared_times.rounds` has them: each access waits for that of the round before."""
    if kind == "sts_lds":
        return [x for k in range(count) for x in (_noted("sts", 4, waits=k > 0), _noted("lds", 4, 0))]
    name, chains = kind.split()
    last = int(chains) - 1
    turn = [_noted(name, 4 if c < last else 2, c) for c in range(last + 1)]
    return (turn + [_noted("nop", 2 if c < last else 4, waits=1 << c) for c in range(last + 1)]) * count


def test_wavefronts_of_four_schedulers_go_in_turn_as_measured() -> None:
    """Chains of a warp on each scheduler, for one to seven rounds; who was served last is not known but by the ends."""
    off: dict[str, list[int]] = defaultdict(list)
    for what, *rest in read("h200/shared_times.json.gz")["rows"]:
        if what == "rounds" and rest[1] == [0, 1, 2, 3]:
            kind, _, waits, seen = rest
            for count, stamps in enumerate(seen, 1):
                begins, ends = [b + 1 + w for b, w in zip(stamps[::2], waits, strict=True)], stamps[1::2]
                found = _together([_rounds(kind, count)] * 4, begins, sorted(range(4), key=ends.__getitem__))
                off[kind] += [abs(f - e) for f, e in zip(found, ends, strict=True)]
    exact = {kind: (sum(not x for x in each), len(each)) for kind, each in off.items()}
    assert exact.pop("sts_lds")[0] >= 167
    assert all(right == of for right, of in exact.values()), exact
    assert max(map(max, off.values())) <= 1


def _meetings(*kinds: str, order: list[int]) -> tuple[int, int]:
    """Return how many meetings of one to three instructions of each scheduler are as measured, and of how many.

    The four were served in the same order before, in all launches.
    """
    rows = [rest for what, *rest in read("h200/shared_times.json.gz")["rows"] if what == "meet" and rest[0] in kinds]
    right = 0
    for kind, count, came, ends in rows:
        first = min(came)
        programs = [[_noted(kind.removesuffix("_same"), 1, k) for k in range(count)]] * 4
        found = _together(programs, [20 + c - first for c in came], order)
        right += [f - 20 for f in found] == [e - first - 1 for e in ends]
    return right, len(rows)


@pytest.mark.parametrize(
    ("kinds", "order", "least"),
    [(("lds", "lds_same", "lds_64"), [2, 3, 1, 0], 260), (("sts", "atoms", "cas", "bfly"), [3, 1, 0, 2], 80)],
)
def test_what_meets_at_shared_memory_goes_by_turn(kinds: tuple[str, ...], order: list[int], least: int) -> None:
    """Not who came first goes first, but who went longest ago: addresses alone among themselves, registers too."""
    right, count = _meetings(*kinds, order=order)
    assert right == count >= least


def test_two_schedulers_keep_one_another_from_shared_memory_as_measured() -> None:
    """One instruction each, so many cycles apart: by how much both are later, whichever was served last before."""
    missed, count = [], 0
    alone = {name: _together([[_noted(name, 2, 0)]], [0], [0])[0] for name in SHARED}
    for what, *rest in read("h200/shared_times.json.gz")["rows"]:
        if what == "two" and {*rest[:2]} <= {*SHARED}:
            first, second, seen = rest
            for apart, *later in seen:
                programs, begins = [[_noted(name, 2, 0)] for name in (first, second)], [40, 40 + apart]
                found = []
                for order in ([0, 1], [1, 0]):
                    ends = _together(programs, begins, order)
                    found.append([e - b - alone[n] for e, b, n in zip(ends, begins, (first, second), strict=True)])
                count += 1
                if later not in found:
                    missed.append((first, second, apart, later, found))
    assert count > 200
    assert len(missed) <= 2 and all(x[1] == "bfly" for x in missed), missed


def test_compiled_and_plain_agree_on_who_goes_first() -> None:
    programs = [_rounds(kind, 4) for kind in ("cas 2", "sts_lds", "lds_64 4", "lds_128 2")]
    assert _together(programs, [40, 42, 44, 46], [0, 1, 2, 3]) == _together(
        programs, [40, 42, 44, 46], [0, 1, 2, 3], compiled=False
    )
