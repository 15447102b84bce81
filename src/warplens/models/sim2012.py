"""Sim et al. 2012 (GPUPerf): computation and memory cost apart, overlapped, and four potential benefits.

Equations (1) to (23) and Appendix A. A machine without a [sim] section is read as Volkov §7.4 does: peak
bandwidth is the best sustained one, the miss latency is the whole latency, and Delta is the latency of a
further transaction (13) but no cap (A.5). Our readings: O_CFdiv is the time of the divergent extra
instructions, O_bank the extra shared-memory cycles of bank conflicts; the transaction size of (A.7) is what
one request of a warp moves; the size of data in (19) counts in requests of 128 bytes per SM.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from warplens.kernel import Number, Workload
from warplens.machine import Machine
from warplens.models.bounds import memory_latency
from warplens.models.prediction import Prediction, Term, answer
from warplens.models.residency import Residency

_GAMMA = 64.0  # the paper's choice for the synchronisation cost (§4.1.1)


class Parameters(Struct, frozen=True):
    """Tables 2 and 3's machine parameters for one GPU."""

    fp_lat: float
    dram_lat: float
    delta: float
    capped: bool
    hit_lat: float
    gamma: float
    simd_width: float
    sfu_width: float
    bandwidth: float


def parameters(machine: Machine, model: str) -> Parameters:
    """Read the parameters from the [sim] section, or from the general ones."""
    own = machine.sim
    if own is not None:
        pins = machine.memory.pin_bytes_per_second or machine.dram_bytes_per_second(model=model)
        return Parameters(
            own.fp_lat_cycles, own.dram_lat_cycles, own.departure_delay_cycles or 0.0, True, own.hit_lat_cycles or 0.0,
            own.gamma or _GAMMA, own.simd_width, own.sfu_width, pins,
        )  # fmt: skip
    size = machine.sm.warp_size
    simd = min(machine.peak_ipc("fp32", model=model), machine.issue_ipc()) * size
    sfu = machine.peak_ipc("sfu", model=model) * size if machine.sm.sfu_units or "sfu" in machine.instructions else simd
    bandwidth = machine.dram_bytes_per_second(model=model)
    fp_lat = machine.latency_cycles("fp32", model=model)
    delta = machine.memory.extra_transaction_cycles or 0.0
    return Parameters(fp_lat, memory_latency(machine, model), delta, False, 0.0, _GAMMA, simd, sfu, bandwidth)


