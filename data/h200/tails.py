"""Which warp of a scheduler goes where several load from shared memory: codes as in crowds.py, by chance.

    python data/h200/tails.py build FOLDER     no GPU, the CUDA wheels: the kernel
    python data/h200/tails.py run FOLDER OUT   on the GPU: OUT/tails.json.gz

Adds, and then loads in four chains that have the same stall count or one by chance each (`tail`); or adds that wait for
one another, and loads in one chain (`chain`). A row is as in crowds.py. The warp that spins before does so a number of
times: counts of issues are then the same in all launches, as they are in eight of nine (with 201 or 210 all are halved
once more).
"""

import random
import sys
from pathlib import Path

from crowds import CHAINS, GAPS, LENGTH, PLAIN, ZERO, Code, Slot, build, run, s

LOADS, STALLS = 24, (2, 3, 4, 5, 6)
MANY = (2, 3, 4, 5, 6)  # warps
SPINS = 203
SEEDS = 11, 12  # rules were found with the codes of the first one, and not with those of the second


def codes() -> list[Code]:
    """Return the codes of both seeds: their kind, how many warps, instructions."""
    return [code for seed in SEEDS for code in _codes(random.Random(seed))]


def _codes(chance: random.Random) -> list[Code]:
    made = list[Code]()

    def whole(slots: list[Slot]) -> list[Slot]:
        gaps = [(chance.choice((2, 3, 5, 7, 9, 11)), chance.random() < 0.7) for _ in range(1, GAPS)]
        before = [s("MOV", 6, ZERO, 255, y=True), *(s(PLAIN[0], stall, *PLAIN[1:], y=y) for stall, y in gaps)]
        return before + (slots * LENGTH)[:LENGTH]

    for warps in MANY:
        for stall in (*STALLS, 0):
            for share in (0.0, 0.5):
                adds = [s("FADD", 1, 24 + k, 24 + k, 255) for k in range(chance.choice((6, 8, 10, 14)))]
                loads = [
                    s(f"LDS{c}", stall or chance.choice(STALLS), 12 + c, ZERO, y=chance.random() < share)
                    for c in (k % CHAINS for k in range(LOADS))
                ]
                made.append((f"tail {stall or 'any'}, {share:.0%} yield", warps, whole(adds + loads)))
    for warps in (2, 3, 4, 5, 6, 7):
        for count in (4, 6, 12):
            for stall in (2, 4):
                adds = [s("FADD", 4, 24, 24, 255, y=True)] * count
                loads = [s("LDS0", stall, 12, ZERO) for _ in range(8)]
                made.append((f"chain {stall} behind {count}", warps, whole(adds + loads)))
    return made


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    build(folder, counted=True) if sys.argv[1] == "build" else run(folder, Path(sys.argv[3]), "tails", codes(), SPINS)
