"""Volkov 2016: the tables and listings, regenerated from the machine files and the model."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from itertools import pairwise

from msgspec.structs import replace

from warplens.machine import Machine, load_machine
from warplens.models import needed_warps, predict
from warplens.models.bounds import totals, worksheet
from warplens.models.published.volkov_contention import loaded_latency
from warplens.papers.item import Item, Plot, Row, line, parse_printed
from warplens.papers.laboratory import beside
from warplens.program import parse_listing
from warplens.program.lone_warp import schedule
from warplens.workload import load_workload, mix

GPUS = ("8800gtx", "gtx280", "gtx480", "gtx680", "gtx980")  # G80, GT200, Fermi, Kepler, Maxwell
PAPER = "Volkov 2016"
LOADS_OF_A_WARP = 5  # in flight on Fermi: the sixth issues some 500 cycles later (Listing 3.2, right)


def fitted_slots(machine: Machine, kind: str) -> Machine:
    """Return the machine with the issue slots that the paper fits to the saturated throughput of such instructions."""
    slots = machine.timing(kind).fitted_issue_slots
    assert slots is not None
    return machine.with_values(**{f"instructions__{kind}__issue_slots": slots})


def generation(machine: Machine) -> str:
    """The dissertation's name for a GPU: its generation."""
    return machine.architecture


def pictured(make: Callable[[], Item]) -> Callable[[], Item]:
    """Give a table's item a picture where it has none: each of our numbers over the paper's."""

    @wraps(make)
    def result() -> Item:
        item = make()
        both = [(row, parse_printed(row.paper)) for row in item.rows if row.paper is not None]
        kinds: dict[str, list[tuple[int, float]]] = {"inputs": [], "measurements of the paper": [], "computed": []}
        for n, (row, printed) in enumerate(((row, printed) for row, printed in both if printed), 1):
            kind = "inputs" if row.given else "measurements of the paper" if row.measured else "computed"
            kinds[kind].append((n, row.ours / printed))
        series = [line(k, [n for n, _ in xy], [y for _, y in xy], "points") for k, xy in kinds.items() if xy]
        return replace(item, plots=[Plot("Ours over the paper's", "row", "ratio", series)])

    return result


@pictured
def listings() -> Item:
    """Listings 3.1 to 3.3 and 3.5: issue cycles of single warps."""
    rows = []
    expected = {
        "volkov-listing-3.1": ("kepler", [["0", "301", "325", "334", "343"]]),
        "volkov-listing-3.2-add": ("fermi", [["0", "6", "12", "18", "24", "30", "36"]]),
        "volkov-listing-3.2-store": ("fermi", [["0", "34", "68", "102", "136", "170", "204"]]),
        "volkov-listing-3.3": ("fermi", [["0", "28", "540", "546", "580"], ["0", "32", "580"]]),
    }
    for name, (gpu, printed) in expected.items():
        workload, machine = load_workload(name), load_machine(gpu)
        codes = [parse_listing(w.listing) for w in workload.warps]
        result = schedule(codes, machine, replacement=False)
        for warp, (code, cycles, paper) in enumerate(zip(codes, result.issue_cycles, printed, strict=True), 1):
            label = f"{name.removeprefix('volkov-')}" + (f" warp {warp}" if len(codes) > 1 else "")
            for instruction, ours, theirs in zip(code, cycles, paper, strict=True):
                rows.append(Row(f"{label}: {instruction.name} issues at", ours, theirs, "cycles", given=theirs == "0"))
    rows += _loads_of_one_warp()
    workload, kepler = load_workload("volkov-listing-3.5"), load_machine("kepler")
    one = predict(workload, kepler, "volkov", warps_per_sm=1)
    full = predict(workload, kepler, "volkov", warps_per_sm=64)
    uses = totals(worksheet(workload, kepler, "volkov"))
    pairs = schedule([parse_listing(workload.warps[0].listing)], kepler).dual_issued[0]
    assert one.dram_bytes_per_second is not None and full.dram_bytes_per_second is not None
    rows += [
        Row("listing-3.5: dual issues", float(sum(pairs)), "4"),
        Row("listing-3.5: longest path", float(one.terms["latency bound"].value), "544", "cycles"),
        Row("listing-3.5: issue bound", 1 / float(uses["issue"]), "0.5", "warps/cycle/SM"),
        Row("listing-3.5: CUDA core bound, per scheduler", 4 * float(uses["cuda cores"]), "7", "cycles",
            "8 instructions of 32 lanes over 48 cores; the paper's nine with EXIT give 6.0, its issue events 7"),
        Row("listing-3.5: throughput bound", float(full.terms["throughput bound"].value), "0.0445", "warps/cycle/SM",
            "154 GB/s unrounded is 17.13 B/cycle/SM, printed as 17.1"),
        Row("listing-3.5: memory throughput per warp", float(one.dram_bytes_per_second) / 1e9, "6.35", "GB/s"),
        Row("listing-3.5: memory throughput at most", float(full.dram_bytes_per_second) / 1e9, "154", "GB/s"),
    ]  # fmt: skip
    note = "Listing 3.3's own cycles (28 to 540) need a load latency of 512; Table 6.2 has 513, which would give 581."
    return Item(
        "volkov-listings",
        "Listings 3.1, 3.2, 3.3 and 3.5: issue cycles",
        f"{PAPER} §3.7-3.8",
        rows,
        notes=[note],
    )


