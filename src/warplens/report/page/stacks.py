"""Stacked bars: what the time is made of, what warps wait for, Sim's potential benefits; and Volkov's worksheet."""

from __future__ import annotations

from collections.abc import Mapping

from warplens.advisor import Benefits
from warplens.core.units import number
from warplens.models.bounds import Use
from warplens.models.comparison import Comparison
from warplens.report.advice import NO_MEMORY_TIME
from warplens.report.page import origins
from warplens.report.page.colours import colour, in_words, key
from warplens.report.page.content import Content
from warplens.report.page.markup import Markup, cycles, joined, more, seconds, table, tag, value

_SHOWN = 0.005  # shares below this are not drawn
_PARTS = {
    "launch": "an empty kernel, a cold start, handing out the first blocks",
    "issue": "warps issue, or wait for their turn or a busy pipe",
    "dependency": "fixed latencies and branches",
    "shared memory": "results of and queues to shared memory and SFUs",
    "l1": "waits for memory, by where sectors are found: L1", "l2": "waits for memory, by where sectors are found: L2",
    "dram": "waits for memory, by where sectors are found: DRAM", "barriers": "waits at barriers",
    "tail": "blocks that differ: the last ones run alone",
}  # fmt: skip


def stack(
    shares: Mapping[str, float], whys: Mapping[str, str], label: str, words: Mapping[str, str] | None = None
) -> Markup:
    """Return one bar of shares with its key."""
    shown = {n: s for n, s in sorted(shares.items(), key=lambda item: -item[1]) if s >= _SHOWN}
    names = words or {}
    cells = [
        tag("span", f"{s:.0%}" if s >= 0.06 else "", class_=f"cell {colour(n)}", style=f"flex-grow:{s:.4f}",
            title=f"{names.get(n, n)}: {s:.1%}. {whys[n]}")
        for n, s in shown.items()
    ]  # fmt: skip
    alternative = f"{label}: " + ", ".join(f"{n} {s:.0%}" for n, s in shown.items())
    entries = {n: f"{s:.1%}. {whys[n]}" for n, s in shown.items()}
    labelled = {
        n: f"{names.get(n, n)} {s:.0%}" if s >= 0.01 else f"{names.get(n, n)} {s:.1%}" for n, s in shown.items()
    }
    return joined((tag("div", *cells, class_="stack", role="img", aria_label=alternative), key(entries, labelled)))


def time_stack(content: Content) -> Markup:
    """Return what the predicted time is made of, and what a warp's time is made of."""
    p = content.prediction
    own = p if p.parts else content.comparison.predictions.get("warplens", p)
    if not own.parts:
        return tag("p", "No model that says what the time is made of speaks about this kernel.", class_="dim")
    total = float(own.cycles or 1.0)
    parts = {name: float(c) / total for name, c in own.parts.items()}
    whys = {
        name: f"{seconds(float(c) / total * float(own.seconds or 0), 3)}: {_PARTS.get(name, name)}; by {own.model}"
        " (docs/models/warplens.md)"
        for name, c in own.parts.items()
    }  # fmt: skip
    made = [tag("h3", "The kernel's time"), stack(parts, whys, "what the time is made of")]
    run = own.simulation
    if run is not None:
        whys = {r: f"Nsight's stall_{r}: share of all warp-cycles, simulated (docs/simulator.md)" for r in run.stalls}
        words = {r: in_words(r) for r in run.stalls}
        made += [tag("h3", "A warp's time: what it waits for"), stack(run.stalls, whys, "what warps wait for", words)]
        error = run.error_cycles / run.cycles if run.cycles else 0.0
        ran = f"Simulated: {run.simulated_instructions:,} instructions of one SM, {number(run.ipc, 3)} per cycle."
        far = f" Sampling error of its cycles: ± {error:.1%} (blocks left out, and chance)." if error >= 5e-4 else ""
        made.append(tag("p", ran + far, class_="dim"))
    return joined(made)


_COMPUTATION = {"T_fp": ("t_fp", "green", "(18): the floating-point work alone"),
                "B_itilp": ("b_itilp", "purple", "(20): more parallel instructions"),
                "B_serial": ("b_serial", "red", "(21): no barriers, divergence, conflicts or SFU queues"),
                "B_fp": ("b_fp", "amber", "(22): no instructions beyond floating point")}  # fmt: skip
_MEMORY = {"T_mem_min": ("t_mem_min", "blue", "(19): the data once at full bandwidth"),
           "B_memlp": ("b_memlp", "cyan", "(23): more parallel memory requests"),
           "overlapped": ("", "grey", "(16), (17): memory time that computation hides")}  # fmt: skip


