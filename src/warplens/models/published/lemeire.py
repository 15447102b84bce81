"""Lemeire et al. 2017, Equation (1): a pipeline with an issue latency l and a completion latency L.

    W <= L/l:  t = N L + (W - 1) l          W >  L/l:  t = L + (N W - 1) l

for W warps of N dependent instructions; the two cases are one maximum. For several kinds of instructions,
and this goes beyond the paper (which simulates them), a warp's chain takes the sum of its completion
latencies (independent ones overlap but for their issue), and the busiest pipeline, the issue of all
instructions being one, serves all warps one after the other. An SM executes ceil(blocks / SMs) blocks.
"""

from __future__ import annotations

import numpy as np

from warplens.machine import KINDS, Machine
from warplens.models.bounds import Residency
from warplens.models.prediction import Prediction, Term, answer
from warplens.workload import Number, Workload

NAME = "lemeire"
_OPERATION = {"fp32": "fadd", "int": "fadd", "imul": "fmadd", "sfu": "cos", "shared": "local_memory",
              "load": "memory", "store": "memory", "barrier": "barrier"}  # fmt: skip


def latencies(kind: str, machine: Machine) -> tuple[float, float]:
    """Return (issue, completion) latency in cycles, of Tables II and III or from the general timing."""
    own = machine.lemeire.get(_OPERATION.get(kind, ""))
    if own is not None and not (kind in ("int", "imul") and kind in machine.instructions):  # the papers' GPUs have none
        return own.issue_cycles, own.completion_cycles
    if KINDS[kind] == "issue":
        return 1 / machine.issue_ipc(), machine.sm.ilp_latency_cycles or machine.sm.issue_interval_cycles
    completion = machine.latency_cycles(kind, model=NAME)
    if kind in ("load", "store"):
        return 128.0 / machine.dram_bytes_per_cycle(model=NAME), completion
    return 1 / min(machine.peak_ipc(kind, model=NAME), machine.issue_ipc()), completion


def equation_1(issue: Number, completion: Number, instructions: Number, warps: Number) -> Number:
    """Return the cycles for `warps` warps of `instructions` dependent instructions in one pipeline."""
    return np.where(
        np.asarray(warps) <= completion / issue,
        instructions * completion + (warps - 1) * issue,
        completion + (instructions * warps - 1) * issue,
    )


def predict(workload: Workload, machine: Machine, residency: Residency) -> Prediction:
    """Predict with the closed form, round after round of resident blocks."""
    n = residency.warps_per_sm
    chain: Number = 0.0
    busy: dict[str, Number] = {}
    slowest: Number = 0.0
    for kind, count in workload.executed().items():
        issue, completion = latencies(kind, machine)
        transactions = _transactions(workload) if kind in ("load", "store") else 1.0
        stalls = count / (workload.mlp if kind == "load" else workload.ilp)
        # a store's result is not waited for: only its issue counts (Figure 1)
        waits = 0.0 if kind in ("store", "exit") else stalls
        chain = chain + waits * completion + (count - waits) * issue
        pipe = KINDS[kind]
        busy[pipe] = busy.get(pipe, 0.0) + count * issue * transactions
    busy["issue"] = busy.get("issue", 0.0) + workload.total(lambda kind: KINDS[kind] != "issue") / machine.issue_ipc()
    for cycles in busy.values():
        slowest = np.maximum(slowest, cycles)
    kinds = list(workload.executed())
    launch = workload.launch
    on_sm = 1.0 if launch is None else np.ceil(launch.blocks / machine.chip.sm_count) * launch.warps_per_block
    rounds = on_sm / n
    if workload.steady:
        per_round: Number = np.maximum(chain, n * slowest)
    else:
        first = chain + (n - 1) * slowest / np.maximum(workload.total(), 1.0)
        per_round = np.maximum(first, n * slowest)
    cycles = per_round * rounds
    if len(kinds) == 1 and not workload.steady:
        issue, completion = latencies(kinds[0], machine)
        cycles = equation_1(issue, completion, workload.total() / workload.ilp, n * workload.ilp) * rounds
    return answer(
        NAME,
        workload,
        machine,
        residency,
        cycles=cycles,
        bounds={"latency": chain > n * slowest, "pipeline": True},
        limits={
            "latency": chain * rounds,
            **{f"{pipe} pipeline": n * c * rounds for pipe, c in busy.items()},
        },
        needed=chain / np.maximum(slowest, 1e-300),
        terms={
            "W": Term(n, "warps", "(1)"),
            "N": Term(workload.total(), "", "(1)"),
            **{f"l {kind}": Term(latencies(kind, machine)[0], "cycles", "Tables II, III") for kind in kinds},
            **{f"L {kind}": Term(latencies(kind, machine)[1], "cycles", "Tables II, III") for kind in kinds},
            "sum of N L": Term(chain, "cycles", "(1)"),
            "largest N l": Term(slowest, "cycles", "(1)"),
            "t": Term(cycles, "cycles", "(1)"),
        },
    )


def _transactions(workload: Workload) -> Number:
    rows = [a for a in workload.accesses if a.space in ("global", "local")]
    count = sum((a.count for a in rows), start=0.0)
    moved = sum((a.dram_bytes for a in rows), start=0.0)
    return moved / 128.0 / np.maximum(count, 1e-300) if rows else 1.0
