"""Sim et al. 2012 (GPUPerf): computation and memory cost apart, overlapped, and four potential benefits.

Equations (1) to (23) and Appendix A. What the [sim] section does not give is the machine's general number. Without a
departure delay the machine is read as Volkov §7.4 does: peak bandwidth is the best sustained one, and Delta is the
latency of a further transaction (13) but no cap (A.5). Without its own hit latency, (12) has two levels, as the paper
suggests: L1's round trip, and what L2 and DRAM add to it for those that miss. Gamma has no general number: a kernel
with barriers has no answer without it. Our readings: O_CFdiv is the time of the divergent extra instructions, O_bank
the extra shared-memory cycles of bank conflicts; the transaction size of (A.7) is what one request of a warp moves; the
size of data in (19) counts in requests of 128 bytes per SM.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from warplens.machine import Machine
from warplens.machine.papers import Sim
from warplens.models.bounds import Residency, memory_latency
from warplens.models.prediction import Prediction, Term, answer
from warplens.workload import Number, Workload


class Parameters(Struct, frozen=True):
    """Tables 2 and 3's machine parameters for one GPU."""

    fp_lat: float
    dram_lat: float
    delta: float
    capped: bool
    hit_lat: float | None
    gamma: float | None
    simd_width: float
    sfu_width: float
    bandwidth: float


def parameters(machine: Machine, model: str) -> Parameters:
    """Read the parameters from the [sim] section; those that it does not give from the general ones."""
    own, memory, size = machine.sim or Sim(), machine.memory, machine.sm.warp_size
    simd = own.simd_width or min(machine.peak_ipc("fp32", model=model), machine.issue_ipc()) * size
    known = machine.sm.sfu_units or "sfu" in machine.instructions
    capped = own.departure_delay_cycles is not None
    pins = memory.pin_bytes_per_second if capped else None
    return Parameters(
        fp_lat=own.fp_lat_cycles or machine.latency_cycles("fp32", model=model),
        dram_lat=own.dram_lat_cycles or memory_latency(machine, model),
        delta=own.departure_delay_cycles or memory.extra_transaction_cycles or 0.0,
        capped=capped,
        hit_lat=own.hit_lat_cycles,
        gamma=own.gamma,
        simd_width=simd,
        sfu_width=own.sfu_width or (machine.peak_ipc("sfu", model=model) * size if known else simd),
        bandwidth=pins or machine.dram_bytes_per_second(model=model),
    )


class Counts(Struct, frozen=True):
    """Instructions of one warp, and the number of warps of an SM."""

    insts: Number
    sfu_insts: Number
    mem_insts: Number
    extra: Number
    n: Number
    warps: Number
    avg_dram_lat: Number


class Computation(Struct, frozen=True):
    """Equations (2) to (10)."""

    itilp_max: Number
    itilp: Number
    w_parallel: Number
    o_sync: Number
    o_sfu: Number
    o_cfdiv: Number
    o_bank: Number
    w_serial: Number
    t_comp: Number


class MemoryCost(Struct, frozen=True):
    """Equations (11) to (15) and Appendix A."""

    amat: Number
    cwp: Number
    bw_per_warp: Number
    mwp_peak_bw: Number
    cap: Number
    mwp: Number
    mwp_cp: Number
    itmlp: Number
    t_mem: Number


def computation(workload: Workload, p: Parameters, k: Counts, size: float) -> Computation:
    """Return the computation cost: parallel work and what is serialised."""
    itilp_max = p.fp_lat / (size / p.simd_width)  # (5)
    itilp = np.minimum(workload.ilp * k.n, itilp_max)  # (4)
    w_parallel = (k.insts - k.extra) * k.warps * p.fp_lat / itilp  # (3)
    f_sync = (p.gamma or 0.0) * k.avg_dram_lat * k.mem_insts / k.insts  # (8)
    o_sync = workload.barriers * workload.iterations * k.warps * f_sync  # (7)
    f_sfu = np.clip(k.sfu_insts / k.insts - p.sfu_width / p.simd_width, 0.0, 1.0)  # (10)
    o_sfu = k.sfu_insts * k.warps * size / p.sfu_width * f_sfu  # (9)
    o_cfdiv = k.extra * k.warps * p.fp_lat / itilp
    o_bank = _bank_cycles(workload) * k.warps * size / p.simd_width
    w_serial = o_sync + o_sfu + o_cfdiv + o_bank  # (6)
    return Computation(itilp_max, itilp, w_parallel, o_sync, o_sfu, o_cfdiv, o_bank, w_serial, w_parallel + w_serial)


