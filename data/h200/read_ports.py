"""How arithmetic reads its registers, learned as a machine of states (Angluin's way: ask until nothing new comes).

    python data/h200/issue_order.py build FOLDER        no GPU: the kernel that is filled with instructions by hand
    python data/h200/read_ports.py learn FOLDER OUT     on the GPU: OUT/read_ports_states.json, some 7 minutes
    python data/h200/read_ports.py probe FOLDER OUT     on the GPU: OUT/read_ports.json, random code
    python data/h200/read_ports.py merge FILE           no GPU: src/warplens/simulate/files/register_reads.json

A lone warp runs a word of instructions, one per cycle, and reads the clock before and behind it: what it takes beyond
one cycle for each is what its operands waited for their bank. Operands are of even registers alone; odd ones do the
same. Two words lead to the same state if no word of two that follows tells them apart.

A letter of an instruction is a lane: `n` reads nothing, `e` a register of the bank, `x` the same register as another
lane, `d` one that the instruction before it wrote. `late` ones are HFMA2.MMA, which runs where double precision does.
"""

import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from issue_order import NOP, Runs, Slot, s

HERE = Path(__file__).parent
PLAIN = ["eee", "een", "ene", "enn", "nee", "nen", "nne"]
SAME = ["xxx", "xxe", "xex", "exx", "xxn", "xnx", "nxx"]
FRESH = ["dnn", "ndn", "nnd", "den", "edn", "dne", "end", "nde", "ned", "dee", "ede", "eed"]
LATE = [f"late {p}" for p in ("nnn", *PLAIN, "xxx", "xxn", "xnx", "nxx")]
IDLE, WRITTEN, SHARED, TAIL = "idle", 44, 38, 9
Word = tuple[str, ...]


def program(word: Sequence[str], *, fresh: bool) -> list[Slot]:
    """Return the instructions of a word; where some are fresh, each one writes what the next may read."""
    count, made = 0, [s("FFMA", 1, WRITTEN, 255, 255, 255)] if fresh else []
    for k, letter in enumerate(word):
        if letter == IDLE:
            made.append(s("FFMA", 1, WRITTEN, 255, 255, 255) if fresh else s(NOP, 1))
            continue
        registers = list[int]()
        for lane in letter[-3:]:
            registers.append({"n": 255, "d": WRITTEN, "x": SHARED}.get(lane, 16 + 2 * (count % 11)))
            count += lane == "e"
        made.append(s("MMA" if "late" in letter else "FFMA", 1, WRITTEN if fresh else 40 + k % 2, *registers))
    return made + [s("FFMA", 1, WRITTEN, 255, 255, 255) if fresh else s(NOP, 1)] * TAIL


class Asked:
    """The GPU, asked word by word for how many cycles operands waited."""

    def __init__(self, folder: Path, *, fresh: bool) -> None:
        from driver import Gpu

        self.runs, self.fresh, self.known = Runs(folder, Gpu()), fresh, dict[Word, int]()

    def waits(self, word: Word) -> int:
        """Return the cycles of a word beyond one for each instruction."""
        if word not in self.known:
            code = program(word, fresh=self.fresh)
            first, last = self.runs.stamps([code], [64], None, [])
            self.known[word] = last - first - 65 - len(code)
        return self.known[word]


def learn(waits: Callable[[Word], int], letters: Sequence[str], behind: Sequence[str]) -> dict[str, Any]:
    """Return the states: from each the next one and the cycles to wait, for each letter."""
    tails: list[Word] = [(a,) for a in letters] + list(itertools.product(letters, behind))

    def sign(word: Word) -> tuple[int, ...]:
        return tuple(waits(word + tail) - waits(word) for tail in tails)

    words: list[Word] = [()]
    states, rows, start = {sign(()): 0}, list[list[tuple[int, int]]](), time.time()
    while len(rows) < len(words):
        at, row = words[len(rows)], list[tuple[int, int]]()
        for letter in letters:
            word = (*at, letter)
            found = sign(word)
            if found not in states:
                states[found] = len(words)
                words.append(word)
            row.append((states[found], waits(word) - waits(at)))
        rows.append(row)
    print(len(words), "states", round(time.time() - start), "s", flush=True)
    return {"letters": list(letters), "words": words, "rows": rows}