def benefits(content: Content) -> Markup:
    """Return Sim's benefit chart: computation and memory, and what of it could go."""
    b = content.advised.benefits if content.advised else None
    if b is None:
        why = content.comparison.silent.get("sim2012", "sim2012 does not speak about this kernel")
        return tag("p", why, class_="dim")
    longest = max(b.t_comp, b.t_mem, 1e-9)
    rows = [
        tag("li", tag("span", name, class_="name"), tag("span", *_pieces(b, kinds, longest), class_="track pieces"),
            value(cycles(total), f"Sim et al. 2012, Equation {equation}"))
        for name, kinds, total, equation in (
            ("computation", _COMPUTATION, b.t_comp, "(2): T_comp"), ("memory", _MEMORY, b.t_mem, "(11): T_mem"))
    ]  # fmt: skip
    entries = [
        tag("li", tag("i", class_=f"swatch c-{c}"), value(f"{n} {cycles(_amount(b, f))}", f"Equation {why}"))
        for n, (f, c, why) in {**_COMPUTATION, **_MEMORY}.items()
    ]  # fmt: skip
    verdict = "memory-bound" if b.memory_bound else "compute-bound"
    time = b.t_exec / content.machine.chip.clock_hz  # with the chart's Gamma, not that of the model among all
    said = tag("p", "Sim's model calls the kernel ", tag("b", verdict), ", with T_exec of ",
               value(seconds(time), "T_exec, Sim et al. 2012, Equation (1), its Gamma as in docs/advise.md"),
               ". A benefit is at most what would be saved if that cause alone went away.",
               "" if b.t_mem else f" Memory has no bar: {NO_MEMORY_TIME}.")  # fmt: skip
    return joined((said, tag("ul", *rows, class_="bars"), tag("ul", *entries, class_="key")))


def _amount(b: Benefits, field: str) -> float:
    return max(0.0, float(getattr(b, field)) if field else b.t_mem - b.t_mem_min - b.b_memlp)


def _pieces(b: Benefits, kinds: Mapping[str, tuple[str, str, str]], longest: float) -> list[Markup]:
    return [
        tag("span", class_=f"bar c-{c}", style=f"width:{100 * _amount(b, f) / longest:.2f}%",
            title=f"{n}: {cycles(_amount(b, f))}. Sim et al. 2012, Equation {why}")
        for n, (f, c, why) in kinds.items() if _amount(b, f) > 0
    ]  # fmt: skip


def worksheet(content: Content) -> Markup:
    """Return Volkov's Table 3.4 for this kernel: who uses which resource for how long."""
    uses = content.worksheet
    if not uses:
        return tag("p", content.missing.get("worksheet", "unknown"), class_="dim")
    uses = _joined_uses(uses)
    totals: dict[str, float] = {}
    for u in uses:
        totals[u.resource] = totals.get(u.resource, 0.0) + float(u.cycles)
    slowest = max(totals, key=lambda name: totals[name])
    rows: list[list[object]] = []
    for resource in sorted(totals, key=lambda name: -totals[name]):
        users = sorted((u for u in uses if u.resource == resource), key=lambda u: -float(u.cycles))
        for i, u in enumerate(users):
            first = tag("b", resource) if resource == slowest else resource
            rows.append([first if i == 0 else "", u.user, number(float(u.count), 4), number(float(u.cycles_each), 3),
                         number(float(u.cycles), 4)])  # fmt: skip
        most = f"in all, at most {number(1 / totals[resource], 3)} warps/cycle" if totals[resource] else "in all"
        rows.append(["", tag("i", most), "", "", tag("b", number(totals[resource], 4))])
    head = ["resource", "used by", ("per warp", "executions by a mean warp, counted by the emulator (docs/profile.md)"),
            ("cycles each", "1 / the peak rate of the machine file, or bytes / bandwidth (Volkov 2016, Table 3.4)"),
            ("cycles", "per warp x cycles each; a throughput of warps cannot exceed 1 / the largest sum")]  # fmt: skip
    return table(head, rows, (2, 3, 4), caption="throughput worksheet")


def _joined_uses(uses: list[Use]) -> list[Use]:
    """Join users that are alike."""
    counts: dict[tuple[str, str, float], float] = {}
    for u in uses:
        alike = u.resource, u.user, float(u.cycles_each)
        counts[alike] = counts.get(alike, 0.0) + float(u.count)
    return [Use(*alike, count) for alike, count in counts.items()]


def models(c: Comparison) -> Markup:
    """Return what all models say, each with its terms."""
    rows = []
    for name, p in c.predictions.items():
        time = "–" if p.seconds is None else seconds(float(p.seconds))
        terms = [[n, value(number(float(t.value), 6), origins.term(n, t, name)), t.unit, t.equation]
                 for n, t in p.terms.items()]  # fmt: skip
        folded = more(
            name, table(["term", "value", "unit", "equation"], terms, (1,), caption=f"terms of {name}"), printed=False
        )
        needed = "" if p.needed_warps_per_sm is None else number(float(p.needed_warps_per_sm), 3)
        rows.append([folded, time, p.limited_by, needed, "; ".join([*p.flags, *p.notes])])
    head = ["model", "time", "limited by", ("warps needed", "occupancy from which latency is hidden"), "remarks"]
    silent = [tag("li", tag("b", name), ": ", why) for name, why in c.silent.items()]
    quiet = [more(f"Silent models ({len(silent)})", tag("ul", *silent))] if silent else []
    return joined((table(head, rows, (1, 3), caption="all models"), *quiet))


def published(content: Content) -> Markup:
    """Return what the papers' models say, folded: they are there to be compared, the answer is at the top."""
    said = (
        "Models of the literature, and ours beside them, for comparison and research. Their times differ from one "
        "another and from the answer at the top of this page (docs/models says by how much, on measured kernels)."
    )
    return joined((
        tag("p", said, class_="dim"),
        more(f"All models ({len(content.comparison.predictions)})", models(content.comparison)),
        more("Potential benefits (Sim et al. 2012)", benefits(content)),
        more("Throughput worksheet (Volkov 2016, Table 3.4)", worksheet(content)),
    ))  # fmt: skip
