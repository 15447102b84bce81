"""Metrics of Nsight Compute: a row per instruction on its source page, a row per launch on its raw page.

ncu flushes the caches before each of its passes: these are numbers of a cold L2.
"""

from __future__ import annotations

from msgspec import Struct

# a short name -> ncu's column of the source page
INSTRUCTION = {
    "executed": "Instructions Executed",
    "threads": "Predicated-On Thread Instructions Executed",
    "tag_requests": "L1 Tag Requests Global",
    "shared_wavefronts": "L1 Wavefronts Shared",
    "global_sectors": "L2 Theoretical Sectors Global",
    "samples": "# Samples",
}
# a short name -> ncu's metric
LAUNCH = {
    "time_ns": "gpu__time_duration.sum",
    "cycles": "sm__cycles_elapsed.max",
    "sm_clock_hz": "smsp__cycles_elapsed.avg.per_second",
    "instructions": "smsp__inst_executed.sum",
    "l1_hit_percent": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_percent": "lts__t_sector_hit_rate.pct",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "l2_sectors": "lts__t_sectors.sum",
    "occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "blocks_per_sm": "launch__occupancy_limit_blocks",
    "issue_active_percent": "smsp__issue_active.avg.pct",
}
# ncu chooses a unit for each column; we keep bytes and nanoseconds
UNITS = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9,
         "nsecond": 1, "usecond": 1e3, "msecond": 1e6, "second": 1e9}  # fmt: skip


class Record(Struct, frozen=True):
    """One launch as ncu counted it: a number per instruction for the whole grid, and counters of the launch."""

    kernel: str
    executed: list[int] = []
    threads: list[int] = []
    tag_requests: list[int] = []
    shared_wavefronts: list[int] = []
    global_sectors: list[int] = []
    samples: list[int] = []
    stalls: dict[str, list[int]] = {}
    counters: dict[str, float] = {}
