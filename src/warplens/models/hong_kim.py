"""Hong & Kim 2009 (MWP-CWP): how many warps wait for memory at once, how many compute meanwhile.

All terms of Equations (1) to (31) under their names. (29) is applied only where some requests are
independent, and N_pw is never below N; M_factor (31) weighs slow arithmetic; divergent paths are all
executed (§6.3), which the workload counts in `divergent`. A machine without a [hong_kim] section is read
as Volkov §7.1 does: Mem_LD is its memory latency, Issue_cycles its CUDA cores' rate, and departure delays
are the latency of a further transaction where known and no limit where not.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from warplens.kernel import Number, Workload
from warplens.machine import Machine
from warplens.models.bounds import arithmetic_ipc, memory_latency
from warplens.models.prediction import Prediction, Term, answer
from warplens.models.residency import Residency

NAME = "hong-kim"


class Parameters(Struct, frozen=True):
    """Table 1's machine parameters for one GPU."""

    mem_ld: float
    departure_del_coal: float
    departure_del_uncoal: float
    issue_cycles: float
    freq: float
    mem_bandwidth: float
    m_factor: dict[str, float]


def parameters(machine: Machine) -> Parameters:
    """Read the parameters from the [hong_kim] section, or from the general ones."""
    own = machine.hong_kim
    pins = machine.memory.pin_bytes_per_second or machine.dram_bytes_per_second(model=NAME)
    if own is None:
        extra = machine.memory.extra_transaction_cycles or 0.0
        issue = 1 / arithmetic_ipc(machine, NAME)
        return Parameters(memory_latency(machine, NAME), 0.0, extra, issue, machine.chip.clock_hz, pins, {})
    slow = {
        "fdiv": own.fdiv_factor,
        "imul": own.imul_factor,
        "idiv": own.idiv_factor,
        "imod": own.imod_factor,
    }
    return Parameters(
        own.mem_ld_cycles,
        own.departure_del_coal_cycles,
        own.departure_del_uncoal_cycles,
        own.issue_cycles,
        own.clock_hz or machine.chip.clock_hz,
        pins,
        {kind: factor for kind, factor in slow.items() if factor is not None},
    )


