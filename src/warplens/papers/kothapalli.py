"""Kothapalli et al. 2009: costs of operations, the two experiments and the three case studies.

Beside the curves of the GTX 280 stand the same kernels on an H200: the models by its machine file, and the measured
times (data/h200/suite/kernels). The paper's own measured curves are in pictures only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from warplens.machine import load_machine
from warplens.models import predict
from warplens.models.published.kothapalli import parameters, thread_cycles
from warplens.papers.item import Item, Plot, Row, Series, line
from warplens.papers.validation.kernels import launches
from warplens.workload import Access, Launch, Number, Workload, load_workload
from warplens.workload.workload import Given

PAPER = "Kothapalli et al. 2009"
MAX, SUM = "kothapalli-max", "kothapalli-sum"


def _cycles(workload: Workload) -> tuple[float, float]:
    """N_comp and N_memory of one thread on the GTX 280."""
    machine = load_machine("gtx280")
    compute, memory = thread_cycles(workload, machine, parameters(machine, MAX), MAX)
    return float(compute), float(memory)


def _ms(workload: Workload, model: str) -> Number:
    """The predicted time on the GTX 280 in milliseconds."""
    seconds = predict(workload, load_machine("gtx280"), model).seconds
    assert seconds is not None
    return 1e3 * seconds


def _barrier_cycles() -> float:
    section = load_machine("gtx280").kothapalli
    assert section is not None and section.barrier_cycles is not None
    return section.barrier_cycles


def operation_costs() -> Item:
    """§3.2 and §3.5: cycles of operations and accesses, as the model counts them."""

    def compute(**counts: Number) -> float:
        return _cycles(Workload(name="operations", instructions=counts))[0]

    def memory(access: Access) -> float:
        return _cycles(Workload(name="access", accesses=[access]))[1]

    single = memory(Access(1.0, threads_per_transaction=1))
    full = memory(Access(1.0, threads_per_transaction=16))
    rows = [
        Row("integer addition", compute(int=1), "4", "cycles", given=True),
        Row("32-bit integer multiplication", compute(imul=1), "16", "cycles", given=True),
        Row("integer modulus", compute(imod=1), "48", "cycles", given=True),
        Row("two additions and two multiplications", compute(int=2, imul=2), "72", "cycles",
            "the printed sum contradicts its own terms, 2 x 4 + 2 x 16 = 40; 72 needs multiplications of 32 cycles"),
        Row("global access, not coalesced", single, "500", "cycles", given=True),
        Row("largest gain by coalescing", single / full, "16", "times",
            "500 / (516/16) = 15.5: the paper rounds, or neglects the k in 500 + k"),
        Row("shared access, no conflict", memory(Access(1.0, space="shared")), "4", "cycles", given=True),
        Row("barrier inside a kernel", _barrier_cycles(), "4", "cycles",
            "not used: §3.1 leaves synchronisation inside a kernel out", given=True),
    ]  # fmt: skip
    k = np.arange(1, 17)
    shared = [memory(Access(1.0, threads_per_transaction=int(i))) for i in k]
    conflict = [memory(Access(1.0, space="shared", conflict_degree=int(i))) for i in k]
    for what, cycles, note in (
        ("global access, transaction shared by {} threads", shared, "(500 + k)/k"),
        ("shared access, {}-way conflict", conflict, "4k"),
    ):
        rows += [Row(what.format(i), cycles[i - 1], None, "cycles", note) for i in (2, 4, 8, 16)]
    for n in (16, 32):
        expected = expected_conflict(n, n)
        cycles_each = memory(Access(1.0, space="shared", conflict_degree=expected))
        what, note = f"random shared access, {n} threads on {n} banks", f"{expected:.2f} in one bank on average"
        rows.append(Row(what, cycles_each, None, "cycles", note))
    plots = [
        Plot("Global access", "threads that share a transaction", "cycles per access", [line("ours", k, shared)],
             log_y=True),
        Plot("Shared access: contention functions", "threads in contention, k", "cycles per access", [
            line("QRQW, f(k) = k: the paper's", k, conflict),
            line("concurrent accesses free (CRCW), f(k) = 1", k, [conflict[0]] * len(k)),
        ]),
    ]  # fmt: skip
    notes = [
        "Below two threads per transaction the access is not coalesced: 500 cycles, not (500 + 1)/1.",
        "A bank conflict is the QRQW PRAM's contention with a linear function, f(k) = k (§3.2.2, A.3); exclusive "
        "accesses (EREW) would have f(k) infinite from two threads on. Random accesses have the expected largest k.",
    ]
    return Item(
        "kothapalli-operation-costs", "Costs of operations and accesses", f"{PAPER} §3.2, §3.5", rows, plots, notes
    )


def expected_conflict(threads: int, banks: int) -> float:
    """Return the expected largest number of threads in one bank, if each takes one at random (§3.2.2).

    The largest is at most m in threads! [x^threads] (sum over j <= m of x^j / j!)^banks of the banks^threads cases.
    """
    at_most = []
    for m in range(1, threads + 1):
        one = np.array([1 / math.factorial(j) if j <= m else 0.0 for j in range(threads + 1)])
        cases = np.ones(1)
        for _ in range(banks):
            cases = np.convolve(cases, one)[: threads + 1]
        at_most.append(float(cases[threads]) * math.factorial(threads) / float(banks) ** threads)
    return threads - sum(at_most[:-1])


def _on_h200(names: Mapping[int, str]) -> tuple[list[Series], dict[str, list[float]]]:
    """Return measured and predicted times of launches in ms, as series over a number each, and as lists."""
    known, h200 = {launch.name: launch for launch in launches()}, load_machine("h200")
    found: dict[str, list[float]] = {"measured": [], "MAX": [], "SUM": []}
    for name in names.values():
        found["measured"].append(1e3 * known[name].seconds)
        for said, model in (("MAX", MAX), ("SUM", SUM)):
            found[said].append(1e3 * float(predict(known[name].workload, h200, model).seconds or math.nan))
    series = [
        line(f"H200, {said}", list(names), ms, "points" if said == "measured" else "line") for said, ms in found.items()
    ]
    return series, found


def _over_measured(what: str, found: Mapping[str, list[float]], labels: Sequence[str]) -> list[Row]:
    """Return rows: the MAX model's time over the measured one, per launch."""
    return [
        Row(
            f"H200, {what}{label}: MAX over measured",
            ours / real,
            None,
            "",
            f"{real:.4g} ms measured, {ours:.4g} predicted",
        )
        for label, ours, real in zip(labels, found["MAX"], found["measured"], strict=True)
    ]


