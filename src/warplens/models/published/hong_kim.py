"""Hong & Kim 2009 (MWP-CWP): how many warps wait for memory at once, how many compute meanwhile.

All terms of Equations (5) to (31) under their names. Decisions where the paper leaves room:
- (29) is applied only where some requests are independent, and N_pw is never below N; it takes the place of
  N also in (17), which would make (30) idle.
- The printed condition before (23) sends kernels with Comp_cycles > Mem_cycles there, which contradicts the
  paper's own Case 5 (§3.2.2) and exceeds the processor's peak; they go to (24) here, as in Volkov §7.1.
  `hong-kim-as-printed` keeps the letter.
- In machine code the requests that issue while an earlier one of the warp is in flight are independent.
- M_factor (31) weighs slow arithmetic by the classes that the [hong_kim] section names; in machine code a division is
  the sequence that it is. Divergent paths are all executed (§6.3).
What the [hong_kim] section does not give is read as in Volkov §7.1: Mem_LD is the memory latency, Issue_cycles the CUDA
cores' rate; without departure delays coalesced loads have no limit by them, uncoalesced ones that of a further
transaction's latency. A kernel with barriers, or with uncoalesced accesses where that is not known, has no answer.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from warplens.machine import KINDS, Machine
from warplens.machine.papers import HongKim
from warplens.models.bounds import Residency, arithmetic_ipc, memory_latency
from warplens.models.prediction import Prediction, Term, answer
from warplens.program.static_analysis import independent_loads
from warplens.workload import Number, Workload

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
    """Read the parameters from the [hong_kim] section; those that it does not give from the general ones."""
    own = machine.hong_kim or HongKim()
    return Parameters(
        mem_ld=own.mem_ld_cycles or memory_latency(machine, NAME),
        departure_del_coal=own.departure_del_coal_cycles or 0.0,
        departure_del_uncoal=own.departure_del_uncoal_cycles or machine.memory.extra_transaction_cycles or 0.0,
        issue_cycles=own.issue_cycles or 1 / arithmetic_ipc(machine, NAME),
        freq=own.clock_hz or machine.chip.clock_hz,
        mem_bandwidth=machine.memory.pin_bytes_per_second or machine.dram_bytes_per_second(model=NAME),
        m_factor={kind: factor for kind in KINDS if (factor := getattr(own, f"{kind}_factor", None)) is not None},
    )


class Parallelism(Struct, frozen=True):
    """The memory side: latency and departure of a memory warp, and how many of them overlap."""

    uncoal: Number
    coal: Number
    mem_insts: Number
    mem_l_uncoal: Number
    mem_l: Number
    departure: Number
    mwp_full: Number
    bw_per_warp: Number
    mwp_peak_bw: Number
    n_pw: Number
    mwp: Number


def parallelism(workload: Workload, p: Parameters, n: Number, active_sms: Number) -> Parallelism:
    """Return MWP and what leads to it, Equations (5) to (7), (10) to (17), (29) and (30)."""
    uncoal, coal = workload.memory_instructions(coalesced=False), workload.memory_instructions(coalesced=True)
    mem_insts = uncoal + coal
    per_mw = _mean_transactions(workload)
    mem_l_uncoal = p.mem_ld + (per_mw - 1) * p.departure_del_uncoal  # (10), and (11): Mem_L_Coal = Mem_LD
    safe = np.where(np.greater(mem_insts, 0), mem_insts, 1.0)
    weight_uncoal, weight_coal = uncoal / safe, coal / safe  # (13), (14)
    mem_l = np.where(np.greater(mem_insts, 0), mem_l_uncoal * weight_uncoal + p.mem_ld * weight_coal, p.mem_ld)  # (12)
    departure = p.departure_del_uncoal * per_mw * weight_uncoal + p.departure_del_coal * weight_coal  # (15)
    mwp_full = np.where(
        np.greater(departure, 0), mem_l / np.where(np.greater(departure, 0), departure, 1.0), np.inf
    )  # (16)
    bw_per_warp = p.freq * _mean_bytes(workload) / mem_l  # (7)
    mwp_peak_bw = p.mem_bandwidth / (bw_per_warp * active_sms)  # (6)
    n_pw = _parallel_warps(workload, n, mem_insts)  # (29)
    mwp = np.minimum(np.minimum(mwp_full, mwp_peak_bw), n_pw)  # (5), (30)
    return Parallelism(
        uncoal, coal, mem_insts, mem_l_uncoal, mem_l, departure, mwp_full, bw_per_warp, mwp_peak_bw, n_pw, mwp
    )


def predict(workload: Workload, machine: Machine, residency: Residency, *, printed: bool = False) -> Prediction:
    """Predict the execution cycles; `printed` takes the condition before (23) to the letter."""
    model = "hong-kim-as-printed" if printed else NAME
    p, n = parameters(machine), residency.warps_per_sm
    _refuse_lacking(workload, machine, model)
    k = parallelism(workload, p, n, residency.active_sms)
    counts = workload.executed()
    weighted = sum((count * p.m_factor.get(kind, 1.0) for kind, count in counts.items()), start=0.0)
    comp_cycles = p.issue_cycles * weighted  # (19), (31)
    mem_cycles = k.mem_l_uncoal * k.uncoal + p.mem_ld * k.coal  # (18)
    cwp_full = (mem_cycles + comp_cycles) / comp_cycles  # (8)
    cwp = np.minimum(cwp_full, n)  # (9)
    rep = residency.warps_on_sm / n  # (21): blocks / (active blocks per SM x active SMs)
    has_memory = np.greater(k.mem_insts, 0)
    # The edge terms do not repeat with the body: in steady state they vanish (Volkov §7.1).
    edge = 0.0 if workload.steady else comp_cycles / np.where(has_memory, k.mem_insts, 1.0) * np.maximum(k.mwp - 1, 0.0)
    last = 0.0 if workload.steady else k.mem_l
    few = has_memory & (k.mwp >= n) & (cwp >= n)
    by_memory = has_memory & ~few & ((cwp >= k.mwp) | (comp_cycles > mem_cycles if printed else False))
    enough = np.where(
        by_memory,
        mem_cycles * n / k.mwp + edge,  # (23)
        np.where(has_memory, last, 0.0) + comp_cycles * n,  # (24)
    )
    # (22), with (4)'s N / MWP on the memory cycles: 1 unless independent requests make MWP exceed N
    app = np.where(few, mem_cycles * n / k.mwp + comp_cycles + edge, enough) * rep
    npwb = np.minimum(k.mwp, residency.warps_per_block)  # (27)
    synch = workload.barriers * workload.iterations
    synch_cost = k.departure * np.maximum(npwb - 1, 0.0) * synch * residency.blocks_per_sm * rep  # (26)
    total = app + synch_cost  # (28)
    total_insts = workload.total()
    terms = {
        "Mem_LD": Term(p.mem_ld, "cycles", "Table 6"),
        "#Active_warps_per_SM (N)": Term(n, "warps", "(20)"),
        "#Mem_insts": Term(k.mem_insts, "", "Table 1"),
        "#Total_insts": Term(total_insts, "", "Table 1"),
        "Departure_delay": Term(k.departure, "cycles", "(15)"),
        "Mem_L": Term(k.mem_l, "cycles", "(10)-(12)"),
        "MWP_Without_BW_full": Term(k.mwp_full, "warps", "(16)"),
        "BW_per_warp": Term(k.bw_per_warp, "B/s", "(7)"),
        "MWP_peak_BW": Term(k.mwp_peak_bw, "warps", "(6)"),
        "N_pw": Term(k.n_pw, "warps", "(29)"),
        "MWP": Term(k.mwp, "warps", "(5), (30)"),
        "Comp_cycles": Term(comp_cycles, "cycles", "(19), (31)"),
        "Mem_cycles": Term(mem_cycles, "cycles", "(18)"),
        "CWP_full": Term(cwp_full, "warps", "(8)"),
        "CWP": Term(cwp, "warps", "(9)"),
        "#Rep": Term(rep, "", "(21), in whole blocks of the busiest SM"),
        "Exec_cycles_app": Term(app, "cycles", "(22)-(24)"),
        "Synch_cost": Term(synch_cost, "cycles", "(26), (27)"),
        "Exec_cycles_with_synch": Term(total, "cycles", "(28)"),
        "CPI": Term(app / (total_insts * residency.warps_on_sm), "cycles", "(25)"),
    }
    bounds = {"latency": few, "dram bandwidth": by_memory, "computation": True}
    enough_warps = np.minimum(cwp_full, np.minimum(k.mwp_full, k.mwp_peak_bw))
    needed = np.where(has_memory, enough_warps, 1.0)  # without memory accesses one warp keeps the SM busy
    return answer(
        model, workload, machine, residency, cycles=total, bounds=bounds, terms=terms, needed=needed, clock_hz=p.freq
    )


def _refuse_lacking(workload: Workload, machine: Machine, model: str) -> None:
    """Refuse a workload that needs a departure delay which the machine does not give."""
    own, uncoalesced = machine.hong_kim or HongKim(), workload.memory_instructions(coalesced=False)
    known = (own.departure_del_uncoal_cycles, machine.memory.extra_transaction_cycles)
    if known == (None, None) and np.any(uncoalesced):
        raise machine.missing(model, "hong_kim.departure_del_uncoal_cycles")
    coalesced = workload.memory_instructions(coalesced=True)
    if own.departure_del_coal_cycles is None and np.any(workload.barriers * coalesced):
        raise machine.missing(model, "hong_kim.departure_del_coal_cycles")


def _parallel_warps(workload: Workload, n: Number, mem_insts: Number) -> Number:
    """Return N_pw (29): more warps' worth of requests where requests of one warp are independent."""
    independent: Number = sum((a.independent * workload.iterations for a in workload.accesses), start=0.0)
    if profile := workload.profile:  # counted
        requests = sum(profile.counts["requests"][i] for i in independent_loads(workload.code))
        independent = requests / (profile.grid_blocks * profile.warps_per_block)
    dependent = mem_insts - independent
    with np.errstate(divide="ignore", invalid="ignore"):
        more = np.where(np.greater(independent, 0), n * independent / np.maximum(dependent, 1e-300), n)
    return np.maximum(n, more)


def _mean_transactions(workload: Workload) -> Number:
    """Return #Uncoal_per_mw: transactions per uncoalesced access, averaged."""
    chosen = [a for a in workload.accesses if a.space in ("global", "local") and not a.coalesced]
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