def _loads_of_one_warp() -> list[Row]:
    """Return rows of Listing 3.2's right column: a lone warp's independent loads on Fermi, and on the H200.

    The latency bound has no limit of loads in flight. With five of them, the sixth waits for the first's result.
    """
    fermi, printed = load_machine("fermi"), ("0", "6", "12", "38", "44", "526", "534")
    code = parse_listing("\n".join(f"LD R{n}, [R{n}]" for n in range(11, 18)))
    free = schedule([code], fermi, replacement=False).issue_cycles[0]
    limited: list[float] = []
    for n, cycle in enumerate(free):
        waits = limited[n - LOADS_OF_A_WARP] + fermi.latency_cycles("load") if n >= LOADS_OF_A_WARP else 0.0
        after = limited[-1] + free[1] if n else 0.0
        limited.append(max(cycle, waits, after))
    note = "with five loads in flight per warp, as the paper supposes (§3.7); the fourth's 26 cycles are not explained"
    rows = [
        Row(f"listing-3.2-load: {n}. LD issues at", ours, text, "cycles", note, measured=text != "0", given=text == "0")
        for n, (ours, text) in enumerate(zip(limited, printed, strict=True), 1)
    ]
    if lab := beside():
        point = {"blocks": 1, "sectors": 4, "lines": 1, "warps": 1, "repetition": 0}
        values = next(v for p, v in lab.samples.entries["in_flight.dram"] if p == point)
        issued = values["issued"]
        steps = [later - earlier for earlier, later in pairwise(issued)]
        rows.append(Row(f"listing-3.2-load on the H200: longest of {len(steps)} intervals", max(steps), None, "cycles",
                        f"{len(issued)} loads of one warp in flight; their results are back after "
                        f"{values['all_back']:.0f} cycles"))  # fmt: skip
    return rows


@pictured
def table_3_1() -> Item:
    """Table 3.1: concurrency needed on Maxwell."""
    m = load_machine("maxwell")
    memory = m.dram_bytes_per_cycle() / 128
    rows = [
        Row("basic arithmetic: latency", m.latency_cycles("fp32"), "6", "cycles", given=True),
        Row("basic arithmetic: peak throughput", m.peak_ipc("fp32"), "4", "IPC/SM"),
        Row(
            "basic arithmetic: needed concurrency",
            m.latency_cycles("fp32") * m.peak_ipc("fp32"),
            "24",
            "instructions",
        ),
        Row("memory access: latency", m.latency_cycles("load"), "368", "cycles", given=True),
        Row("memory access: peak throughput", memory, "0.081", "IPC/SM"),
        Row("memory access: needed concurrency", m.latency_cycles("load") * memory, "30", "instructions"),
    ]
    return Item("volkov-table-3.1", "Table 3.1: needed concurrency on Maxwell", f"{PAPER} §3.2", rows)