def figure_3() -> Item:
    """Figure 3: experiment 1 against the stride, experiment 2 against bank conflicts."""
    stride = np.arange(1.0, 33.0)
    first = load_workload("kothapalli-experiment-1")
    served = np.minimum(16.0, stride)
    first = first.with_values(accesses=[replace(a, threads_per_transaction=served) for a in first.accesses])
    one = {model: np.asarray(_ms(first, model)) for model in (MAX, SUM)}
    bank = np.arange(0.0, 17.0)
    second = load_workload("kothapalli-experiment-2").with_values(given=Given(16 * 64000.0, 4 * bank * 64000))
    two = {model: np.asarray(_ms(second, model)) for model in (MAX, SUM)}
    rows = [
        Row("experiment 1: stride 1 over stride 32, MAX", float(one[MAX][0] / one[MAX][-1]), None, "times"),
        Row("experiment 1: time at stride 1, MAX", float(one[MAX][0]), None, "ms"),
        Row("experiment 1: time at stride 32, MAX", float(one[MAX][-1]), None, "ms"),
        Row("experiment 2: 16 conflicts over none, MAX", float(two[MAX][-1] / two[MAX][0]), None, "times"),
        Row("experiment 2: time per further conflict, SUM", float(two[SUM][1] - two[SUM][0]), None, "ms", "linear"),
        Row("experiment 2: conflicts up to which computation hides them, MAX",
            float(bank[two[MAX] <= two[MAX][0]].max()), None, "", "16 cycles of computation over 4 per access"),
    ]  # fmt: skip
    strides = {n: f"stride.stride{n}" for n in (1, 2, 4, 8, 16)} | {32: "stride"}
    banks = {0: "bank.bank0", 1: "bank"} | {n: f"bank.bank{n}" for n in range(2, 17)}
    (real_a, found_a), (real_b, found_b) = _on_h200(strides), _on_h200(banks)
    rows += _over_measured("experiment 1, stride ", found_a, [str(n) for n in strides])
    few = {label: [ms[n] for n in (1, 2, 4, 8, 16)] for label, ms in found_b.items()}
    rows += _over_measured("experiment 2, bank ", few, ["1", "2", "4", "8", "16"])
    plots = [
        Plot("(a) coalescing", "stride", "ms", [line("MAX", stride, one[MAX]), line("SUM", stride, one[SUM])]),
        Plot("(b) bank conflicts", "bank", "ms", [line("MAX", bank, two[MAX]), line("SUM", bank, two[SUM])]),
        Plot("(a) on an H200", "stride", "ms", real_a, log_y=True),
        Plot("(b) on an H200", "bank", "ms", real_b),
    ]
    notes = [
        "A stride of s lets min(16, s) threads of a half-warp share a transaction.",
        "Elements per thread, grid and block are not printed: 1024, 30 and 512 (assumed).",
        "Index computation and loop overhead are not counted; the paper has computation and memory about equal at "
        "large strides.",
        "The paper calls (b) linear: SUM is, MAX is flat up to the point where memory takes over.",
        "On an H200 with 32 banks a step of `bank` words conflicts as its greatest common divisor with 32 says, odd "
        "ones not at all: measured times rise only there, and so do the models', by counted conflicts.",
    ]
    return Item("kothapalli-figure-3", "Figure 3: coalescing and bank conflicts", f"{PAPER} §4", rows, plots, notes)