def memory_cost(
    workload: Workload, machine: Machine, p: Parameters, k: Counts, itilp: Number, active_sms: Number, departure: bool
) -> MemoryCost:
    """Return the memory cost: requests over how many of them overlap."""
    amat = _access_time(workload, machine, p, k.avg_dram_lat)
    mem_cycles = k.mem_insts * amat / workload.mlp  # (A.4)
    comp_cycles = k.insts * p.fp_lat / itilp  # (A.3)
    cwp = np.minimum((mem_cycles + comp_cycles) / comp_cycles, k.n)  # (A.1), (A.2)
    bw_per_warp = machine.chip.clock_hz * _request_bytes(workload) / k.avg_dram_lat  # (A.7)
    mwp_peak_bw = p.bandwidth / (bw_per_warp * active_sms)  # (A.6)
    cap = k.avg_dram_lat / p.delta if departure and p.capped and p.delta else np.inf
    mwp = np.minimum(np.minimum(cap, mwp_peak_bw), k.n)  # (A.5)
    mwp_cp = np.minimum(np.maximum(1.0, cwp - 1), mwp)  # (15)
    itmlp = np.minimum(workload.mlp * mwp_cp, mwp_peak_bw)  # (14)
    t_mem = k.mem_insts * k.warps / itmlp * amat  # (11)
    return MemoryCost(amat, cwp, bw_per_warp, mwp_peak_bw, cap, mwp, mwp_cp, itmlp, t_mem)


def predict(workload: Workload, machine: Machine, residency: Residency, *, departure: bool = True) -> Prediction:
    """Predict T_exec and the benefits; `departure=False` drops the cap that Delta puts on MWP."""
    model = "sim2012" if departure else "sim2012-no-departure"
    p = parameters(machine, model)
    if p.gamma is None and np.any(workload.barriers * workload.memory_instructions()):
        raise machine.missing(model, "sim.gamma")
    counts = workload.executed()
    sfu_insts = counts.get("sfu", 0.0)
    k = Counts(
        insts=sum(counts.values(), start=0.0) - sfu_insts,
        sfu_insts=sfu_insts,
        mem_insts=workload.memory_instructions(),
        extra=sum(workload.divergent.values(), start=0.0) * workload.iterations,
        n=residency.warps_per_sm,
        warps=residency.warps_per_sm if workload.steady else residency.warps_on_sm,  # #total_warps / #active_SMs
        avg_dram_lat=p.dram_lat + (_transactions(workload) - 1) * p.delta,  # (13)
    )
    c = computation(workload, p, k, machine.sm.warp_size)
    m = memory_cost(workload, machine, p, k, c.itilp, residency.active_sms, departure)
    zeta = np.where(m.cwp <= m.mwp, 1.0, 0.0)  # (17)
    t_overlap = np.minimum(c.t_comp * (k.n - zeta) / k.n, m.t_mem)  # (16)
    t_exec = c.t_comp + m.t_mem - t_overlap  # (1)
    per_warp = residency.warps_on_sm / k.warps
    return answer(
        model,
        workload,
        machine,
        residency,
        cycles=t_exec * per_warp,
        bounds={"memory": m.t_mem > c.t_comp, "serialization": c.w_serial > c.w_parallel, "computation": True},
        limits={"computation": c.t_comp * per_warp, "memory": m.t_mem * per_warp},
        terms={
            **_terms(k, c, m),
            "F_overlap": Term((k.n - zeta) / k.n, "", "(17)"),
            "T_overlap": Term(t_overlap, "cycles", "(16), (17)"),
            "T'_mem": Term(m.t_mem - t_overlap, "cycles", "Table 1"),
            "T_exec": Term(t_exec, "cycles", "(1)"),
            **_benefits(workload, p, k, c, m, t_overlap),
        },
    )


def _terms(k: Counts, c: Computation, m: MemoryCost) -> dict[str, Term]:
    return {
        "N": Term(k.n, "warps", "(4)"),
        "ITILP_max": Term(c.itilp_max, "", "(5)"),
        "ITILP": Term(c.itilp, "", "(4)"),
        "W_parallel": Term(c.w_parallel, "cycles", "(3)"),
        "O_sync": Term(c.o_sync, "cycles", "(7), (8)"),
        "O_SFU": Term(c.o_sfu, "cycles", "(9), (10)"),
        "O_CFdiv": Term(c.o_cfdiv, "cycles", "(6)"),
        "O_bank": Term(c.o_bank, "cycles", "(6)"),
        "W_serial": Term(c.w_serial, "cycles", "(6)"),
        "T_comp": Term(c.t_comp, "cycles", "(2)"),
        "avg_DRAM_lat": Term(k.avg_dram_lat, "cycles", "(13)"),
        "AMAT": Term(m.amat, "cycles", "(12)"),
        "CWP": Term(m.cwp, "warps", "(A.1)"),
        "BW_per_warp": Term(m.bw_per_warp, "B/s", "(A.7)"),
        "MWP_peak_bw": Term(m.mwp_peak_bw, "warps", "(A.6)"),
        "avg_DRAM_lat / Delta": Term(m.cap, "warps", "(A.5)"),
        "MWP": Term(m.mwp, "warps", "(A.5)"),
        "MWP_cp": Term(m.mwp_cp, "warps", "(15)"),
        "ITMLP": Term(m.itmlp, "", "(14)"),
        "T_mem": Term(m.t_mem, "cycles", "(11)"),
    }