def probes() -> list[tuple[str, list[Slot]]]:
    """Return random code of FFMAs with registers of both banks, as their lanes and as instructions."""
    chance, found = random.Random(3), list[tuple[str, list[Slot]]]()
    for _ in range(1000):
        lanes = ["".join(chance.choice("eon") for _ in range(3)) for _ in range(chance.choice((3, 5, 8, 12, 20)))]
        code, count = list[Slot](), 0
        for k, three in enumerate(lanes):
            registers = list[int]()
            for lane in three:
                registers.append(255 if lane == "n" else 16 + (lane == "o") + 2 * (count % 11))
                count += lane != "n"
            code.append(s("FFMA", 1, 40 + k % 2, *registers))
        found.append((" ".join(lanes), code + [s(NOP, 1)] * TAIL))
    return found


def distances(runs: Runs) -> list[tuple[int, int]]:
    """Return what an operand in the third lane waits longer if it was made so many cycles before.

    Between both is an instruction that reads two others of its bank, in the first lanes.
    """

    def taken(away: int, register: int) -> int:
        pause = [s(NOP, 11)] * ((away - 2) // 11) + [s(NOP, (away - 2) % 11)] * ((away - 2) % 11 > 0)
        reads = [s("FFMA", 1, 43, 16, 18, 255), s("FFMA", 1, 41, 20, 255, register)]
        code = [s("FFMA", 1, WRITTEN, 255, 255, 255), *pause, *reads, *[s(NOP, 1)] * 6]
        first, last = runs.stamps([code], [64], None, [])
        return last - first

    return [(away, taken(away, WRITTEN) - taken(away, 22)) for away in range(2, 42)]


def merge(file: Path) -> None:
    """Write both machines as one table: that with late instructions, then that with fresh operands."""
    machines = json.loads(file.read_text())
    late, fresh = machines["late"], machines["fresh"]
    symbols = [*late["letters"], *(x for x in fresh["letters"] if x not in late["letters"])]
    rows = list[list[tuple[int, int]]]()
    for machine, first in ((late, 0), (fresh, len(late["rows"]))):
        for row in machine["rows"]:
            known = dict(zip(machine["letters"], row, strict=True))
            like = [known.get(x) or known.get(x.replace("d", "e")) or known.get(x[-3:]) or known[IDLE] for x in symbols]
            rows.append([(first + state, waits) for state, waits in like])
    lines = {
        "next": [" ".join(str(state) for state, _ in row) for row in rows],
        "waits": ["".join(str(waits) for _, waits in row) for row in rows],
    }
    parts = [f' "{name}": [\n  ' + ",\n  ".join(map(json.dumps, part)) + "\n ]" for name, part in lines.items()]
    head = [f' "symbols": {json.dumps(symbols)}', f' "first": [{len(late["rows"])}, 0]']
    out = HERE.parents[1] / "src/warplens/simulate/files/register_reads.json"
    out.write_text("{\n" + ",\n".join(head + parts) + "\n}\n")


if __name__ == "__main__":
    what, place, *rest = sys.argv[1:]
    if what == "merge":
        merge(Path(place))
    elif what == "probe":
        asked = Asked(Path(place), fresh=False)
        rows = []
        for name, code in probes():
            first, last = asked.runs.stamps([code], [64], None, [])
            rows.append([name, last - first - 65 - len(code)])
        made = {**asked.runs.gpu.about(), "rows": rows, "distances": distances(asked.runs)}
        (Path(rest[0]) / "read_ports.json").write_text(json.dumps(made) + "\n")
    else:
        asked = Asked(Path(place), fresh=True)
        machines = {"fresh": learn(asked.waits, [IDLE, *PLAIN, *FRESH, *SAME], PLAIN)}
        if "fresh" not in rest:
            asked = Asked(Path(place), fresh=False)
            machines["late"] = learn(asked.waits, [IDLE, *PLAIN, *SAME, *LATE], [*PLAIN, "late eee"])
        (Path(rest[0]) / "read_ports_states.json").write_text(json.dumps(machines) + "\n")
