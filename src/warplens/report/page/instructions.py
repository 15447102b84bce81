"""One row per instruction: how often it runs, what warps wait for in front of it, what its accesses touch."""

from __future__ import annotations

from msgspec import Struct

from warplens.machine import KINDS
from warplens.simulator import Simulation
from warplens.workload import Workload
from warplens.workload.profile import Profile

SECTOR_BYTES, LINE_BYTES = 32, 128


class Touches(Struct, frozen=True, kw_only=True):
    """What one request of a warp touches on average; shares are of its sectors."""

    space: str
    requests_per_warp: float
    threads: float
    bytes_per_thread: float
    sectors: float
    lines: float
    wavefronts: float
    l1_hits: float
    l2_hits: float

    @property
    def least_wavefronts(self) -> float:
        """Passes that its bytes need without conflicts; fewer where threads ask for the same words."""
        return min(self.wavefronts, max(1.0, self.threads * self.bytes_per_thread / LINE_BYTES))

    @property
    def conflict_degree(self) -> float:
        """Passes over those that it needs."""
        return self.wavefronts / self.least_wavefronts if self.wavefronts else 1.0

    @property
    def useful_share(self) -> float:
        """Share of the bytes of its sectors that threads asked for (more than 1: threads share them)."""
        return self.threads * self.bytes_per_thread / (SECTOR_BYTES * self.sectors) if self.sectors else 0.0


class Row(Struct, frozen=True, kw_only=True):
    """One instruction. `share` is of all warp-cycles of the simulation, `stalls` that share by reason."""

    number: int
    offset: int
    text: str
    line: int | None
    runs_per_warp: float
    share: float
    stalls: dict[str, float]
    touches: Touches | None


def rows(workload: Workload, simulation: Simulation | None) -> list[Row]:
    """Return the rows of a counted kernel; without a simulation they have no stalls."""
    profile = workload.profile
    if profile is None:
        return []
    warps = profile.grid_blocks * profile.warps_per_block
    told = simulation.lines if simulation is not None and len(simulation.lines) == len(workload.code) else []
    total = sum(line.cycles for line in told) or 1.0
    made = []
    for i, x in enumerate(workload.code):
        stalls = {reason: cycles / total for reason, cycles in told[i].stalls.items()} if told else {}
        bare = x.text.removeprefix(x.guard).partition("(*")[0].strip()
        made.append(
            Row(
                number=i,
                offset=x.offset,
                text=f"{x.guard} {bare}" if x.guard else bare,
                line=x.line,
                runs_per_warp=profile.counts["executed"][i] / warps,
                share=sum(stalls.values()),
                stalls=stalls,
                touches=_touches(i, KINDS.get(x.kind, ""), profile, warps),
            )
        )
    return made


def _touches(i: int, unit: str, profile: Profile, warps: float) -> Touches | None:
    count = {name: column[i] for name, column in profile.counts.items()}
    requests = count["requests"]
    if not requests:
        return None
    threads = count["threads"] / max(1.0, count["executed"])
    return Touches(
        space="shared" if unit == "shared memory" else "global",
        requests_per_warp=requests / warps,
        threads=threads,
        bytes_per_thread=count["useful_bytes"] / max(1.0, requests * threads),
        sectors=count["sectors"] / requests,
        lines=count["lines"] / requests,
        wavefronts=count["wavefronts"] / requests,
        l1_hits=count["l1_hit_sectors"] / count["sectors"] if count["sectors"] else 0.0,
        l2_hits=count["l2_hit_sectors"] / count["l2_sectors"] if count["l2_sectors"] else 0.0,
    )
