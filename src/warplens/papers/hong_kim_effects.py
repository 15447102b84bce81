"""Hong & Kim 2009, §6: independent loads, long instructions, divergence and barriers, with the H200 beside.

The paper prints the errors of its figures, not their numbers. The H200's times are those of `examples/micro`: launches
of the suite, and the same kernels over numbers of warps (data/experiments/occupancy_ladders).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from warplens.machine import load_machine
from warplens.models import Prediction, predict
from warplens.papers.hong_kim import MODEL, PAPER, term
from warplens.papers.item import Item, Plot, Row, line
from warplens.papers.laboratory import beside
from warplens.papers.occupancy_ladders import MISSING, Timed, suite, timed
from warplens.papers.validation import kernels
from warplens.workload import Launch, Workload, load_workload

_TIMES, _WARPS = "times", "warps per block"
_BLOCKS_OF_CODE = {"B1": 1, "B2": 1, "B4": 3, "B5": 2, "B6": 1, "B3": 4, "B7": 1}  # trips, in examples/micro/divergence
_PATHS = {"path1": ("B1", "B2", "B4", "B6", "B7"), "path2": ("B1", "B2", "B5", "B6", "B7"), "path3": ("B1", "B3", "B7")}
_MODELS = (MODEL, "volkov", "warplens")


def _against(found: dict[str, kernels.Launch], models: Sequence[str] = _MODELS) -> list[Row]:
    """Return rows of each launch's time on the H200, and of the models' over it."""
    h200, rows = load_machine("h200"), []
    for name, launch in found.items():
        rows.append(Row(f"H200, {name}: measured", 1e6 * launch.seconds, None, "us"))
        for model in models:
            seconds = predict(launch.workload, h200, model).seconds
            rows.append(Row(f"H200, {name}: {model} over measured", float(seconds or 0) / launch.seconds, None, _TIMES))
    return rows


def _with_independent(workload: Workload) -> Workload:
    """Return the workload with all requests of an access but one independent of the one before."""
    accesses = [replace(a, independent=a.count - 1 if float(a.count) > 1 else 0) for a in workload.accesses]
    return workload.with_values(accesses=accesses)


def figure_25() -> Item:
    """Figures 24 to 26: dependent and independent memory accesses."""
    machine, n = load_machine("fx5600"), np.arange(1.0, 25.0)
    workload = load_workload("hong-kim-mb7-coalesced")
    dependent = workload.with_values(launch=Launch(machine.chip.sm_count, 32 * n, registers_per_thread=10))
    dep, ind = (predict(w, machine, MODEL, warps_per_sm=n) for w in (dependent, _with_independent(dependent)))
    assert dep.seconds is not None and ind.seconds is not None
    ratio = np.asarray(ind.seconds) / np.asarray(dep.seconds)
    rows = [
        Row("N_pw for one warp (29), 5 of 6 requests independent", term(ind, "N_pw"), None, "warps"),
        Row("MWP for one warp: independent", term(ind, "MWP"), None, "warps"),
        Row("MWP for one warp: dependent", term(dep, "MWP"), None, "warps"),
        Row("one warp: independent over dependent time", float(ratio[0]), None, "", "the paper: much shorter"),
        Row("24 warps: independent over dependent time", float(ratio[-1]), None, "", "the paper: similar"),
    ]
    plots = [
        Plot("Figures 25, 26: time, the work growing with the warps", "warps per SM", "ms", [
            line("dependent", n, 1e3 * np.asarray(dep.seconds)), line("independent", n, 1e3 * np.asarray(ind.seconds)),
        ]),
        Plot("MWP", "warps per SM", "warps", [
            line("dependent", n, dep.terms["MWP"].value), line("independent", n, ind.terms["MWP"].value),
        ]),
    ]  # fmt: skip
    notes = [
        "Figure 24 is a drawing. Neither counts nor GPU are printed: Mb7 coalesced on the FX5600, 5 of 6 requests "
        "independent (assumed).",
        _loads_on_h200(rows, plots),
    ]
    title = "Figures 24-26: dependent and independent memory accesses"
    return Item("hong-kim-figure-25", title, f"{PAPER} §6.1", rows, plots, notes)


def _loads_on_h200(rows: list[Row], plots: list[Plot]) -> str:
    """Add the H200's times of dependent and independent loads over warps; return a note."""
    found = {kind: timed("warps", f"loads_{kind}") for kind in ("dependent", "independent")}
    if found["dependent"]:
        series = [line(k, [t.warps_per_block for t in f], [t.us for t in f], "points") for k, f in found.items()]
        plots.append(Plot("H200, measured: 1024 loads per thread, one block per SM", _WARPS, "us", series))
        most = found["dependent"][-1].warps_per_block
        first, last = ([found[k][i].us for k in found] for i in (0, -1))
        rows += [
            Row("H200, one warp per SM: independent over dependent time", first[1] / first[0], None),
            Row(f"H200, {most} warps per SM: independent over dependent time",
                last[1] / last[0], None, "", "DRAM's bandwidth is not reached by dependent loads"),
        ]  # fmt: skip
    rows += _against(suite("loads", "loads.independent", "loads.many", "loads.independent-many"))
    return "H200: four (many: 64) warps per SM of examples/micro/loads" if found["dependent"] else MISSING


