"""Volkov's tables with a row for a GPU that the laboratory measured, beside his five."""

from __future__ import annotations

from collections.abc import Callable

from warplens.core.units import number
from warplens.laboratory.instructions import latency, needed_warps
from warplens.machine import Machine, load_machine
from warplens.papers.item import Grid, Item
from warplens.papers.laboratory import Laboratory, reached
from warplens.papers.volkov_tables import GPUS, PAPER, generation

_KINDS = {"add": "fp32", "SFU": "sfu", "shared": "shared", "shared, 2-way conflicts": "shared_2way",
          "streaming": "load", "random": "load_random"}  # fmt: skip
# Of the laboratory: entry and stride of the chains that stand for these kinds.
_ENTRIES = {"fp32": ("instruction.fadd", 1), "sfu": ("instruction.mufu_rsq", 1), "shared": ("instruction.lds", 1),
            "shared_2way": ("instruction.lds", 2)}  # fmt: skip


def _item(lab: Laboratory, name: str, title: str, section: str, grid: Grid, *notes: str) -> Item:
    identity = f"volkov-table-{name}-{lab.machine.id}"
    return Item(identity, f"Table {name}: {title}", f"{PAPER} §{section}; {lab.name} by the laboratory", [], [],
                list(notes), [grid])  # fmt: skip