@pictured
def table_3_4() -> Item:
    """Tables 3.2 to 3.4: the worksheet for the throughput bound."""
    workload, machine = load_workload("volkov-table-3.2"), load_machine("volkov-table-3.3")
    printed = {
        "cuda cores": "25",
        "sfu units": "5",
        "shared memory": "30",
        "dram bandwidth": "184.5",
        "issue": "36.25",
    }
    uses = worksheet(workload, machine, "volkov")
    rows = [
        Row(f"{use.resource}: {use.user}", float(use.cycles), None, "cycles") for use in uses if use.resource != "issue"
    ]
    notes = {"dram bandwidth": "the paper rounds 128/10.4 to 12.3 cycles first; with that, 5 x 12.3 + 5 x 24.6 = 184.5"}
    for resource, cycles in totals(uses).items():
        rows.append(Row(f"{resource}: total", float(cycles), printed[resource], "cycles", notes.get(resource, "")))
    tightest = max(float(c) for c in totals(uses).values())
    rows.append(Row("throughput bound", 1 / tightest, "0.00542", "warps/cycle/SM"))
    rows.append(Row("instructions per warp", float(workload.total()), "135"))
    return Item("volkov-table-3.4", "Tables 3.2-3.4: a worksheet for the throughput bound", f"{PAPER} §3.6", rows)


@pictured
def table_4_1() -> Item:
    """Table 4.1: the parameters, derived from Tables 2.6, 2.7, 6.2 and 6.4."""
    rows = []
    for gpu in GPUS:
        m = load_machine(gpu)
        p, name = m.printed, generation(m)
        derived = {
            "mem_lat": (m.latency_cycles("load"), p.mem_lat_cycles, "cycles"),
            "mem_thru": (m.dram_bytes_per_cycle() / 128, p.mem_thru_ipc, "IPC/SM"),
            "alu_lat": (m.latency_cycles("fp32"), p.alu_lat_cycles, "cycles"),
            "alu_thru": (min(m.peak_ipc("fp32"), m.issue_ipc()), p.alu_thru_ipc, "IPC/SM"),
            "issue_thru": (m.issue_ipc(), p.issue_thru_ipc, "IPC/SM"),
        }
        for what, (ours, paper, unit) in derived.items():
            text = _printed(paper, 4 if what == "mem_thru" else None)
            rows.append(Row(f"{name} {what}", ours, text, unit, given=what.endswith("_lat")))
    return Item("volkov-table-4.1", "Table 4.1: hardware parameters", f"{PAPER} §4.1", rows)


@pictured
def table_4_2() -> Item:
    """Table 4.2: the closed form for each GPU, evaluated at three occupancies and four alphas."""
    closed = {  # as printed: mem_lat, alu_lat, mem_thru, and the third limit x / (alpha + y)
        "8800gtx": (444, 20, 0.0268, 0.25, 0),
        "gtx280": (434, 24, 0.0277, 0.25, 0),
        "gtx480": (513, 18, 0.0599, 1, 1),
        "gtx680": (301, 9, 0.1338, 4, 1),
        "gtx980": (368, 6, 0.0814, 4, 1),
    }
    rows = []
    for gpu, (mem_lat, alu_lat, mem_thru, rate, more) in closed.items():
        machine = load_machine(gpu)
        for n in (1.0, machine.sm.warps_max / 2, machine.sm.warps_max):
            for alpha in (4.0, 16.0, 64.0, 256.0):
                ours = predict(mix(alpha), machine, "volkov", warps_per_sm=n).fp32_ops_per_cycle
                assert ours is not None
                paper = 32 * alpha * min(n / (mem_lat + alu_lat * alpha), mem_thru, rate / (alpha + more))
                what = f"{generation(machine)}, n = {n:g}, alpha = {alpha:g}"
                rows.append(Row(what, float(ours), f"{paper:.4g}", "adds/cycle/SM", formula=True))
    note = "the paper's column is its printed formula, evaluated with its printed (rounded) constants"
    return Item("volkov-table-4.2", "Table 4.2: the resulting solutions", f"{PAPER} §4.1", rows, notes=[note])


