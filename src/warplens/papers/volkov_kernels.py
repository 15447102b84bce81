"""Volkov 2016, §3.10 and Figure 1.1: real kernels over occupancy, needed warps by Little's law, and the H200's ladders.

The model takes the counted launches of examples/ (machine code for the H200) to every GPU. The curves of the paper's
GPUs are its measurements and not printed; what the text says of them stands beside the model. On the H200 each kernel
ran at every occupancy that dynamic shared memory allows (data/experiments/occupancy_ladders).
"""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from functools import cache

import msgspec
import numpy as np

from warplens.core.errors import WarplensError
from warplens.machine import Machine, load_machine
from warplens.models import predict
from warplens.papers.item import Item, Plot, Row, Series, line
from warplens.papers.occupancy_ladders import MISSING, Timed, best, carveouts, needed, timed
from warplens.papers.validation import kernels
from warplens.papers.validation.stored import data_file
from warplens.papers.volkov_figures import GBPS, OURS, WARPS, figure, floats, occupancies
from warplens.papers.volkov_tables import GPUS, generation
from warplens.workload import Workload

_CARVEOUTS = {-1: "L1 as the driver likes", 100: "the least L1, as in the ladder"}
_FRACTION, _FEW = 0.9, 6  # of the peak; occupancies at which our own model is asked, as each takes half a second
_OWN = {"sgemm_4096"}  # counted for the experiment, the others for the suite
_MODELS = {**OURS, "warplens": "warplens"}
TITLES = {"permute_trivial": "permutation, trivial", "permute_random": "permutation, random",
          "vabs.positive": "absolute values, all positive", "vabs": "absolute values, all negative",
          "black_scholes": "Black-Scholes", "black_scholes.fast": "Black-Scholes, fast math",
          "sgemm_4096": "SGEMM, 8 x 8 in registers"}  # fmt: skip


class _Workloads(msgspec.Struct):
    """The file of workloads that are not in the suite."""

    workloads: dict[str, Workload]


@cache
def workload(name: str) -> Workload | None:
    """Return a counted launch, of the suite or of the experiment; None where the data are not installed."""
    try:
        if name not in _OWN:
            return next(launch.workload for launch in kernels.launches() if launch.name == name)
        raw = lzma.decompress(data_file("experiments/occupancy_ladders/workloads.json.xz").read_bytes())
    except WarplensError:
        return None
    return msgspec.json.decode(raw, type=_Workloads).workloads[name]


def _rate(name: str, machine: Machine, model: str, n: np.ndarray, work: float) -> np.ndarray:
    """Return a model's work per second, in thousands of millions, at each number of warps per SM."""
    known = workload(name)
    assert known is not None
    if model == "warplens":
        seconds = [predict(known, machine, model, warps_per_sm=float(x)).seconds for x in n]
        return work / np.array(seconds, float) / 1e9
    return np.broadcast_to(work / floats(predict(known, machine, model, warps_per_sm=n).seconds) / 1e9, n.shape)


def _ladder(name: str, rows: list[Row], plots: list[Plot]) -> str:
    """Add the H200's ladder of a kernel beside the models; return a note where there is none.

    The models are asked at the block size of the counted launch, and held against what it attained there.
    """
    launches, known = timed("ladders", name), workload(name)
    if not launches or known is None or known.launch is None:
        return MISSING
    h200, title = load_machine("h200"), TITLES[name]
    work = launches[0].operations or launches[0].bytes
    unit = "Gflop/s" if launches[0].operations else GBPS
    series = _measured(launches)
    own = best(_of_counted(name))
    n = np.array(list(own))
    shown = np.linspace(n[0], n[-1], 65)
    for label, model in _MODELS.items():
        slow = model == "warplens"
        at = n[np.unique(np.round(np.linspace(0, n.size - 1, _FEW)).astype(int))] if slow else n
        rates = _rate(name, h200, model, at, work)
        series.append(
            line(label, at, rates, "points") if slow else line(label, shown, _rate(name, h200, model, shown, work))
        )
        off = np.array([rate / own[x] - 1 for x, rate in zip(at, rates, strict=True)])
        what = f"H200, {title}: {label} off, in the mean over {at.size} occupancies"
        rows.append(Row(what, 100 * float(np.abs(off).mean()), None, "%"))
    measured = best(launches)
    peak = max(measured.values())
    warps = needed(measured, _FRACTION * peak)
    rows.append(Row(f"H200, {title}: best measured", peak, None, unit))
    rows.append(Row(f"H200, {title}: warps for 90 % of it", warps or float("nan"), None, WARPS))
    for percent, rate in carveouts(name).items():
        if percent in _CARVEOUTS:
            what = f"H200, {title}: all warps, {_CARVEOUTS[percent]}"
            rows.append(Row(what, rate, None, unit))
    plots.append(Plot(f"H200, {title}", WARPS, unit, series))
    return ""


