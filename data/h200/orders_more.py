"""Which warp of a scheduler goes first, with more kinds of instructions among the reads of the clock; and lone loops.

    python data/h200/orders.py build FOLDER       no GPU, the CUDA wheels: the kernel, and where its slots are
    python data/h200/orders_more.py FOLDER OUT    on the GPU: OUT/orders_more.json.gz

Codes as those of orders.py, of one to four warps, made by chance from a few kinds of instructions, the same ones each
time: F is FADD, I IMAD, H HFMA2, M HFMA2.MMA, A HADD2, L LOP3, U a USHF that reads what the last one wrote, V one that
does not. `traces` has the clocks of each warp, the first as it is, then from one to the next. `loops`: the cycles of a
turn of a lone warp with short codes of HFMA2.MMA, HFMA2, FADD, LOP3 and NOP.
"""

import gzip
import json
import random
import sys
from itertools import pairwise
from pathlib import Path

import orders
from issue_order import NOP, Slot, s, word
from on_units import looped, per_turn
from orders import RZ, Program, filler, traces

SETS = ("F", "M", "H", "FI", "FH", "HM", "IM", "FM", "FIHM", "A", "AM", "U", "FU", "V", "FV", "L", "LF", "LI")
KINDS: orders.Kinds = {
    "F": ("FADD", (RZ,) * 2), "I": ("IMAD", (RZ,) * 3), "H": ("HFMA2", (RZ,) * 3), "M": ("MMA", (RZ,) * 3),
    "A": ("HADD2", (RZ,) * 2), "L": ("LOP3", (RZ,) * 3), "U": ("USHF", (50, 63)), "V": ("USHF", (51, 63)),
}  # fmt: skip
STALLS = (((2, 3, 4), 1.0), ((1, 2, 3, 4), 0.5), ((1,), 0.0), ((4, 5, 6), 1.0))  # and the share that yields
TIMES = ((1, False), (2, False), (3, False), (1, True), (2, True), (3, True), (5, True))  # stall, whether it yields
IN_LOOPS = {"M": ("MMA", 24, 3), "H": ("HFMA2", 26, 3), "F": ("FADD", 28, 2), "L": ("LOP3", 30, 3)}  # to, operands


def programs() -> dict[str, list[tuple[int, Program]]]:
    """Return the codes by the kinds that are in them, and how many warps run each."""
    made = dict[str, list[tuple[int, Program]]]()
    for kinds in SETS:
        made[kinds] = []
        for n in (1, 2, 3, 4):
            for share in (0.25, 0.5):
                for stalls, yielding in STALLS:
                    for seed in range(2):
                        chance, code = random.Random(f"{n}{kinds}{share}{stalls}{yielding}{seed}"), Program()
                        for _ in range(orders.SLOTS - 1):
                            kind = "C" if chance.random() < share else chance.choice(kinds)
                            code.append((kind, chance.choice(stalls), chance.random() < yielding))
                        made[kinds].append((n, [*code, (kinds[0], 4, True)]))
    return made


def slot(kind: str, stall: int, yields: bool) -> Slot:
    """Return an instruction of a loop, without operands."""
    if kind == "N":
        return s(NOP, stall, y=yields)
    what, to, operands = IN_LOOPS[kind]
    return s(what, stall, to, *(RZ,) * operands, y=yields)


def loops() -> list[list[Slot]]:
    """Return short codes of a lone warp: HFMA2.MMA and one other, with all stalls and yields; and by chance."""
    made = [[slot("M", *first), slot(kind, *second)] for kind in "HFLN" for first in TIMES for second in TIMES]
    chance = random.Random(3)
    for kinds, count in (("MMHFLN", 300), ("HFLN", 200)):
        for _ in range(count):
            code = list[Slot]()
            for _ in range(chance.choice((3, 4, 5, 6, 8))):
                how = chance.choice(TIMES)
                code.append(slot(chance.choice(kinds), *how))
            made.append(code)
    return made


def main(folder: Path, out: Path) -> None:
    """Run all codes and loops."""
    from driver import Gpu

    gpu, rows = Gpu(), dict[str, list[list[list[int]]]]()
    for kinds, codes in programs().items():
        rows[kinds] = [
            [[b - a for a, b in pairwise((0, *clocks))] for clocks in each]
            for each in traces(gpu, folder, codes, filler(KINDS))
        ]
    turns = [per_turn(gpu, folder, looped([word(x, 0) for x in code]), 1) for code in loops()]
    made = json.dumps({**gpu.about(), "traces": rows, "loops": turns}, separators=(",", ":"))
    (out / "orders_more.json.gz").write_bytes(gzip.compress(made.encode(), mtime=0))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
