"""Changes since Maxwell in one paragraph, every statement of which follows from a journal and two machine files."""

from __future__ import annotations

from warplens.laboratory.instructions import needed_warps
from warplens.machine import Machine, load_machine
from warplens.models import predict
from warplens.papers.item import Item
from warplens.papers.laboratory import Laboratory
from warplens.papers.measured_figures import measured_cusp, unattained, warps_for_loads
from warplens.workload import mix

_SAME = 0.05  # as a share: less is no change


def since_maxwell(lab: Laboratory) -> Item:
    """Say what has changed since Maxwell, in one paragraph, with the numbers."""
    m, maxwell = lab.machine, load_machine("gtx980")
    sentences = [*_latencies(m, maxwell, lab.name), *_loads(lab), *_cusp(lab, maxwell), *_compared(lab, maxwell)]
    source = "computed from both machine files and the journal"
    return Item(f"volkov-since-maxwell-{m.id}", "What changed since Maxwell", source, notes=[" ".join(sentences)])


def _hides(gpu: Machine) -> tuple[float, float]:
    """Return the warps per SM that hide arithmetic latency, and memory latency with one 4-byte load each."""
    arithmetic = gpu.latency_cycles("fp32") * min(gpu.peak_ipc("fp32"), gpu.issue_ipc())
    return arithmetic, gpu.latency_cycles("load") * gpu.dram_bytes_per_cycle() / 128


def _changed(now: float, before: float) -> str:
    """Say `rose`, `fell` or `stayed`."""
    return "stayed" if abs(now / before - 1) < _SAME else "rose" if now > before else "fell"


def _latencies(m: Machine, maxwell: Machine, name: str) -> list[str]:
    (alu_old, memory_old), (alu, memory) = _hides(maxwell), _hides(m)
    add, add_old = m.latency_cycles("fp32"), maxwell.latency_cycles("fp32")
    load, load_old = m.latency_cycles("load"), maxwell.latency_cycles("load")
    share, share_old = m.dram_bytes_per_cycle(), maxwell.dram_bytes_per_cycle()
    sooner = {"rose": "with more warps", "fell": "with fewer warps", "stayed": "with as many warps"}
    return [
        f"Maxwell needed {alu_old:.0f} warps per SM to hide arithmetic latency and {memory_old:.0f} to hide memory "
        f"latency; {name} needs {alu:.0f} and {memory:.0f}.",
        f"Arithmetic latency {_changed(add, add_old)} ({add_old:.0f} to {add:.0f} cycles) and is hidden "
        f"{sooner[_changed(alu, alu_old)]}.",
        f"Memory latency {_changed(load, load_old)} ({load_old:.0f} to {load:.0f} cycles), an SM's share of bandwidth "
        f"{_changed(share, share_old)} ({share_old:.1f} to {share:.1f} bytes per cycle).",
    ]


def _loads(lab: Laboratory) -> list[str]:
    m, memory = lab.machine, _hides(lab.machine)[1]
    rates, fit = lab.streamed("mix.load.a0"), m.sm.warps_max
    if not rates:
        raise LookupError("mix.load.a0")
    share = max(r.median for r in rates.values()) / (m.dram_bytes_per_cycle() / 128)
    fitting = "fit" if memory <= fit else f"do not fit: there is room for {fit:.0f}"
    text = (
        f"The {memory:.0f} warps that one 4-byte load each would need {fitting}; measured, {max(rates)} warps attain "
        f"{100 * share:.0f} % of the peak."
    )
    found = warps_for_loads(lab)
    return [text, f"90 % takes {found[0]:.0f} loads in flight per SM: {found[1]}."] if found else [text]


def _cusp(lab: Laboratory, maxwell: Machine) -> list[str]:
    """Say whether a mix of adds and loads needs more warps than either alone: modelled and measured."""
    worst = []
    for gpu in (maxwell, lab.machine):
        top = gpu.issue_ipc() / (gpu.dram_bytes_per_cycle() / 128) - 1
        warps = predict(mix(top), gpu, "volkov").needed_warps_per_sm
        assert warps is not None
        worst.append((float(warps), top))
    (old, _), (now, alpha) = worst
    ends = max(_hides(lab.machine))
    cusp = "There is still a cusp" if now > (1 + _SAME) * ends else "There is no cusp any more"
    text = f"{cusp} by the two bounds: {now:.0f} warps at alpha = {alpha:.0f} (Maxwell: {old:.0f})"
    points = [(y, x) for series in measured_cusp(lab, "load") for x, y in zip(series.x, series.y, strict=True)]
    if points:
        (most, at), (last, far) = max(points), min(points, key=lambda one: -one[1])
        text += f"; measured at 90 %: {most:.0f} at alpha = {at:g}" + (f", {last:.0f} at {far:g}" if far > at else "")
    if missed := unattained(lab, "load"):
        text += f"; {missed}"
    out = now > lab.machine.sm.warps_max
    return [
        f"{text}.",
        "More warps than fit: wider loads or several of them in flight must do it." if out else "So many warps fit.",
    ]


def _compared(lab: Laboratory, maxwell: Machine) -> list[str]:
    (alu_old, memory_old), (alu, memory) = _hides(maxwell), _hides(lab.machine)
    word = "more" if alu > memory else "fewer"
    text = (
        f"Hiding arithmetic latency needs {word} warps than hiding memory latency: {alu / memory:.1f} times as many, "
        f"on Maxwell {alu_old / memory_old:.1f} times"
    )
    rates = lab.chained("instruction.fadd")
    found = needed_warps(rates, 0.9 * max(r.median for r in rates.values())) if rates else None
    return [f"{text}; measured, {found:.1f} warps of adds attain 90 %." if found is not None else f"{text}."]