def table_7() -> Item:
    """Table 7: throughput of instructions, and the factors of Equation (31)."""
    machine = load_machine("fx5600")
    own = machine.hong_kim
    assert own is not None and machine.sm.cuda_cores is not None
    cores, rows = machine.sm.cuda_cores, []
    manual = (("FP add, multiply, multiply-add", 8, "1"), ("integer add", 8, "1"), ("FP divide", 2, "4"))
    for name, rate, paper in (*manual, ("integer multiply", 2, "4")):
        rows.append(Row(f"{name}: M_factor by the manual's {rate} operations per cycle", cores / rate, paper))
    factors = {"fdiv": (own.fdiv_factor, "4.2"), "imul": (own.imul_factor, "4.3"), "idiv": (own.idiv_factor, "30"),
               "imod": (own.imod_factor, "35")}  # fmt: skip
    base = load_workload("hong-kim-mb1")
    comp = {}
    for kind, (factor, paper) in factors.items():
        rows.append(Row(f"{kind}: M_factor, by experiment", float(factor or math.nan), paper, given=True))
        result = [predict(base.with_values(instructions={name: 100.0}), machine, MODEL) for name in (kind, "fp32")]
        comp[kind] = term(result[0], "Comp_cycles") / term(result[1], "Comp_cycles")
        rows.append(Row(f"{kind}: Comp_cycles (31) over those of as many adds", comp[kind], None, _TIMES))
    title = "Comp_cycles of an instruction (1 FP divide, 2 integer multiply, 3 divide, 4 modulo)"
    bars = line("Equation (31)", range(1, 5), list(comp.values()), "bar")
    plots = [Plot(title, "instruction", _TIMES, [bars])]
    if lab := beside():
        shown = {}
        for name in ("ffma", "iadd3", "imad", "imad_wide", "mufu_rcp", "mufu_rsq", "dadd", "dfma", "popc"):
            known = lab.machine.operations.get(name)
            if known is not None and known.peak_ops_per_cycle_per_scheduler:
                shown[name] = 32 / known.peak_ops_per_cycle_per_scheduler
        rows += [Row(f"H200, {name}: M_factor, as measured", value, None, _TIMES) for name, value in shown.items()]
        rows += _factors_of_h200()
        bars = line("32 lanes over operations per cycle", range(1, len(shown) + 1), list(shown.values()), "bar")
        plots.append(Plot(f"H200, measured ({', '.join(shown)})", "instruction", _TIMES, [bars]))
    note = "On later GPUs division and modulo are sequences of instructions; none takes a factor of its own."
    return Item("hong-kim-table-7", "Table 7: instruction throughput", f"{PAPER} §6.2", rows, plots, [note])