def _cell(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else number(value, digits)


def _beside(old: Callable[[Machine, str], str], new: Callable[[str], str], first: str) -> Grid:
    """Make a grid over the kinds of instructions: the five GPUs and the laboratory's."""
    rows = [[generation(m), *(old(m, kind) for kind in _KINDS.values())] for m in map(load_machine, GPUS)]
    return Grid([first, *_KINDS], [*rows, [new("name"), *(new(kind) for kind in _KINDS.values())]])


def table_4_1(lab: Laboratory) -> Item:
    """The model's five parameters."""
    rows = []
    for m in (*map(load_machine, GPUS), lab.machine):
        alu = min(m.peak_ipc("fp32"), m.issue_ipc())
        cells = m.latency_cycles("load"), m.dram_bytes_per_cycle() / 128, m.latency_cycles("fp32"), alu, m.issue_ipc()
        rows.append([generation(m), *(_cell(x, 4) for x in cells)])
    head = ["", "mem_lat, cycles", "mem_thru, IPC/SM", "alu_lat, cycles", "alu_thru, IPC/SM", "issue_thru, IPC/SM"]
    return _item(lab, "4.1", "hardware parameters", "4.1", Grid(head, rows))


def table_6_1(lab: Laboratory) -> Item:
    """Peak throughputs."""
    per = 32 / lab.machine.sm.schedulers

    def new(kind: str) -> str:
        if kind in _ENTRIES:
            return _cell(max(r.median for r in lab.chained(*_ENTRIES[kind]).values()) * per)
        if kind == "load":
            return _cell(lab.machine.dram_bytes_per_cycle() / 128 * per)
        random = lab.samples.take("stream.random", lambda p, v: v["rate"] / lab.sms, "bytes", "warps")
        return _cell(max(r.median for (size, _), r in random.items() if size >= 1 << 30) * per) if random else "-"

    def old(m: Machine, kind: str) -> str:
        return _cell(m.timing(kind).peak_ops_per_cycle_per_scheduler)

    grid = _beside(old, lambda kind: lab.name if kind == "name" else new(kind), "operations/cycle/scheduler")
    notes = [
        "random: unstructured 4-byte loads over 1 GiB or more; streaming: the best rate of reads of any width",
        f"add: one chain per warp; with several, 2N links less N say {lab.peak('instruction.fadd') * per:.1f}, above "
        "the 32 lanes of a scheduler, as the longer kernel hides more of the loop",
    ]
    return _item(lab, "6.1", "peak throughputs", "6.1", grid, *notes)


def table_6_2(lab: Laboratory) -> Item:
    """Latencies."""

    def new(kind: str) -> str:
        if kind in _ENTRIES:
            found = latency(lab.samples, *_ENTRIES[kind])
            return _cell(found.median if found else None)
        if kind == "load":
            return _cell(lab.machine.latency_cycles("load"))
        alone = lab.samples.one("stream.random", lambda p, v: float(v["mean_cycles_per_count"]), warps=0, repetition=0)
        return _cell(alone.median if alone else None, 4)

    def old(m: Machine, kind: str) -> str:
        return _cell(m.timing(kind).latency_cycles)

    grid = _beside(old, lambda kind: lab.name if kind == "name" else new(kind), "cycles")
    return _item(lab, "6.2", "register dependency latencies", "6.1", grid)


def table_6_3(lab: Laboratory) -> Item:
    """Needed warps per scheduler, as measured."""
    per = lab.machine.sm.schedulers

    def new(kind: str) -> str:
        if kind in _ENTRIES:
            entry, stride = _ENTRIES[kind]
            rates = lab.chained(entry, stride)
            best = lab.peak(entry) if stride == 1 else max(r.median for r in rates.values())
            found = needed_warps(rates, 0.98 * best)
            return _cell(found / per if found else None)
        if kind == "load":
            goal = 0.9 * lab.machine.dram_bytes_per_cycle() / 128
            found = needed_warps(lab.streamed("mix.load.a0"), goal)
            return _cell(found / per) if found else f"more than {lab.machine.sm.warps_max / per:g}"
        rates = lab.samples.take("stream.random", lambda p, v: v["rate"] / lab.sms, "warps", bytes=1 << 30)
        rates.pop(0, None)
        found = needed_warps(rates, 0.9 * max(r.median for r in rates.values())) if rates else None
        return _cell(found / per if found else None)

    def old(m: Machine, kind: str) -> str:
        return _cell(m.timing(kind).needed_warps_per_scheduler)

    grid = _beside(old, lambda kind: lab.name if kind == "name" else new(kind), "warps/scheduler")
    note = f"{lab.name}: 98 % of peak for arithmetic and shared memory, 90 % for loads; on the line between occupancies"
    return _item(lab, "6.3", "occupancy needed", "6.1", grid, note)


def table_6_4(lab: Laboratory) -> Item:
    """Streaming reads: Little's law, and what is needed."""
    rows = []
    for m in map(load_machine, GPUS):
        s = m.stream_saturation
        if s is not None:
            needed = (
                s.linear_warps_per_scheduler,
                s.at_90_percent_warps_per_scheduler,
                s.at_95_percent_warps_per_scheduler,
            )
            rows.append([generation(m), *(_cell(x) for x in needed), f"{100 * s.at_linear_fraction:.0f} %"])
    per, peak = lab.machine.sm.schedulers, lab.machine.dram_bytes_per_cycle() / 128
    for width in (4, 8, 16):
        rates = lab.streamed("mix.load.a0" if width == 4 else f"stream.dram.ilp1.b{width}")
        if not rates:
            continue
        lines = width / 4  # 128 bytes of a load
        linear = lab.machine.latency_cycles("load") * peak / lines / per
        share = max(r.median for r in rates.values()) * lines / peak
        cells = [_per(reached(rates, f * peak / lines), per) for f in (0.9, 0.95)]
        rows.append(
            [f"{lab.name}, {width} bytes", _cell(linear), *cells, f"{100 * share:.0f} % at {max(rates)} warps/SM"]
        )
    head = ["warps/scheduler", "linear", "90 % of peak", "95 % of peak", "at linear; or at most"]
    note = "one load in flight per warp; four, eight and sixteen bytes per thread (the dissertation: four)"
    return _item(lab, "6.4", "occupancy needed to hide memory latency", "6.3", Grid(head, rows), note)


def _per(text: str, schedulers: float) -> str:
    head, _, last = text.rpartition(" ")
    return f"{head} {float(last) / schedulers:.3g}".strip() if last != "-" else text


def table_6_5(lab: Laboratory) -> Item:
    """Latency under load: a + b x / (c - x)."""
    rows = []
    for m in (*map(load_machine, GPUS), lab.machine):
        if m.contention is not None:
            c = m.contention
            rows.append([generation(m), _cell(c.a_cycles), _cell(c.b_cycles), _cell(c.c_bytes_per_second / 1e9, 4)])
    second = lab.machine.contention_l2
    if second is not None:
        cells = _cell(second.a_cycles), _cell(second.b_cycles), _cell(second.c_bytes_per_second / 1e9, 4)
        rows.append([f"{lab.name}, L2 cache", *cells])
    source = lab.machine.sources.get("contention.b_cycles")
    notes = [f"{lab.name}: {source.ref.partition(': ')[2]}"] if source else []
    return _item(
        lab, "6.5", "memory latency model", "6.4", Grid(["", "a, cycles", "b, cycles", "c, GB/s"], rows), *notes
    )


def table_6_6(lab: Laboratory) -> Item:
    """Single latencies at seven loads."""
    names = ("min", "p5", "p25", "p50", "p75", "p95", "p99", "max")
    rows = []
    for d in lab.machine.latency_distribution:
        cells = [_cell(getattr(d, f"{name}_cycles"), 4) for name in names]
        rows.append([_cell(d.throughput_bytes_per_second / 1e9, 4), *cells])
    return _item(lab, "6.6", "individual memory latencies", "6.6", Grid(["GB/s", *names], rows))


def table_6_7(lab: Laboratory) -> Item:
    """Latency of a further transaction; on the laboratory's GPU also by lines, from L2 and from DRAM."""
    rows = [[generation(m), _cell(m.memory.extra_transaction_cycles)] for m in (*map(load_machine, GPUS), lab.machine)]
    found = lab.samples.take("chase.lines", lambda p, v: v["mean_warp_cycles"] / p["loads"], "where", "lines")
    for (where, lines), reading in found.items():
        rows.append([f"{lab.name}: a load of {lines} lines, {where}", f"{reading.median:.0f}"])
    return _item(lab, "6.7", "latency of an additional transaction", "6.7", Grid(["", "cycles"], rows))


def table_operations(lab: Laboratory) -> Item:
    """Every instruction that was measured: what Tables 6.1 to 6.4 give for six kinds."""
    rows = []
    for name, o in lab.machine.operations.items():
        cells = (o.latency_cycles, o.peak_ops_per_cycle_per_scheduler, o.at_90_percent_warps_per_scheduler,
                 o.at_95_percent_warps_per_scheduler)  # fmt: skip
        rows.append([name, o.kind or "", f"{o.instructions or 1:g}", *map(_cell, cells)])
    head = ["", "class", "instructions", "latency, cycles", "ops/cycle/scheduler", "warps/scheduler at 90 %",
            "at 95 %"]  # fmt: skip
    title = "single instructions, and short sequences that take turns (not in the dissertation)"
    notes = [
        "latency and rate are those of the whole sequence; warps with one chain each, on the line between occupancies"
    ]
    return Item(f"volkov-table-operations-{lab.machine.id}", title, f"{lab.name} by the laboratory", [], [], notes,
                [Grid(head, rows)])  # fmt: skip


def table_tensor(lab: Laboratory) -> Item:
    """Matrix instructions, which none of the five had."""
    rows = [
        [name, _cell(t.latency_cycles), _cell(t.peak_flops_per_cycle_per_sm, 4)]
        for name, t in lab.machine.tensor.items()
    ]
    lowered = lab.machine.chip.tensor_clock_hz
    note = "group: wgmma of four warps, both factors in shared memory; the others: mma.sync of one warp"
    note += f"; all but f64 at {lowered / 1e9:.3g} GHz, to which the GPU lowers its clock" if lowered else ""
    title = "matrix instructions (not in the dissertation)"
    grid = Grid(["", "latency, cycles", "operations/cycle/SM"], rows)
    return Item(f"volkov-table-tensor-{lab.machine.id}", title, f"{lab.name} by the laboratory", [], [], [note], [grid])


TABLES = (table_4_1, table_6_1, table_6_2, table_6_3, table_6_4, table_6_5, table_6_6, table_6_7,
          table_operations, table_tensor)  # fmt: skip