def _matmul(n: Number) -> Workload:
    """§5.1: matrix multiplication of N x N."""
    return Workload(name="matmul", launch=Launch(n * n / 256, 256), given=Given(760 * n / 16, 240 * n / 16))


def _list_ranking(n: Number) -> Workload:
    """§5.2: local ranking of a list of N elements."""
    log = np.log2(n)
    return Workload(
        name="list ranking", launch=Launch(np.ceil(n / log / 512), 512), given=Given(0.0 * n, 4 * log * 3 * 500)
    )


def figure_4() -> Item:
    """Figure 4: matrix multiplication and list ranking."""
    n, size = np.exp2(np.arange(6.0, 12.0)), np.exp2(np.arange(18.0, 23.0))
    exact = n**2 / (256 * 30) * 8 * 32 * 760 * n / 16 / (32 * 1.3e9) * 1e3
    times = {model: np.asarray(_ms(_matmul(n), model)) for model in (MAX, SUM)}
    ranking = np.asarray(_ms(_list_ranking(size), MAX))
    whole = times[MAX][1]
    wrong = f"the formula gives {exact[1]:.3f} ms, {whole:.5f} in whole blocks; 100 times that is {100 * whole:.1f}"
    rows = [
        Row("matrix multiplication, N = 128: formula as printed", float(exact[1]), "11", "ms", wrong),
        Row("matrix multiplication, N = 128: blocks per SM rounded up", float(times[MAX][1]), "11", "ms", wrong),
        Row("matrix multiplication, N = 128: measured", float(times[MAX][1]), "16", "ms", wrong, measured=True),
        Row("matrix multiplication, N = 2048: MAX", float(times[MAX][-1]), None, "ms"),
        Row("matrix multiplication, N = 2048: SUM", float(times[SUM][-1]), None, "ms"),
        Row("list ranking, N = 2^22", float(ranking[-1]), "21.0", "ms", "whole blocks; the paper writes about 21.0"),
        Row("list ranking, N = 2^22: measured", float(ranking[-1]), "24", "ms", measured=True),
        Row(
            "matrix multiplication: two barriers per tile over C_T",
            2 * _barrier_cycles() / 760,
            None,
            "",
            "what the model leaves out (§3.1); the paper explains its deviation with it",
        ),
    ]
    (real_a, found_a), (real_b, found_b) = (
        _on_h200(names) for names in ({1024: "matmul_tiled16", 2000: "matmul_tiled16.n2000"}, {2**22: "list_ranking"})
    )
    rows += _over_measured("matrix multiplication, N = ", found_a, ["1024", "2000"])
    rows += _over_measured("list ranking, N = 2^22", found_b, [""])
    plots = [
        Plot("(a) matrix multiplication", "N", "ms", [
            line("MAX", n, times[MAX]), line("SUM", n, times[SUM]), line("MAX, blocks not rounded up", n, exact),
            line("printed, N = 128", [128], [11], "points"), line("measured, N = 128", [128], [16], "points"), *real_a,
        ], log_x=True, log_y=True),
        Plot("(b) list ranking", "N", "ms", [
            line("MAX", size, ranking), line("printed, N = 2^22", [2**22], [21.0], "points"),
            line("measured, N = 2^22", [2**22], [24], "points"),
            *(Series(x.name, x.x, x.y, "points") for x in real_b),
        ], log_x=True),
    ]  # fmt: skip
    notes = [
        "List ranking: N / log2 N threads in blocks of 512, 4 log2 N elements each, 3 accesses of 500 cycles.",
        "The model has no latency of dependent loads: on the H200 list ranking takes twice as long as it says.",
    ]
    title = "Figure 4: matrix multiplication and list ranking"
    return Item("kothapalli-figure-4", title, f"{PAPER} §5.1-5.2", rows, plots, notes)


def figure_5() -> Item:
    """Figure 5: histogram generation."""
    workload = load_workload("kothapalli-histogram")
    assert workload.launch is not None
    size = np.exp2(np.arange(18.0, 25.0))
    swept = workload.with_values(iterations=size / (workload.launch.blocks * workload.launch.threads_per_block))
    times = {model: np.asarray(_ms(swept, model)) for model in (MAX, SUM)}
    rows = [
        Row(f"N = 2^{p}: {label}", float(times[model][p - 18]), None, "ms")
        for p in (18, 20, 22, 24)
        for label, model in (("MAX", MAX), ("SUM", SUM))
    ]
    real, found = _on_h200({2**25: "histogram"})
    rows += _over_measured("N = 2^25", found, [""])
    plot = Plot(
        "Histogram", "elements", "ms", [line("MAX", size, times[MAX]), line("SUM", size, times[SUM]),
        *(Series(x.name, x.x, x.y, "points") for x in real)], log_x=True, log_y=True,
    )  # fmt: skip
    notes = ["The paper prints no counts and no time for this case study.", *workload.notes]
    return Item("kothapalli-figure-5", "Figure 5: histogram generation", f"{PAPER} §5.3", rows, [plot], notes)


ITEMS = (operation_costs, figure_3, figure_4, figure_5)
