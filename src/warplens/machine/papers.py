"""Numbers of a GPU that the papers' own models need, and those that the papers print about it."""

from __future__ import annotations

from warplens.machine.tables import Count, Cycles, Factor, Hertz, Ipc, Ratio, Section, Warps


class HongKim(Section, frozen=True):
    """The parameters of Hong & Kim's model (their Tables 1, 3, 6 and 7).

    A factor is the cycles of an SM per instruction of a class over those of an addition (31).
    """

    mem_ld_cycles: Cycles | None = None
    departure_del_uncoal_cycles: Cycles | None = None
    departure_del_coal_cycles: Cycles | None = None
    issue_cycles: Cycles | None = None
    uncoal_per_mw: Count | None = None
    coal_per_mw: Count | None = None
    clock_hz: Hertz | None = None
    fdiv_factor: Factor | None = None
    imul_factor: Factor | None = None
    idiv_factor: Factor | None = None
    imod_factor: Factor | None = None
    int_factor: Factor | None = None
    imul_wide_factor: Factor | None = None
    fp64_factor: Factor | None = None
    sfu_factor: Factor | None = None
    convert_factor: Factor | None = None


class Sim(Section, frozen=True):
    """The parameters of Sim et al.'s model (their Tables 2 and 3)."""

    simd_width: Count | None = None
    sfu_width: Count | None = None
    fp_lat_cycles: Cycles | None = None
    dram_lat_cycles: Cycles | None = None
    departure_delay_cycles: Cycles | None = None
    hit_lat_cycles: Cycles | None = None
    gamma: Ratio | None = None


class Kothapalli(Section, frozen=True):
    """The parameters of Kothapalli et al.'s model (their §2 and §3)."""

    cores_per_sm: Count | None = None
    pipeline_depth: Count | None = None
    clock_hz: Hertz | None = None
    add_cycles: Cycles | None = None
    imul_cycles: Cycles | None = None
    imod_cycles: Cycles | None = None
    global_cycles: Cycles | None = None
    shared_cycles: Cycles | None = None
    barrier_cycles: Cycles | None = None


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