def _factors_of_h200() -> list[Row]:
    """Return the factors of the H200's own [hong_kim] section, where it has one."""
    own = load_machine("h200").hong_kim
    found = {name: getattr(own, f"{name}_factor", None) for name in ("fdiv", "imul", "idiv", "imod")}
    note = "of the whole sequence of instructions"
    return [Row(f"H200, {name}: M_factor of the machine file", x, None, _TIMES, note) for name, x in found.items() if x]


def figure_28() -> Item:
    """Figures 27 and 28: divergent paths are executed one after the other."""
    names = {"all paths": "divergence", **{path: f"divergence.{path}" for path in _PATHS}}
    trips = {"all paths": sum(_BLOCKS_OF_CODE.values())}
    trips |= {path: sum(_BLOCKS_OF_CODE[block] for block in blocks) for path, blocks in _PATHS.items()}
    rows = [Row(f"{name}: trips of work, each block of code once", float(n), None) for name, n in trips.items()]
    notes = ["Figure 27 is a drawing: B1 B2 B4 B6 B7, B1 B2 B5 B6 B7 and B1 B3 B7; the work of a block is assumed."]
    found = suite(*names.values())
    if not found:
        return Item(
            "hong-kim-figure-28", "Figures 27, 28: divergent branches", f"{PAPER} §6.3", rows, [], [*notes, MISSING]
        )
    measured = {name: 1e6 * found[launch].seconds for name, launch in names.items()}
    per_trip = float(np.mean([measured[path] / trips[path] for path in _PATHS]))
    together = per_trip * trips["all paths"]
    every = measured["all paths"]
    rows += [
        Row("H200: all paths from the single ones, off the measured time", 100 * abs(together / every - 1), "6", "%",
            "the paper's is its model's delta on its GPU", measured=True),
        Row("H200: longest single path over all paths", max(measured[p] for p in _PATHS) / every, None, _TIMES,
            "the paper: much shorter than the actual time"),
    ]  # fmt: skip
    rows += _against(found)
    x, machine = range(1, 5), load_machine("h200")
    modelled = [1e6 * float(predict(found[launch].workload, machine, MODEL).seconds or 0) for launch in names.values()]
    plot = Plot("H200: all paths, path 1, path 2, path 3", "path", "us", [
        line("measured", x, list(measured.values()), "bar"), line(MODEL, x, modelled, "points"),
        line("single paths' work, by trips", x, [per_trip * t for t in trips.values()], "points"),
    ])  # fmt: skip
    return Item("hong-kim-figure-28", "Figures 27, 28: divergent branches", f"{PAPER} §6.3", rows, [plot], notes)


def _program_a(blocks: float, warps: float, trips: float, barriers: float) -> Workload:
    """Return Figure 29's program: a load, a move, a multiplication, the barrier of A, a store, and the loop's three."""
    (access,) = load_workload("hong-kim-mb2-coalesced").accesses
    base = load_workload("hong-kim-mb2-coalesced")
    return base.with_values(
        instructions={"fp32": 5.0}, accesses=[replace(access, count=2.0)], iterations=trips, barriers=barriers,
        launch=Launch(blocks, 32 * warps, registers_per_thread=10),
    )  # fmt: skip


def _synch(gpu: str, blocks_per_sm: float, warps: Sequence[int], trips: float) -> list[Prediction]:
    """Predict Program A over warps per block; one block in all where `blocks_per_sm` is 0."""
    machine = load_machine(gpu)
    blocks = blocks_per_sm * machine.chip.sm_count or 1.0
    return [predict(_program_a(blocks, w, trips, 1.0), machine, MODEL) for w in warps]


def _deltas(blocks: float) -> dict[int, tuple[float, float]]:
    """Return the H200's microseconds with and without barrier, by warps per block, of launches of so many blocks."""
    found = {kind: [t for t in timed("warps", kind) if t.blocks == blocks] for kind in ("barrier", "barrier_without")}
    pairs: list[tuple[Timed, Timed]] = list(zip(*found.values(), strict=True))
    return {a.warps_per_block: (a.us, b.us) for a, b in pairs}