def predict(workload: Workload, machine: Machine, residency: Residency, *, departure: bool = True) -> Prediction:
    """Predict T_exec and the benefits; `departure=False` drops the cap that Delta puts on MWP."""
    model = "sim2012" if departure else "sim2012-no-departure"
    p = parameters(machine, model)
    size, n = machine.sm.warp_size, residency.warps_per_sm
    counts = workload.executed()
    sfu_insts = counts.get("sfu", 0.0)
    insts = sum(counts.values(), start=0.0) - sfu_insts
    mem_insts = workload.memory_instructions()
    warps = n if workload.steady else residency.warps_on_sm  # #total_warps / #active_SMs

    avg_dram_lat = p.dram_lat + (_transactions(workload) - 1) * p.delta  # (13)
    f_sync = p.gamma * avg_dram_lat * mem_insts / insts  # (8)
    o_sync = workload.barriers * workload.iterations * warps * f_sync  # (7)
    itilp_max = p.fp_lat / (size / p.simd_width)  # (5)
    itilp = np.minimum(workload.ilp * n, itilp_max)  # (4)
    extra = sum(workload.divergent.values(), start=0.0) * workload.iterations
    w_parallel = (insts - extra) * warps * p.fp_lat / itilp  # (3)
    f_sfu = np.clip(sfu_insts / insts - p.sfu_width / p.simd_width, 0.0, 1.0)  # (10)
    o_sfu = sfu_insts * warps * size / p.sfu_width * f_sfu  # (9)
    o_cfdiv = extra * warps * p.fp_lat / itilp
    o_bank = _bank_cycles(workload) * warps * size / p.simd_width
    w_serial = o_sync + o_sfu + o_cfdiv + o_bank  # (6)
    t_comp = w_parallel + w_serial  # (2)

    amat = avg_dram_lat * _miss_ratio(workload) + p.hit_lat  # (12)
    mem_cycles = mem_insts * amat / workload.mlp  # (A.4)
    comp_cycles = insts * p.fp_lat / itilp  # (A.3)
    cwp = np.minimum((mem_cycles + comp_cycles) / comp_cycles, n)  # (A.1), (A.2)
    bw_per_warp = machine.chip.clock_hz * _request_bytes(workload) / avg_dram_lat  # (A.7)
    mwp_peak_bw = p.bandwidth / (bw_per_warp * residency.active_sms)  # (A.6)
    cap = avg_dram_lat / p.delta if departure and p.capped and p.delta else np.inf
    mwp = np.minimum(np.minimum(cap, mwp_peak_bw), n)  # (A.5)
    mwp_cp = np.minimum(np.maximum(1.0, cwp - 1), mwp)  # (15)
    itmlp = np.minimum(workload.mlp * mwp_cp, mwp_peak_bw)  # (14)
    t_mem = mem_insts * warps / itmlp * amat  # (11)

    zeta = np.where(cwp <= mwp, 1.0, 0.0)  # (17)
    t_overlap = np.minimum(t_comp * (n - zeta) / n, t_mem)  # (16), (17)
    t_exec = t_comp + t_mem - t_overlap  # (1)
    terms = {
        "N": Term(n, "warps", "(4)"),
        "ITILP_max": Term(itilp_max, "", "(5)"),
        "ITILP": Term(itilp, "", "(4)"),
        "W_parallel": Term(w_parallel, "cycles", "(3)"),
        "O_sync": Term(o_sync, "cycles", "(7), (8)"),
        "O_SFU": Term(o_sfu, "cycles", "(9), (10)"),
        "O_CFdiv": Term(o_cfdiv, "cycles", "(6)"),
        "O_bank": Term(o_bank, "cycles", "(6)"),
        "W_serial": Term(w_serial, "cycles", "(6)"),
        "T_comp": Term(t_comp, "cycles", "(2)"),
        "avg_DRAM_lat": Term(avg_dram_lat, "cycles", "(13)"),
        "AMAT": Term(amat, "cycles", "(12)"),
        "CWP": Term(cwp, "warps", "(A.1)"),
        "BW_per_warp": Term(bw_per_warp, "B/s", "(A.7)"),
        "MWP_peak_bw": Term(mwp_peak_bw, "warps", "(A.6)"),
        "avg_DRAM_lat / Delta": Term(cap, "warps", "(A.5)"),
        "MWP": Term(mwp, "warps", "(A.5)"),
        "MWP_cp": Term(mwp_cp, "warps", "(15)"),
        "ITMLP": Term(itmlp, "", "(14)"),
        "T_mem": Term(t_mem, "cycles", "(11)"),
        "T_overlap": Term(t_overlap, "cycles", "(16), (17)"),
        "T_exec": Term(t_exec, "cycles", "(1)"),
        **_benefits(workload, p, insts, warps, itilp, itilp_max, w_parallel, w_serial, t_comp, t_mem, t_overlap,
                    avg_dram_lat, mwp_peak_bw, residency),
    }  # fmt: skip
    return answer(
        model,
        workload,
        machine,
        residency,
        cycles=t_exec / warps * residency.warps_on_sm,
        bounds={"memory": t_mem > t_comp, "serialization": w_serial > w_parallel, "computation": True},
        limits={
            "computation": t_comp / warps * residency.warps_on_sm,
            "memory": t_mem / warps * residency.warps_on_sm,
        },
        terms=terms,
    )


def _benefits(
    workload: Workload, p: Parameters, insts: Number, warps: Number, itilp: Number, itilp_max: Number,
    w_parallel: Number, w_serial: Number, t_comp: Number, t_mem: Number, t_overlap: Number,
    avg_dram_lat: Number, mwp_peak_bw: Number, residency: Residency,
) -> dict[str, Term]:  # fmt: skip
    """Return the ideal costs and the four potential benefits, Equations (18) to (23)."""
    essential = workload.essential
    counts = workload.executed()
    fp = counts.get("fp32", 0.0) + counts.get("fp64", 0.0)
    if essential.fp_instructions is not None:
        fp = essential.fp_instructions
    t_fp = fp * warps * p.fp_lat / itilp  # (18)
    per_warp = workload.dram_bytes() if essential.data_bytes is None else (
        essential.data_bytes / workload.total_warps
    )  # fmt: skip
    requests = per_warp / 128.0 * warps  # the data in requests of a warp, per SM
    t_mem_min = requests * avg_dram_lat / mwp_peak_bw  # (19)
    b_itilp = w_parallel * (1 - itilp / itilp_max)  # (20): the same instructions at ITILP_max
    b_fp = t_comp - t_fp - b_itilp - w_serial  # (22)
    b_memlp = np.maximum(t_mem - t_overlap - t_mem_min, 0.0)  # (23)
    return {
        "T_fp": Term(t_fp, "cycles", "(18)"),
        "T_mem_min": Term(t_mem_min, "cycles", "(19)"),
        "B_itilp": Term(b_itilp, "cycles", "(20)"),
        "B_serial": Term(w_serial, "cycles", "(21)"),
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


def _miss_ratio(workload: Workload) -> Number:
    rows = _global(workload)
    count = sum((c for c, _, _ in rows), start=0.0)
    return sum((c * (1 - h) for c, _, h in rows), start=0.0) / np.maximum(count, 1e-300) if rows else 1.0
