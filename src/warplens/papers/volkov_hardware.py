"""Volkov 2016, chapter 2: hardware tables beside the machine files, and the examples of SIMT, coalescing and banks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from warplens.machine import Machine, load_machine
from warplens.machine.tables import SharedMemory
from warplens.papers.item import Grid, Item, Plot, Row, Series, line
from warplens.papers.volkov_tables import GPUS, PAPER, generation

YEARS = dict(zip(GPUS, (2006, 2008, 2010, 2012, 2014), strict=True))  # Table 2.1
YEAR_OF_H200 = 2024
Access = tuple[int, int, int, int]  # words that the four threads of an example's warp access
_WORDS = 4  # of a transaction, and banks, in the examples


class _Column(NamedTuple):
    """A column of a hardware table: what the machine file says, and what is printed for the five GPUs."""

    what: str
    ours: Callable[[Machine], float | None]
    printed: tuple[str, ...]
    unit: str


def _shared(machine: Machine) -> SharedMemory:
    assert machine.shared_memory is not None
    return machine.shared_memory


_SHARED_MEMORY = (
    _Column("banks", lambda m: _shared(m).banks, ("16", "16", "32", "32", "32"), ""),
    _Column("bank width", lambda m: 8 * (_shared(m).bank_bytes or 0), ("32", "32", "32", "64", "32"), "bits"),
    _Column("cycles per access", lambda m: _shared(m).access_interval_cycles, ("2", "2", "2", "1", "1"), "cycles"),
)
_UNITS = (
    _Column("SMs", lambda m: m.chip.sm_count, ("16", "30", "15", "8", "16"), ""),
    _Column("warp schedulers per SM", lambda m: m.sm.schedulers, ("1", "1", "2", "4", "4"), ""),
    _Column("CUDA cores per SM", lambda m: m.sm.cuda_cores, ("8", "8", "32", "192", "128"), ""),
    _Column("SFU units per SM", lambda m: m.sm.sfu_units, ("2", "2", "4", "32", "32"), ""),
)
_CLOCKS = (
    _Column("clock", lambda m: m.chip.clock_hz / 1e9, ("1.350", "1.296", "1.400", "1.124", "1.266"), "GHz"),
    _Column("pin bandwidth", lambda m: (m.memory.pin_bytes_per_second or 0) / 1e9,
            ("86.4", "141.7", "177.4", "192.3", "224.0"), "GB/s"),
)  # fmt: skip
_SCHEDULERS = (
    _Column("warps per SM", lambda m: m.sm.warps_max, ("24", "32", "48", "64", "64"), WARPS := "warps"),
    _Column("warps per scheduler", lambda m: m.sm.warps_max / m.sm.schedulers, ("24", "32", "24", "16", "16"), WARPS),
    _Column("issue rate", lambda m: m.sm.issue_interval_cycles, ("2", "2", "2", "1", "1"), "cycles"),
    _Column("issue width", lambda m: m.sm.issue_width, ("1", "1", "1", "2", "2"), ""),
)


def _hardware(number: str, title: str, section: str, columns: Sequence[_Column], *notes: str) -> Item:
    """Make the item of a hardware table: the machine files beside what is printed."""
    machines = [load_machine(gpu) for gpu in GPUS]
    rows = [
        Row(f"{generation(m)}: {c.what}", float(c.ours(m) or 0), text, c.unit, given=True)
        for c in columns
        for m, text in zip(machines, c.printed, strict=True)
    ]
    new = load_machine("h200")
    cells = [[c.what, *(f"{float(c.ours(m) or 0):g}" for m in (*machines, new))] for c in columns]
    grid = Grid(["", *(generation(m) for m in machines), f"{generation(new)} (H200)"], cells)
    shown = [(c.what, [float(c.ours(m) or 0) for m in (*machines, new)]) for c in columns]
    years = [*YEARS.values(), YEAR_OF_H200]
    plot = Plot("relative to G80", "year", "ratio", [line(what, years, [y / ys[0] for y in ys]) for what, ys in shown])
    name = f"volkov-table-{number}"
    return Item(name, f"Table {number}: {title}", f"{PAPER} §{section}", rows, [plot], list(notes), [grid])


def table_2_1() -> Item:
    """Table 2.1: the GPUs and their years."""
    rows = [[load_machine(gpu).name, f"{year}", generation(load_machine(gpu))] for gpu, year in YEARS.items()]
    note = "names and years, no quantities; the years are the abscissae of Figure 4.4"
    grid = Grid(["GPU", "year", "generation"], rows)
    return Item("volkov-table-2.1", "Table 2.1: GPUs of the study", f"{PAPER} §2.1", [], [], [note], [grid])


def table_2_5() -> Item:
    """Table 2.5: shared memory."""
    return _hardware("2.5", "parameters of shared memory units", "2.6", _SHARED_MEMORY)


def table_2_6() -> Item:
    """Table 2.6: SMs and units."""
    return _hardware("2.6", "numbers of SMs and functional units", "2.7", _UNITS)


def table_2_7() -> Item:
    """Table 2.7: clocks and pin bandwidths."""
    return _hardware("2.7", "processor clocks and pin bandwidths", "2.8", _CLOCKS)


def table_2_8() -> Item:
    """Table 2.8: warp schedulers."""
    note = "issue width: 1 on the GTX 480, 2 on later Fermi GPUs; vendor's documents disagree on Maxwell"
    return _hardware("2.8", "parameters of warp schedulers", "2.9", _SCHEDULERS, note)


def table_2_9() -> Item:
    """Table 2.9: relative occupancies in warps per SM."""
    rows, machines = [], [load_machine(gpu) for gpu in GPUS]
    shares = (1.0, 0.5, 0.25, 0.125)
    for share in shares:
        for m in machines:
            p = m.printed
            printed = {1.0: m.sm.warps_max, 0.5: p.half_warps_max, 0.25: p.quarter_warps_max}
            paper = printed.get(share, p.eighth_warps_max)
            what = f"{generation(m)}: {100 * share:g} % of the warps that fit"
            rows.append(Row(what, share * m.sm.warps_max, f"{paper:g}", "warps/SM", given=share == 1.0))
    for m, text in ((machines[-1], "4"), (machines[0], "6")):
        ours = 0.25 * m.sm.warps_max / m.sm.schedulers
        rows.append(Row(f"{generation(m)}: 25 %, per scheduler", ours, text, "warps/scheduler"))
    series = [line(generation(m), [100 * s for s in shares], [s * m.sm.warps_max for s in shares]) for m in machines]
    plot = Plot("Occupancy", "% of the warps that fit", "warps/SM", series)
    return Item("volkov-table-2.9", "Table 2.9: relative and absolute occupancy", f"{PAPER} §2.11", rows, [plot])


_IF, _ELSE, _ENDIF = 2, 5, 8  # positions in Table 2.2's code; the branch stands before IF, SSY before the branch
_LAST = {_ELSE - 1, _ENDIF - 1}  # instructions with the suffix .S


def simt(predicates: str, first: str = "if") -> list[tuple[int, str]]:
    """Execute Table 2.2's SIMT code for a warp: positions and active masks, in the warp's order (§2.4).

    `predicates` has P0 of each thread. Where threads diverge, `first` says which path the warp takes first; the other
    one waits on the divergence stack.
    """
    mask, at = "1" * len(predicates), 0
    stack: list[tuple[int, str]] = []
    executed = []
    while at < _ENDIF:
        executed.append((at, mask))
        if at == 0:
            stack.append((_ENDIF, mask))
        if at == 1:
            others = predicates.translate({48: 49, 49: 48})
            paths = [(_IF, predicates), (_ELSE, others)] if first == "if" else [(_ELSE, others), (_IF, predicates)]
            taken = [path for path in paths if "1" in path[1]]
            stack += taken[:0:-1]
            at, mask = taken[0]
        elif at in _LAST:
            at, mask = stack.pop()
        else:
            at += 1
    return [*executed, (at, mask)]


def _threads(predicates: str) -> list[Series]:
    """Return the steps at which each thread is active, as positions in the code."""
    executed = list(enumerate(simt(predicates, "else")))
    active = [[(n, at) for n, (at, mask) in executed if mask[t] == "1"] for t in range(len(predicates))]
    return [
        line(f"thread {t}", [n for n, _ in found], [at for _, at in found], "points") for t, found in enumerate(active)
    ]


def table_2_4() -> Item:
    """Tables 2.2 to 2.4: an if and an else on a SIMT processor."""
    names = ("SSY", "BRA", "IADD", "IADD", "IADD.S", "IMUL", "IMUL", "IMUL.S", "next")
    printed = {
        "0110": [(0, "1111"), (1, "1111"), *((n, "0110") for n in (2, 3, 4)), *((n, "1001") for n in (5, 6, 7)),
                 (8, "1111")],
        "1111": [(n, "1111") for n in (0, 1, 2, 3, 4, 8)],
    }  # fmt: skip
    # The tables list masks by position: Table 2.3's order (0 1 5 6 7 2 3 4 8) is that of the else branch first.
    rows, grids = [], []
    for (predicates, masks), table in zip(printed.items(), ("2.3", "2.4"), strict=True):
        executed = simt(predicates, "else")
        found = dict(executed)
        for position, mask in masks:
            what = f"Table {table}: active mask of {position}. {names[position]}"
            rows.append(Row(what, float(int(found[position], 2)), f"{int(mask, 2)}", "mask, as a number"))
        order = {at: n for n, (at, _) in enumerate(executed)}
        if table == "2.3":
            expected = (0, 1, 5, 6, 7, 2, 3, 4, 8)
            rows += [
                Row(f"Table {table}: {n}. {names[n]} comes as number", float(order[n]), f"{at}")
                for n, at in enumerate(expected)
            ]
        grids.append(Grid([f"P0 = {predicates}", "position", "mask"], [[names[at], f"{at}", m] for at, m in executed]))
    note = "Table 2.2 is the code; `warplens show --trace` has the masks of a compiled kernel's instructions"
    plots = [Plot(f"P0 = {p}", "step of the warp", "position in the code", _threads(p)) for p in printed]
    title = "Tables 2.2-2.4: diverging and uniform control flow"
    return Item("volkov-table-2.4", title, f"{PAPER} §2.3-2.4", rows, plots, [note], grids)


def transactions(access: Sequence[int], words: int = _WORDS) -> int:
    """Count the aligned blocks of so many words that an access touches (§2.5)."""
    return len({word // words for word in access})


def transactions_g80(access: Sequence[int]) -> int:
    """Count the transactions by G80's rule: all threads in order in one aligned block, or one for each thread."""
    first = access[0]
    return 1 if first % _WORDS == 0 and list(access) == list(range(first, first + _WORDS)) else len(access)