def predict(workload: Workload, machine: Machine, residency: Residency) -> Prediction:
    """Predict the execution cycles by Equations (5) to (31)."""
    p = parameters(machine)
    n, sms = residency.warps_per_sm, residency.active_sms
    uncoal, coal = workload.memory_instructions(coalesced=False), workload.memory_instructions(coalesced=True)
    mem_insts = uncoal + coal
    counts = workload.executed()
    total_insts = sum(counts.values(), start=0.0)
    comp_cycles = p.issue_cycles * sum(
        (count * p.m_factor.get(kind, 1.0) for kind, count in counts.items()), start=0.0
    )  # (19), (31)
    has_memory = np.greater(mem_insts, 0)
    safe_mem = np.where(has_memory, mem_insts, 1.0)

    uncoal_per_mw = _mean_transactions(workload, coalesced=False)
    load_bytes = _mean_bytes(workload)
    mem_l_uncoal = p.mem_ld + (uncoal_per_mw - 1) * p.departure_del_uncoal  # (10)
    mem_l_coal = p.mem_ld  # (11)
    weight_uncoal, weight_coal = uncoal / safe_mem, coal / safe_mem  # (13), (14)
    mem_l = np.where(has_memory, mem_l_uncoal * weight_uncoal + mem_l_coal * weight_coal, p.mem_ld)  # (12)
    departure = p.departure_del_uncoal * uncoal_per_mw * weight_uncoal + p.departure_del_coal * weight_coal  # (15)
    with np.errstate(divide="ignore"):
        mwp_full = np.where(np.greater(departure, 0), mem_l / np.where(departure > 0, departure, 1.0), np.inf)  # (16)
    bw_per_warp = p.freq * load_bytes / mem_l  # (7)
    mwp_peak_bw = p.mem_bandwidth / (bw_per_warp * sms)  # (6)
    n_pw = _parallel_warps(workload, n, mem_insts)  # (29)
    mwp_without_bw = np.minimum(mwp_full, np.maximum(n, n_pw))  # (17)
    mwp = np.maximum(1.0, np.minimum(np.minimum(mwp_without_bw, mwp_peak_bw), n_pw))  # (5), (30)

    mem_cycles = mem_l_uncoal * uncoal + mem_l_coal * coal  # (18)
    cwp_full = (mem_cycles + comp_cycles) / comp_cycles  # (8)
    cwp = np.minimum(cwp_full, n)  # (9)
    rep = residency.warps_on_sm / n  # (21): blocks / (active blocks per SM x active SMs)
    # The edge terms do not repeat with the body: in steady state they vanish (Volkov §7.1).
    edge = 0.0 if workload.steady else comp_cycles / safe_mem * (mwp - 1)
    last = 0.0 if workload.steady else mem_l
    few = (mwp >= n) & (cwp >= n)
    memory_bound = ~few & ((cwp >= mwp) | (comp_cycles > mem_cycles)) & has_memory
    cycles = np.select(
        [np.broadcast_to(x, np.broadcast_shapes(np.shape(few), np.shape(mem_cycles))) for x in
         (~has_memory & np.ones_like(few), few, memory_bound)],
        [comp_cycles * n * rep, (mem_cycles + comp_cycles + edge) * rep, (mem_cycles * n / mwp + edge) * rep],
        (last + comp_cycles * n) * rep,
    )  # no memory; (22); (23); (24)  # fmt: skip
    npwb = np.minimum(mwp, residency.warps_per_block)  # (27)
    synch = workload.barriers * workload.iterations
    synch_cost = departure * np.maximum(npwb - 1, 0.0) * synch * residency.blocks_per_sm * rep  # (26)
    total = cycles + synch_cost  # (28)
    cpi = cycles / (total_insts * residency.warps_on_sm)  # (25)
    terms = {
        "Mem_LD": Term(p.mem_ld, "cycles", "Table 6"),
        "#Active_warps_per_SM (N)": Term(n, "warps", "(20)"),
        "#Mem_insts": Term(mem_insts, "", "Table 1"),
        "#Total_insts": Term(total_insts, "", "Table 1"),
        "Departure_delay": Term(departure, "cycles", "(15)"),
        "Mem_L": Term(mem_l, "cycles", "(10)-(12)"),
        "MWP_Without_BW_full": Term(mwp_full, "warps", "(16)"),
        "BW_per_warp": Term(bw_per_warp, "B/s", "(7)"),
        "MWP_peak_BW": Term(mwp_peak_bw, "warps", "(6)"),
        "N_pw": Term(n_pw, "warps", "(29)"),
        "MWP": Term(mwp, "warps", "(5), (30)"),
        "Comp_cycles": Term(comp_cycles, "cycles", "(19), (31)"),
        "Mem_cycles": Term(mem_cycles, "cycles", "(18)"),
        "CWP_full": Term(cwp_full, "warps", "(8)"),
        "CWP": Term(cwp, "warps", "(9)"),
        "#Rep": Term(rep, "", "(21)"),
        "Exec_cycles_app": Term(cycles, "cycles", "(22)-(24)"),
        "Synch_cost": Term(synch_cost, "cycles", "(26), (27)"),
        "Exec_cycles_with_synch": Term(total, "cycles", "(28)"),
        "CPI": Term(cpi, "cycles", "(25)"),
    }
    bounds = {"latency": few & has_memory, "dram bandwidth": memory_bound, "computation": True}
    return answer(
        NAME, workload, machine, residency, cycles=total, bounds=bounds, terms=terms, clock_hz=p.freq,
        needed=np.where(has_memory, np.minimum(cwp_full, np.minimum(mwp_full, mwp_peak_bw)), np.nan),
    )  # fmt: skip


def _parallel_warps(workload: Workload, n: Number, mem_insts: Number) -> Number:
    """Return N_pw (29): more warps' worth of requests where requests of one warp are independent."""
    independent = sum((a.independent * workload.iterations for a in workload.accesses), start=0.0)
    dependent = mem_insts - independent
    with np.errstate(divide="ignore", invalid="ignore"):
        more = np.where(np.greater(independent, 0), n * independent / np.maximum(dependent, 1e-300), n)
    return np.maximum(n, more)


def _mean_transactions(workload: Workload, *, coalesced: bool) -> Number:
    """Return #Uncoal_per_mw: transactions per access, averaged over the accesses of this kind."""
    chosen = [a for a in workload.accesses if a.space in ("global", "local") and a.coalesced is coalesced]
    if not chosen:
        return 1.0
    count = sum((a.count for a in chosen), start=0.0)
    return sum((a.count * a.transactions for a in chosen), start=0.0) / np.maximum(count, 1e-300)


def _mean_bytes(workload: Workload) -> Number:
    """Return Load_bytes_per_warp: useful bytes of one access, 128 where there is none."""
    chosen = [a for a in workload.accesses if a.space in ("global", "local")]
    count = sum((a.count for a in chosen), start=0.0)
    moved = sum((a.count * a.bytes_per_thread * 32 for a in chosen), start=0.0)
    return np.where(np.greater(count, 0), moved / np.maximum(count, 1e-300), 128.0) if chosen else 128.0
