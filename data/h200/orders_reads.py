"""Which warp goes first and what holds it, where instructions read registers: stamped codes of one to four warps.

    python data/h200/orders.py build FOLDER        no GPU, the CUDA wheels: the kernel, and where its slots are
    python data/h200/orders_reads.py FOLDER OUT    on the GPU: OUT/orders_reads.json.gz

Codes as those of orders.py, made by chance from a few kinds of instructions, the same ones each time. In half of
them operands are kept for reuse or were made by the last instructions. `traces` has the clocks of each warp, the first
as it is, then from one to the next.
"""

import gzip
import json
import random
import sys
from itertools import pairwise
from pathlib import Path

from issue_order import CLOCK, Slot
from orders import RZ, placed, traces
from read_words import LANES, PAIRS, RESULT

SETS = {
    "half": ("HFMA2",), "half apart": ("HFMA2", "MMA"), "sums apart": ("HADD2", "MMA"), "single": ("FFMA",),
    "sums": ("FFMA", "FADD"), "logic": ("FFMA", "LOP3"), "whole": ("IMAD", "LOP3", "FADD"), "half, whole": ("HFMA2", "IMAD", "LOP3"),
    "double": ("DFMA", "DADD", "FADD"), "wide": ("WIDE", "FADD", "LOP3"), "high": ("HIGH", "FFMA"),
    "sfu": ("MUFU", "FADD", "FADD", "FFMA"), "shared": ("LDS", "FADD", "FADD", "FFMA"), "sfu alone": ("MUFU", "FADD"),
}  # fmt: skip
STALLS = (((2, 3, 4), 1.0), ((1, 2, 3, 4), 0.5), ((1, 1, 2), 0.1), ((4, 5, 6), 1.0))  # and the share that yields
SHARES = (0.15, 0.3)  # of reads of the clock
KEPT = (0.0, 0.5)  # share of operands that are kept; as many are results of the last instructions
LONG = ("MUFU", "LDS")  # nothing reads their results
READ = 5  # registers of each bank that are read, but for results


def codes(registers: list[int]) -> dict[str, list[tuple[int, list[Slot]]]]:
    """Return the codes by the kinds that are in them, and how many warps run each."""
    made = dict[str, list[tuple[int, list[Slot]]]]()
    for name, kinds in SETS.items():
        made[name] = []
        for n in (1, 2, 3, 4):
            for share in SHARES:
                for stalls, yielding in STALLS:
                    for kept in KEPT:
                        chance = random.Random(f"{n}{name}{share}{stalls}{kept}")
                        made[name].append((n, code(chance, kinds, share, stalls, yielding, kept, registers)))
    return made


def code(
    chance: random.Random, kinds: tuple[str, ...], share: float, stalls: tuple[int, ...], yielding: float, kept: float,
    registers: list[int],
) -> list[Slot]:  # fmt: skip
    """Return a code; what an instruction reads of others was made long enough before it."""
    clocks = [chance.random() < share for _ in registers]
    unused = [r for r, clock in zip(registers, clocks, strict=True) if not clock]
    pairs = [r for r in unused if r % 2 == 0 and r + 1 in unused]
    read = [r + k for r in pairs[:READ] for k in (0, 1)]
    written = [r + k for r in pairs[READ : 2 * READ] for k in (0, 1)]
    made, lanes, now = dict[int, int](), dict[tuple[bool, int], int](), 0
    slots = list[Slot]()
    for register, clock in zip(registers, clocks, strict=True):
        stall, yields = chance.choice(stalls), chance.random() < yielding
        now += stall
        if clock:
            slots.append((CLOCK, (register,), stall, yields, 0))
            continue
        what = chance.choice(kinds)
        late = what in ("MMA", "DFMA", "DADD")
        ready = [r for r, when in made.items() if when <= now - stall]
        operands, marks = list[int](), 0
        for lane in LANES.get(what, (1,)):
            pair, before = lane in PAIRS.get(what, ()), lanes.pop((late, lane), None)
            source = chance.choice((*read, *read) if what == "MUFU" else (RZ, *read, *read))
            if before is not None and chance.random() < 0.6:
                source = before
            elif ready and chance.random() < kept:
                source = chance.choice(ready)
            if pair and source != RZ:
                source &= ~1
            if what == "LDS":
                source = RZ
            operands.append(source)
            if what not in LONG and source != RZ and chance.random() < kept and not yields:
                lanes[late, lane] = source
                marks |= 1 << lane
        to = chance.choice(written)
        wide = what in ("DFMA", "DADD", "WIDE")
        if what in LONG:
            to = chance.choice([r for r in unused if r not in read and r not in written])
        for r in (to & ~1, to | 1) if wide else (to,):
            made.pop(r, None)
            if what not in LONG:
                made[r] = now - stall + RESULT[what]
            for key in [key for key, kept_one in lanes.items() if kept_one == r]:
                del lanes[key]  # what is kept would be old
        slots.append((what, (to & ~1 if wide else to, *operands), stall, yields, marks))
    return [*slots[:-1], ("FADD", (registers[-1], RZ, RZ), 4, True, 0)]


def main(folder: Path, out: Path) -> None:
    """Run all codes."""
    from driver import Gpu

    gpu, rows = Gpu(), dict[str, list[list[list[int]]]]()
    about = json.loads((folder / "orders_slots.json").read_text())
    for name, each in codes(about["registers"]).items():
        rows[name] = [
            [[b - a for a, b in pairwise((0, *clocks))] for clocks in found]
            for found in traces(gpu, folder, each, placed)
        ]
    made = json.dumps({**gpu.about(), "registers": about["registers"], "traces": rows}, separators=(",", ":"))
    (out / "orders_reads.json.gz").write_bytes(gzip.compress(made.encode(), mtime=0))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