def conflict_degree(access: Sequence[int], banks: int = _WORDS) -> int:
    """Return the largest number of different words that one bank serves (§2.6)."""
    words = set(access)
    return max(sum(word % banks == bank for word in words) for bank in range(banks))


def figure_2_1() -> Item:
    """Figure 2.1: coalescing examples of a warp of four threads."""
    cases: list[tuple[Access, str]] = [
        ((0, 1, 2, 3), "1"), ((4, 5, 6, 7), "1"), ((1, 2, 3, 4), "2"), ((0, 2, 4, 6), "2"),
        ((0, 3, 6, 9), "3"), ((2, 4, 13, 11), "4"), ((3, 2, 1, 0), "1"),
    ]  # fmt: skip
    rows = [Row(f"{access}", transactions(access), text, "transactions") for access, text in cases]
    for access in ((3, 2, 1, 0), (1, 1, 1, 1)):
        rows.append(Row(f"{access} on G80", transactions_g80(access), "4", "transactions"))
    halves = sum(transactions(half) for half in ((1, 2), (3, 4)))
    rows.append(Row("(1, 2, 3, 4) by half-warps, transactions of 4 and 2 words", halves, "3", "transactions"))
    plot = Plot("four threads, four words a transaction", "stride, words", "transactions", [
        line("aligned", range(1, 9), [transactions([s * i for i in range(4)]) for s in range(1, 9)], "points"),
        line("one word off", range(1, 9), [transactions([1 + s * i for i in range(4)]) for s in range(1, 9)], "points"),
    ])  # fmt: skip
    note = "the figure draws the first, third, fifth and sixth; the text has the others"
    return Item("volkov-figure-2.1", "Figure 2.1: coalescing", f"{PAPER} §2.5", rows, [plot], [note])


def figure_2_2() -> Item:
    """Figure 2.2: bank conflicts of a warp of four threads."""
    cases: list[tuple[Access, str]] = [
        ((0, 1, 2, 3), "1"), ((1, 2, 3, 4), "1"), ((0, 2, 4, 6), "2"), ((0, 3, 6, 9), "1"),
        ((0, 4, 8, 12), "4"), ((1, 1, 1, 1), "1"), ((1, 1, 1, 2), "1"),
        ((1, 3, 5, 8), "2"),
    ]  # fmt: skip
    rows = [Row(f"{access}", conflict_degree(access), text, "way") for access, text in cases]
    plot = Plot("four threads, four banks", "stride, words", "degree of the conflict", [
        line("degree", range(1, 9), [conflict_degree([s * i for i in range(4)]) for s in range(1, 9)], "bar"),
    ])  # fmt: skip
    return Item("volkov-figure-2.2", "Figure 2.2: shared memory bank conflicts", f"{PAPER} §2.6", rows, [plot])


ITEMS = (table_2_1, table_2_4, table_2_5, table_2_6, table_2_7, table_2_8, table_2_9, figure_2_1, figure_2_2)
