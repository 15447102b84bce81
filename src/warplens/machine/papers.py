"""Numbers of a GPU that the papers' own models need, and those that the papers print about it."""

from __future__ import annotations

from warplens.machine.tables import Count, Cycles, Factor, Hertz, Ipc, Section, Warps


class HongKim(Section, frozen=True):
    """The parameters of Hong & Kim's model (their Tables 1, 3, 6 and 7)."""

    mem_ld_cycles: Cycles
    departure_del_uncoal_cycles: Cycles
    departure_del_coal_cycles: Cycles
    issue_cycles: Cycles
    uncoal_per_mw: Count | None = None
    coal_per_mw: Count | None = None
    clock_hz: Hertz | None = None
    fdiv_factor: Factor | None = None
    imul_factor: Factor | None = None
    idiv_factor: Factor | None = None
    imod_factor: Factor | None = None


class Sim(Section, frozen=True):
    """The parameters of Sim et al.'s model (their Tables 2 and 3)."""

    simd_width: Count
    sfu_width: Count
    fp_lat_cycles: Cycles
    dram_lat_cycles: Cycles
    departure_delay_cycles: Cycles | None = None
    hit_lat_cycles: Cycles | None = None
    gamma: Count | None = None


class Kothapalli(Section, frozen=True):
    """The parameters of Kothapalli et al.'s model (their §2 and §3)."""

    cores_per_sm: Count
    pipeline_depth: Count
    clock_hz: Hertz
    add_cycles: Cycles
    imul_cycles: Cycles
    imod_cycles: Cycles
    global_cycles: Cycles
    shared_cycles: Cycles
    barrier_cycles: Cycles


class LemeireOperation(Section, frozen=True):
    """Issue latency (lambda) and completion latency (Lambda) of one operation (Lemeire Tables II, III)."""

    issue_cycles: Cycles
    completion_cycles: Cycles
    mean_error_percent: float | None = None
    error_deviation_percent: float | None = None


class Printed(Section, frozen=True):
    """Numbers that the papers print about this GPU and we derive; kept to compare with, never computed with."""

    mem_lat_cycles: Cycles | None = None
    mem_thru_ipc: Ipc | None = None
    alu_lat_cycles: Cycles | None = None
    alu_thru_ipc: Ipc | None = None
    issue_thru_ipc: Ipc | None = None
    mwp_peak_bw_warps: Warps | None = None
    guide_alpha: Count | None = None
    guide_needed_warps: Warps | None = None
    memory_to_arithmetic_factor: Factor | None = None
    half_warps_max: Warps | None = None
    quarter_warps_max: Warps | None = None
    eighth_warps_max: Warps | None = None