@pictured
def table_4_3() -> Item:
    """Table 4.3: the programming guide's estimate, and the one with arithmetic latency."""
    rows = []
    for gpu in GPUS:
        m = load_machine(gpu)
        assert m.printed.guide_alpha is not None and m.printed.guide_needed_warps is not None
        alpha = m.printed.guide_alpha
        guide = predict(mix(alpha), m, "cuda-guide").needed_warps_per_sm
        assert guide is not None
        printed = f"{m.printed.guide_needed_warps:g}"
        rows.append(Row(f"{generation(m)}, alpha = {alpha:g}: guide", float(guide), printed, "warps/SM"))
        alu = min(m.peak_ipc("fp32"), m.issue_ipc())
        better = float(guide) + m.latency_cycles("fp32") * alu
        paper = "74" if gpu == "gtx680" else None
        rows.append(Row(f"{generation(m)}, alpha = {alpha:g}: with arithmetic latency", better, paper, "warps/SM"))
    return Item("volkov-table-4.3", "Table 4.3: the programming guide's estimate", f"{PAPER} §4.8", rows)


@pictured
def table_6_3() -> Item:
    """Table 6.3: needed warps per scheduler from latency and throughput, beside the measured ones."""
    rows = []
    kinds = ("fp32", "sfu", "shared", "shared_2way", "load", "load_random")
    for gpu in GPUS:
        m = load_machine(gpu)
        for kind in kinds:
            t = m.timing(kind)
            if t.latency_cycles is None or t.peak_ops_per_cycle_per_scheduler is None or (
                t.needed_warps_per_scheduler is None):  # fmt: skip
                continue
            product = t.latency_cycles * t.peak_ops_per_cycle_per_scheduler / 32
            ours = math.ceil(product * m.sm.schedulers - 1e-9) / m.sm.schedulers
            note = "measured at 90 % of peak" if kind.startswith("load") else ""
            if kind == "load_random" and t.needed_warps_per_scheduler == 1:
                note = "printed as less than one"
            paper = f"{t.needed_warps_per_scheduler:g}"
            rows.append(Row(f"{generation(m)} {kind}", ours, paper, "warps/scheduler", note, measured=True))
    title = "Table 6.3: latency x throughput / 32 against the occupancy measured"
    note = "ours is Little's law rounded up to whole warps per SM; the paper's are measurements (§6.1)"
    return Item("volkov-table-6.3", title, f"{PAPER} §6.1", rows, notes=[note])


@pictured
def table_6_4() -> Item:
    """Table 6.4: the linear estimate, and what the contention model says of it."""
    rows = []
    for gpu in GPUS:
        m = load_machine(gpu)
        s, loads = m.stream_saturation, mix(0.0)
        assert s is not None and m.memory.sustained_bytes_per_second is not None
        linear = predict(loads, m, "volkov").needed_warps_per_sm
        assert linear is not None
        name, per = generation(m), m.sm.schedulers
        rows.append(Row(f"{name}: linear", float(linear) / per, f"{s.linear_warps_per_scheduler:g}", "warps/scheduler"))
        at = predict(loads, m, "volkov-contention", warps_per_sm=float(s.linear_warps_per_scheduler) * per)
        assert at.dram_bytes_per_second is not None
        share = float(at.dram_bytes_per_second) / m.memory.sustained_bytes_per_second
        rows.append(
            Row(
                f"{name}: % of peak at linear",
                100 * share,
                f"{100 * s.at_linear_fraction:.0f}",
                "%",
                measured=True,
            )
        )
        for fraction, paper in (
            (0.9, s.at_90_percent_warps_per_scheduler),
            (0.95, s.at_95_percent_warps_per_scheduler),
        ):
            needed = needed_warps(loads, m, "volkov-contention", fraction)
            assert needed is not None
            rows.append(Row(f"{name}: at {fraction:.0%}", needed / per, f"{paper:g}", "warps/scheduler", measured=True))
    return Item("volkov-table-6.4", "Table 6.4: occupancy needed to hide memory latency", f"{PAPER} §6.3", rows)