def _synch_plots(gpu: str, per_sm: Sequence[int], warps: Sequence[int]) -> list[Plot]:
    """Plot Synch_cost of a GPU, and the H200's measured delta beside what the model says of it."""
    machine, h200 = load_machine(gpu), load_machine("h200")
    series, plots = [], []
    for k in per_sm:
        result = _synch(gpu, k, warps, 124)
        name = f"{k} blocks per SM" if k else "one block"
        series.append(line(name, warps, [term(p, "Synch_cost") for p in result]))
        delta = _deltas(k * h200.chip.sm_count or 1)
        if delta:
            own = _synch("h200", k, list(delta), 124 if k else 512)
            cycles = [term(p, "Synch_cost") / h200.chip.clock_hz * 1e6 for p in own]
            plots.append(Plot(f"H200, {name}", _WARPS, "us that the barriers cost", [
                line("measured", list(delta), [a - b for a, b in delta.values()], "points"),
                line("Synch_cost", list(delta), cycles),
            ]))  # fmt: skip
    return [Plot(f"Synch_cost on the {machine.name}", _WARPS, "cycles", series), *plots]


def _share(what: str, blocks: float) -> list[Row]:
    """Return rows of what barriers cost on the H200, as a share of the time."""
    rows = []
    for warps, (a, b) in _deltas(blocks).items():
        if warps in (1, 4, 16):
            rows.append(Row(f"H200, {what}, {warps} warps per block: with barrier over without", a / b, None, _TIMES))
    return rows


def figure_30() -> Item:
    """Figures 29 and 30: the barrier's cost with one block."""
    warps = range(1, 17)
    one = _synch("fx5600", 0, [1], 124)[0]
    rows = [
        Row(
            "cost for one warp",
            term(one, "Synch_cost"),
            "0",
            "cycles",
            "the paper: no penalty by the model, minor ones measured",
        ),
        Row("cost for 16 warps", term(_synch("fx5600", 0, [16], 124)[0], "Synch_cost"), None, "cycles"),
        *_share("one block", 1),
        *_against(suite("barrier.one", "barrier.one-without")),
    ]
    notes = ["Figure 29 is the code: one load, one multiplication, one store and the barrier; 124 trips are assumed."]
    notes += [] if _deltas(1) else [MISSING]
    title = "Figures 29, 30: synchronization delay, one block"
    return Item("hong-kim-figure-30", title, f"{PAPER} §6.4", rows, _synch_plots("fx5600", [0], warps), notes)


def figure_31() -> Item:
    """Figure 31: the barrier's cost with two and four blocks per SM."""
    sms = load_machine("h200").chip.sm_count
    rows: list[Row] = []
    for k, paper in ((2, "19.65"), (4, "11.42")):
        delta = _deltas(k * sms)
        if not delta:
            continue
        own = _synch("h200", k, list(delta), 124)
        measured = np.array([a for a, _ in delta.values()])
        off = np.abs([1e6 * float(p.seconds or 0) for p in own] / measured - 1)
        note = "ours: the time with barriers on the H200; the paper's: the cost of barriers on its GPU"
        rows.append(
            Row(
                f"BL{k}: geometric mean error", 100 * float(np.exp(np.log(off).mean())), paper, "%", note, measured=True
            )
        )
        rows += _share(f"{k} blocks per SM", k * sms)
    rows += _against(suite("barrier", "barrier.without", "barrier.four", "barrier.four-without"))
    plots = _synch_plots("fx5600", [2, 4], range(1, 7))
    notes = ["The paper's two errors are of its measurements; an SM of the FX5600 holds 24 warps."]
    title = "Figure 31: synchronization delay, two and four blocks per SM"
    return Item("hong-kim-figure-31", title, f"{PAPER} §6.4", rows, plots, notes)


ITEMS = (figure_25, table_7, figure_28, figure_30, figure_31)
