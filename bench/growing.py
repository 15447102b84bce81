"""What a million warps cost beside ten thousand: random kernels, in processors' time of the simulation.

    python bench/growing.py [--count N] [--seed S]    some two minutes for 300

Arithmetic, SFU, shared memory and barriers, without loads of global memory and with; one to ten turns of a body of one
to forty instructions, blocks of 1 to 32 warps. Ten thousand warps are a round and a quarter of an SM's blocks, and cost
what that costs; a million are simulated up to a budget of instructions, and no more cost more than these.
"""

from __future__ import annotations

import argparse
import statistics
import time
from random import Random

from rich.console import Console
from rich.progress import track

import warplens as wl
from warplens.machine import load_machine
from warplens.workload import Launch, Workload
from warplens.workload.workload import WarpListing

OPERATIONS = ("FADD R1, R1, R3\n", "FADD R2, R1, R3\n", "FFMA R4, R4, R5, R6\n", "IMAD R7, R7, R2, R1\n",
              "MUFU R1, R1\n", "LDS R8, [R9]\n", "DFMA R10, R10, R2, R1\n", "BAR\n")  # fmt: skip
SHAPES = ((1, 32), (2, 5), (4, 16), (8, 8), (8, 3), (16, 4), (32, 2))  # warps of a block, blocks of an SM
WARPS = (10_000, 1_000_000, 100_000_000)
TURNS = (1, 1, 3, 10)


def milliseconds(text: str, shape: tuple[int, int], turns: int, warps: int) -> float:
    """Return the least of three times that so many warps of a kernel cost."""
    launch = Launch(grid=warps // shape[0], block=32 * shape[0], blocks_per_sm=shape[1])
    work = Workload(name="random", warps=[WarpListing(text)], iterations=turns, launch=launch)
    gpu, times = load_machine("h200"), list[float]()
    for _ in range(3):
        start = time.process_time()
        wl.simulate(work, gpu)
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chance = Random(given.seed)
    groups: dict[str, list[list[float]]] = {"without loads": [], "with loads": []}
    for _ in track(range(given.count), "kernels", console=Console(stderr=True)):
        name = chance.choice(tuple(groups))
        body = [chance.choice(OPERATIONS) for _ in range(chance.randint(1, 40))]
        text = "".join(["LD R1, [R2]\n", *body] if name == "with loads" else body)
        shape, turns = chance.choice(SHAPES), chance.choice(TURNS)
        groups[name].append([milliseconds(text, shape, turns, warps) for warps in WARPS])
    print("milliseconds, of the simulation alone: median and most")
    print(f"{'kernels':16}{'number':>7}{'10,000 warps':>16}{'a million':>16}{'100 million':>16}{'10,000 is less':>16}")
    for name, rows in groups.items():
        each = [f"{statistics.median(x):.1f} {max(x):.0f}" for x in zip(*rows, strict=True)]
        less = sum(row[0] < row[1] for row in rows) / len(rows)
        print(f"{name:16}{len(rows):7}" + "".join(f"{x:>16}" for x in each) + f"{less:15.0%}")


if __name__ == "__main__":
    main()