def _of_counted(name: str) -> list[Timed]:
    """Return a kernel's launches at the block size of the counted one."""
    known = workload(name)
    block = known.launch.threads_per_block if known is not None and known.launch is not None else 0
    return [one for one in timed("ladders", name) if one.threads == block]


def _measured(launches: Sequence[Timed]) -> list[Series]:
    """Return the measured rates by the size of blocks."""
    sizes: dict[int, list[Timed]] = {}
    for one in launches:
        sizes.setdefault(one.threads, []).append(one)
    return [
        line(f"measured, {size} threads per block", [x.warps_per_sm for x in found], [x.rate for x in found], "points")
        for size, found in sizes.items()
    ]


def needed_share(name: str, machine: Machine) -> float | None:
    """Return the occupancy that the two bounds need for a kernel, as a share of the warps that fit."""
    known = workload(name)
    if known is None:
        return None
    warps = predict(known, machine, "volkov").needed_warps_per_sm
    assert warps is not None
    return float(np.max(warps)) / machine.sm.warps_max


def _needed_by_table_6_1(machine: Machine) -> float | None:
    """Return the share of the warps that fit which the random permutation needs, at the random loads of Table 6.1.

    The two bounds count bytes; random loads come to a fourth of what bytes alone would say (§6.7).
    """
    if (known := workload("permute_random")) is None:
        return None
    terms = predict(known, machine, "volkov", warps_per_sm=1.0).terms
    bound = min(float(terms["throughput bound"].value), machine.peak_ipc("load_random"))
    return float(terms["latency bound"].value) * bound / machine.sm.warps_max


def _warps_at(name: str, machine: Machine, model: str, gigabytes: float) -> float:
    """Return the warps per SM at which a model gives so many GB/s."""
    known, n = workload(name), np.arange(1.0, 257.0)
    assert known is not None
    rates = floats(predict(known, machine, model, warps_per_sm=n).dram_bytes_per_second) / 1e9
    return float(np.interp(gigabytes, rates, n)) if rates[-1] >= gigabytes else float("nan")


def _at_190(name: str, paper: str, note: str = "") -> list[Row]:
    """Return rows of Maxwell's warps for 190 GB/s, which §3.10 prints."""
    maxwell = load_machine("gtx980")
    if workload(name) is None:
        return []
    rows = []
    for label, model in OURS.items():
        ours = _warps_at(name, maxwell, model, 190.0)
        what = f"Maxwell, {TITLES[name]}: warps for 190 GB/s, {label}"
        rows.append(Row(what, ours, paper, WARPS, note, measured=True))
    return rows


def _curves(names: Sequence[str], gpus: Sequence[str]) -> list[Plot]:
    """Plot what the models say of kernels on the paper's GPUs, in GB/s of DRAM."""
    plots = []
    for machine in map(load_machine, gpus):
        n, series = occupancies(machine), list[Series]()
        for name in names:
            if (known := workload(name)) is not None:
                result = floats(predict(known, machine, "volkov", warps_per_sm=n).dram_bytes_per_second) / 1e9
                series.append(line(TITLES[name], n, np.broadcast_to(result, n.shape)))
        plots += [Plot(f"{generation(machine)}, two bounds", WARPS, GBPS, series)] if series else []
    return plots