def _benefits(
    workload: Workload, p: Parameters, k: Counts, c: Computation, m: MemoryCost, t_overlap: Number
) -> dict[str, Term]:
    """Return the ideal costs and the four potential benefits, Equations (18) to (23)."""
    essential, counts = workload.essential, workload.executed()
    fp = counts.get("fp32", 0.0) + counts.get("fp64", 0.0)
    if essential.fp_instructions is not None:
        fp = essential.fp_instructions
    t_fp = fp * k.warps * p.fp_lat / c.itilp  # (18)
    per_warp = workload.dram_bytes()
    if essential.data_bytes is not None:
        per_warp = essential.data_bytes / workload.total_warps
    requests = per_warp / _request_bytes(workload)  # of the size that MWP_peak_bw is for
    t_mem_min = requests * k.warps * k.avg_dram_lat / m.mwp_peak_bw  # (19)
    b_itilp = c.w_parallel * (1 - c.itilp / c.itilp_max)  # (20): the same instructions at ITILP_max
    b_fp = c.t_comp - t_fp - b_itilp - c.w_serial  # (22)
    b_memlp = np.maximum(m.t_mem - t_overlap - t_mem_min, 0.0)  # (23)
    return {
        "T_fp": Term(t_fp, "cycles", "(18)"),
        "T_mem_min": Term(t_mem_min, "cycles", "(19)"),
        "B_itilp": Term(b_itilp, "cycles", "(20)"),
        "B_serial": Term(c.w_serial, "cycles", "(21)"),
        "B_fp": Term(b_fp, "cycles", "(22)"),
        "B_memlp": Term(b_memlp, "cycles", "(23)"),
    }


def _bank_cycles(workload: Workload) -> Number:
    shared = [a for a in workload.accesses if a.space == "shared"]
    return sum((a.count * (a.conflict_degree - 1) * workload.iterations for a in shared), start=0.0)


def _request_bytes(workload: Workload) -> Number:
    rows = [a for a in workload.accesses if a.space in ("global", "local")]
    count = sum((a.count for a in rows), start=0.0)
    moved = sum((a.count * a.transactions * a.transaction_bytes for a in rows), start=0.0)
    return np.where(np.greater(count, 0), moved / np.maximum(count, 1e-300), 128.0) if rows else 128.0


def _global(workload: Workload) -> list[tuple[Number, Number, float]]:
    chosen = [a for a in workload.accesses if a.space in ("global", "local")]
    return [(a.count, a.transactions, a.hit_fraction) for a in chosen]


def _transactions(workload: Workload) -> Number:
    rows = _global(workload)
    count = sum((c for c, _, _ in rows), start=0.0)
    return sum((c * t for c, t, _ in rows), start=0.0) / np.maximum(count, 1e-300) if rows else 1.0


def _access_time(workload: Workload, machine: Machine, p: Parameters, avg_dram_lat: Number) -> Number:
    """Return AMAT (12), of one level with the section's hit latency, else of two with L1's and L2's round trips."""
    rows = _global(workload)
    count = sum((c for c, _, _ in rows), start=0.0)
    to_dram = sum((c * (1 - h) for c, _, h in rows), start=0.0)
    missed = np.where(np.greater(count, 0), to_dram / np.maximum(count, 1e-300), 1.0)
    if p.hit_lat is not None:
        return avg_dram_lat * missed + p.hit_lat
    if np.all(np.equal(missed, 1.0)):
        return avg_dram_lat
    first, second = machine.cache.l1_latency_cycles, machine.cache.l2_latency_cycles
    if first is None or second is None:
        raise machine.missing("sim2012", "sim.hit_lat_cycles")
    beyond = np.maximum(missed, _first_level_misses(workload, missed))
    time: Number = first + beyond * (second - first) + missed * np.maximum(avg_dram_lat - second, 0.0)
    return time


def _first_level_misses(workload: Workload, missed: Number) -> Number:
    """Return the share of global accesses that pass L1, by their sectors; where nothing counted, those to DRAM."""
    counts = {} if workload.profile is None else workload.profile.counts
    if not {"requests", "sectors", "l2_sectors"} <= counts.keys():
        return missed
    requests, sectors, passed = (np.asarray(counts[key], float) for key in ("requests", "sectors", "l2_sectors"))
    outside = sectors > 0  # accesses to shared memory have none
    if not outside.any():
        return missed
    return float(np.average(np.minimum(1.0, passed[outside] / sectors[outside]), weights=requests[outside]))
