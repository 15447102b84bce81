"""Random loops through the simulator and the fluid schedule: how far apart they are; the basis of `_HELD`.

    python bench/fluid.py

Loops of a hundred instructions, 24 turns, with stall counts, pipes and register banks by chance, on an SM with 4 to 64
warps in blocks of 4 to 16. The second table takes loops that are bound by issue and go to shared memory, with 64
warps, and asks what part of the conflicts at register ports costs a slot.
"""

from __future__ import annotations

import numpy as np

from warplens.machine import load_machine
from warplens.simulator import fluid_schedule
from warplens.simulator import layout as at
from warplens.simulator.code import Code, Step, straight
from warplens.simulator.fluid_schedule import run_fluid
from warplens.simulator.operands import Operands
from warplens.simulator.run import Options, run
from warplens.simulator.units import PIPES, units

H200 = units(load_machine("h200"))
CORES, INTEGER, SHARED = (PIPES.index(name) for name in ("cuda cores", "integer", "shared memory"))
STALLS = ((1, 1, 1, 1, 2), (4, 5, 4, 4, 6), (1, 2, 4, 5, 8), (1, 1, 2, 12), (2, 2, 2, 2), (1, 4, 1, 6, 2, 1))
LENGTH, TURNS, LOOPS = 96, 24, 60
KINDS = ("stall counts alone", "a pipe at half rate", "reads of shared memory")


def loop(kind: str, random: np.random.Generator) -> list[Step]:
    """Return the instructions of a loop of a kind."""
    stalls, share, used = STALLS[random.integers(len(STALLS))], random.uniform(0.15, 0.85), random.uniform(0.3, 1.0)
    rare, switches = random.uniform(0.03, 0.25), random.random() < 0.5

    def bit(chance: float) -> int:
        return int(random.random() < chance)

    steps = []
    for _ in range(LENGTH):
        stall, yields = float(random.choice(stalls)), bool(switches and bit(0.5))
        reads, writes = (bit(used), bit(used)), bit(0.5) | bit(0.5) << 1
        if kind == KINDS[1] and bit(share):
            steps.append(Step(label="integer", pipe=INTEGER, passes=2.0, stall=max(2.0, stall), yields=yields))
        elif kind == KINDS[2] and bit(rare):
            steps.append(Step(label="read", pipe=SHARED, kind=at.QUEUED, reason=at.SHORT, latency=23.0, values=(0,),
                              stall=stall, yields=yields, operands=Operands(*reads, writes=writes)))  # fmt: skip
        else:
            even, odd = ((1 << at.LANES_AT | k) * there for k, there in enumerate(reads))
            made = Operands(even, odd, result_cycles=float(at.MADE), writes=writes)
            steps.append(Step(label="add", pipe=CORES, stall=stall, yields=yields, operands=made))
    return [*steps, Step(label="branch", stall=5.0, waits=((0, 0.0),) if kind == KINDS[2] else ())]


def apart(steps: list[Step], warps: int, blocks: int) -> float:
    """Return by how much the fluid schedule takes longer than the simulator."""
    code = Code(name="loop", steps=steps, paths=[straight(steps, TURNS)], blocks=[[0] * warps], controlled=True)
    cycles = [each(code, H200, Options(), resident=blocks, blocks=blocks).end_cycle
              for each in (run_fluid, run)]  # fmt: skip
    return cycles[0] / cycles[1] - 1


def main() -> None:
    """Print both tables."""
    for kind in KINDS:
        random, made = np.random.default_rng(5), []
        for _ in range(LOOPS):
            steps, warps = loop(kind, random), int(random.choice([4, 8, 16]))
            made.append(apart(steps, warps, min(int(random.choice([1, 2, 4])), 64 // warps)))
        off = np.array(made)
        print(f"  {kind:<24} {LOOPS} loops: mean {off.mean():+.1%}, mean without sign {abs(off).mean():.1%}, "
              f"within 5 % {np.mean(abs(off) <= 0.05):.0%}, {off.min():+.1%} to {off.max():+.1%}")  # fmt: skip
    random = np.random.default_rng(6)
    loops = [loop(KINDS[2], random) for _ in range(LOOPS)]
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        fluid_schedule._LOST = part
        off = np.array([apart(steps, 16, 4) for steps in loops])
        print(f"  lost {part:.2f} of the conflicts: mean {off.mean():+.1%}, mean without sign {abs(off).mean():.1%}")


if __name__ == "__main__":
    main()