def _permutation(number: str, gpus: Sequence[str], more: str, *, ladders: bool) -> Item:
    """Make Figure 3.7 or 3.8: the permutation on some of the GPUs."""
    names = ("permute_trivial", "permute_random")
    wide, narrow = (2 * 128 + 32 * 128) / (3 * 128), (2 * 128 + 32 * 32) / (3 * 128)
    rows = [
        Row("bytes moved, random over trivial: transactions of 32 bytes", narrow, "3.3", "times"),
        Row("bytes moved, random over trivial: transactions of 128 bytes", wide, "11", "times"),
    ]
    for machine in map(load_machine, gpus):
        for name, paper in zip(names, ("50", "15"), strict=True):
            share = needed_share(name, machine)
            if share is not None:
                says = "the paper: over 50 to 100 %" if name == names[0] else "the paper: 6 to 15 %, over its five GPUs"
                what = f"{generation(machine)}, {TITLES[name]}: occupancy needed"
                rows.append(Row(what, 100 * share, paper, "%", says, measured=True))
        if (share := _needed_by_table_6_1(machine)) is not None:
            what = f"{generation(machine)}, {TITLES[names[1]]}: the same with Table 6.1's random loads"
            rows.append(Row(what, 100 * share, "15", "%", "the paper: 6 to 15 %, over its five GPUs", measured=True))
    plots, notes = _curves(names, gpus), [more]
    if ladders:
        notes += filter(None, {_ladder(name, rows, plots) for name in names})
    return figure(number, "performance of the permutation kernel", "3.10", rows, plots, *filter(None, notes))


def figure_3_7() -> Item:
    """Figure 3.7: the permutation on G80, GT200 and Fermi, and on the H200."""
    return _permutation("3.7", GPUS[:3], "Listing 3.6 is the kernel: examples/vector/permute.cu", ladders=True)


def figure_3_8() -> Item:
    """Figure 3.8: the permutation on Kepler and Maxwell."""
    return _permutation("3.8", GPUS[3:], "", ladders=False)


def _absolute_values(number: str, gpus: Sequence[str], rows: list[Row], *, ladders: bool) -> Item:
    """Make Figure 3.9 or 3.10: absolute values, all positive and all negative."""
    names = ("vabs.positive", "vabs")
    for machine in map(load_machine, gpus):
        shares = [needed_share(name, machine) for name in names]
        if shares[0] is None or shares[1] is None:
            continue
        what = f"{generation(machine)}: warps needed, all positive over all negative"
        rows.append(Row(what, shares[0] / shares[1], "2", "times", "the paper: about", measured=True))
        what = f"{generation(machine)}: occupancy needed, all positive"
        rows.append(Row(what, 100 * shares[0], None, "%", "more than fit" if shares[0] > 1 else ""))
    plots, notes = _curves(names, gpus), ["Listing 3.7 is the kernel: examples/vector/vabs.cu"]
    if ladders:
        notes += filter(None, {_ladder(name, rows, plots) for name in names})
    return figure(number, 'performance of the "vector abs" kernel', "3.10", rows, plots, *notes)


def figure_3_9() -> Item:
    """Figure 3.9: absolute values on G80, GT200 and Fermi, and on the H200."""
    return _absolute_values("3.9", GPUS[:3], [], ladders=True)


def figure_3_10() -> Item:
    """Figure 3.10: absolute values on Kepler and Maxwell."""
    rows = list[Row]()
    for name, paper in (("vabs.positive", "60"), ("vabs", "40")):
        rows += _at_190(name, paper)
    return _absolute_values("3.10", GPUS[3:], rows, ladders=False)


def figure_3_11() -> Item:
    """Figure 3.11: Black-Scholes with and without fast math."""
    names, rows = ("black_scholes", "black_scholes.fast"), list[Row]()
    for name, paper in zip(names, ("48", "18"), strict=True):
        rows += _at_190(name, paper, "the paper: 44 or 48" if paper == "48" else "")
    plots = _curves(names, GPUS[2:])
    notes = filter(None, {_ladder(name, rows, plots) for name in names})
    return figure("3.11", "performance of the Black-Scholes kernel", "3.10", rows, plots, *notes)


def figure_1_1() -> Item:
    """Figure 1.1: throughput of four kernels against occupancy, on the H200."""
    rows, plots = list[Row](), list[Plot]()
    note = _ladder("sgemm_4096", rows, plots)
    series = []
    for name in ("sgemm_4096", "permute_trivial", "vabs", "black_scholes"):
        measured = best(_of_counted(name))
        if measured:
            peak = max(measured.values())
            series.append(line(TITLES[name], list(measured), [rate / peak for rate in measured.values()], "points"))
    if series:
        plots.append(Plot("H200, four kernels", WARPS, "throughput over the best", series, y_max=1.1))
    says = "the paper's curves are measurements of its GPUs, SGEMM's from Volkov and Demmel 2008; none is printed"
    return figure("1.1", "more threads at the same time, to a limit", "1", rows, plots, *filter(None, [says, note]))


ITEMS = (figure_1_1, figure_3_7, figure_3_8, figure_3_9, figure_3_10, figure_3_11)
