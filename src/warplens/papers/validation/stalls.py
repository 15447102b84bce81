"""Stall reasons of warps: the simulator's shares against the samples of Nsight Compute, over all measured launches."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from warplens.machine import load_machine
from warplens.papers.validation.kernels import launches, measured_folder
from warplens.papers.validation.stored import read
from warplens.simulator.run import Options
from warplens.simulator.simulation import simulate

LARGEST, WITHIN = 3, 0.10  # so many reasons are compared, and must be so near, as shares of all samples


class Stalls(Struct, frozen=True):
    """A launch: shares of its warps' cycles by reason (Nsight's names), sampled and simulated."""

    name: str
    part: str
    sampled: dict[str, float]
    simulated: dict[str, float]

    @property
    def largest(self) -> list[str]:
        """The reasons that were sampled most often."""
        return sorted(self.sampled, key=lambda reason: -self.sampled[reason])[:LARGEST]

    @property
    def off(self) -> tuple[float, str]:
        """Simulated less sampled share of the largest reason that is farthest off, and its name."""
        differences = [(self.simulated.get(reason, 0.0) - self.sampled[reason], reason) for reason in self.largest]
        return max(differences, key=lambda item: abs(item[0]))

    @property
    def agrees(self) -> bool:
        """True if the largest reasons are all within ten points."""
        return abs(self.off[0]) <= WITHIN


def validate_stalls(
    gpu: str = "h200", *, every: int = 1, watch: Callable[[int, int], None] | None = None
) -> list[Stalls]:
    """Simulate each launch (or every so-manieth) whose stalls were sampled."""
    machine, samples = load_machine(gpu), read(f"{measured_folder(gpu)}/ncu.json.gz")["launches"]
    found, chosen = [], [x for x in launches(gpu) if samples.get(x.name, {}).get("stalls")][::every]
    for done, launch in enumerate(chosen):
        seen = {reason: float(sum(counts)) for reason, counts in samples[launch.name]["stalls"].items()}
        total = sum(seen.values())
        simulated = simulate(launch.workload, machine, options=Options(sampled=True)).sampled
        found.append(Stalls(launch.name, launch.part, {r: n / total for r, n in seen.items()}, dict(simulated)))
        if watch is not None:
            watch(done + 1, len(chosen))
    return found