@pictured
def table_6_5() -> Item:
    """Table 6.5: the contention fits, converted to IPC/SM (c = 0.1477 on Kepler, §6.5)."""
    rows = []
    for gpu in GPUS:
        m = load_machine(gpu)
        assert m.contention is not None
        c = m.contention.c_bytes_per_second / (128 * m.chip.sm_count * m.chip.clock_hz)
        paper = "0.1477" if gpu == "gtx680" else None
        rows.append(Row(f"{generation(m)}: c", c, paper, "IPC/SM"))
    return Item("volkov-table-6.5", "Table 6.5: memory latency model, c in IPC/SM", f"{PAPER} §6.4-6.5", rows)


@pictured
def table_6_6() -> Item:
    """Table 6.6: the mean latency of the contention model beside the measured means and medians on Kepler."""
    m = load_machine("kepler")
    assert m.contention is not None
    rows = []
    means = {3.8e9: "303", 144e9: "501"}  # §6.6's text
    for spread in m.latency_distribution:
        x = spread.throughput_bytes_per_second
        ours = float(loaded_latency(m.contention, x, m.latency_cycles("load")))
        at = f"at {x / 1e9:g} GB/s: model's mean latency"
        if x in means:
            rows.append(Row(f"{at}, measured mean", ours, means[x], "cycles", measured=True))
        rows.append(Row(f"{at}, measured median", ours, f"{spread.p50_cycles:g}", "cycles", measured=True))
    return Item("volkov-table-6.6", "Table 6.6: individual memory latencies on Kepler", f"{PAPER} §6.6", rows)


@pictured
def table_6_7() -> Item:
    """Table 6.7: latency of an additional transaction."""
    rows = []
    for gpu in GPUS:
        m = load_machine(gpu)
        assert m.memory.coalesced_transactions is not None and m.memory.extra_transaction_cycles is not None
        ours = (m.latency_cycles("load_random") - m.latency_cycles("load")) / (32 - m.memory.coalesced_transactions)
        rows.append(Row(generation(m), ours, f"{m.memory.extra_transaction_cycles:g}", "cycles"))
    return Item("volkov-table-6.7", "Table 6.7: latency of an additional transaction", f"{PAPER} §6.7", rows)


@pictured
def table_7_1() -> Item:
    """Table 7.1: MWP_peak_bw as Sim et al.'s model finds it."""
    rows = []
    for gpu in ("gtx480", "gtx680", "gtx980", "c2050"):
        m = load_machine(gpu)
        assert m.printed.mwp_peak_bw_warps is not None
        ours = predict(mix(32.0), m, "sim2012").terms["MWP_peak_bw"].value
        rows.append(Row(f"{m.name}: MWP_peak_bw", float(ours), f"{m.printed.mwp_peak_bw_warps:g}", "warps/SM"))
    return Item("volkov-table-7.1", "Table 7.1: MWP_peak_bw in Sim et al.'s model", f"{PAPER} §7.4", rows)


def _printed(value: float | None, decimals: int | None) -> str | None:
    if value is None:
        return None
    return f"{value:.{decimals}f}" if decimals is not None else f"{value:g}"


ITEMS = (listings, table_3_1, table_3_4, table_4_1, table_4_2, table_4_3, table_6_3, table_6_4, table_6_5,
         table_6_6, table_6_7, table_7_1)  # fmt: skip
