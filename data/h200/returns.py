"""What results of shared memory wait for: a lone warp loads, and goes on with adds, some of which write the same bank.

    python data/h200/returns.py build FOLDER    no GPU, the CUDA wheels: the kernel of issue_order.py, with more slots
    python data/h200/returns.py run FOLDER OUT  on the GPU: OUT/returns.json.gz

The words are the same ones each time: the file has what they took, by family, a list for each word. Of a word the clock
is read at many places, each in a run of its own: what came before is not disturbed. Families: loads at equal distances
among adds that write odd registers (`streams`); random words (`random`); one to two others at some place of a stream
(`among`); streams whose end waits for the scoreboard of the last load (`waits`), which are read at their end only.
"""

import gzip
import json
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import issue_order
from issue_order import CONTROL, NOP, Slot, s

HERE = Path(__file__).parent
RZ = 255
FEW, MANY = "#define A40" + " A4" * 10, "#define A40" + " A4" * 45
WAIT = 64  # cycles before a word
SETS, WAITS = ">", "<"  # behind the name: the result has the first scoreboard; waits for it
Word = tuple[list[Slot], range]  # its code, and before which of its instructions the clock is read
PLAIN = issue_order.word


def add(k: int, bank: int = 1) -> Slot:
    """Return an add without operands, the k-th in turn that writes this bank."""
    return s("FADD", 1, 24 + bank + 2 * (k % 4), RZ, RZ)


def load(register: int = 33, mark: str = "") -> Slot:
    """Return a load of the first word."""
    return s("LDS" + mark, 1, register, RZ)


def streams() -> list[Word]:
    """Return one to twelve loads, `apart` instructions from one to the next, among adds."""
    made = list[Word]()
    for apart in (1, 2, 3, 5, 8, 12):
        for loads in (1, 2, 3, 4, 6, 8, 12):
            if apart * loads > 100:
                continue
            for bank in (1, 0):
                places = range(0, apart * loads, apart)
                made.append(([load(32 + bank) if k in places else add(k) for k in range(150)], range(20, 150)))
    return made


def random_words() -> list[Word]:
    """Return loads by chance, one of so many, among adds of which some write the other bank, or NOPs."""
    made = list[Word]()
    for every in (3, 5, 9, 17):
        for share in (1.0, 0.95, 0.9, 0.8, 0.6):
            for seed in range(20):
                chance, code = random.Random(f"{every} {share} {seed}"), list[Slot]()
                for k in range(160):
                    if chance.random() < 1 / every:
                        code.append(load(chance.choice((33, 35, 37))))
                    elif chance.random() < share:
                        code.append(add(k))
                    else:
                        code.append(add(k, 0) if chance.random() < 0.5 else s(NOP, 1))
                made.append((code, range(20, 160, 4)))
    return made


def among() -> list[Word]:
    """Return one or four loads, and adds among which one or two others come when the results might."""
    kinds: tuple[Callable[[int], Slot], ...] = (
        lambda k: s(NOP, 1), lambda k: load(33), lambda k: load(32), lambda k: add(k, 0),
    )  # fmt: skip
    made = list[Word]()
    for kind in kinds:
        for loads in (1, 4):
            for place in range(26, 46):
                for others in (1, 2):
                    code = [
                        load() if k < loads else kind(k) if place <= k < place + others else add(k) for k in range(80)
                    ]
                    made.append((code, range(24, 72)))
    return made


def waits() -> list[Word]:
    """Return loads, 10 to 59 adds, and a NOP or an add that waits for the last load."""
    made, rest = list[list[Slot]](), [s(NOP, 1)] * 2
    for bank in (1, 0):
        for adds in range(10, 60):
            code = [load(mark=SETS), *(add(k, bank) for k in range(adds))]
            made.append([*code, s(NOP + WAITS, 1), *rest])
            made.append([*code, s("FADD" + WAITS, 1, 25, 33, RZ), *rest])
    for loads in (2, 3, 5):
        for adds in range(10, 60, 2):
            code = [*[load()] * (loads - 1), load(mark=SETS), *(add(k) for k in range(adds))]
            made.append([*code, s(NOP + WAITS, 1), *rest])
    return [(code, range(len(code), len(code) + 1)) for code in made]


def words() -> dict[str, list[Word]]:
    """Return the words of all families."""
    return {"streams": streams(), "random": random_words(), "among": among(), "waits": waits()}


def word(slot: Slot, clock: int) -> int:
    """Return the 128 bits of an instruction, with its scoreboard."""
    what = slot[0]
    bits = PLAIN((what.rstrip(SETS + WAITS), *slot[1:]), clock)
    if what.endswith(SETS):
        bits &= ~(7 << (CONTROL + 5))
    return bits | (1 << (CONTROL + 11) if what.endswith(WAITS) else 0)


def build(folder: Path) -> None:
    """Compile the kernel of issue_order.py with room for 180 instructions."""
    folder.mkdir(parents=True, exist_ok=True)
    source = (HERE / "issue_order.cu").read_text()
    assert FEW in source
    (folder / "issue_order.cu").write_text(source.replace(FEW, MANY))
    shutil.copy(HERE / "lone_warp.cubin", folder)
    issue_order.HERE = folder
    issue_order.build(folder)


def run(folder: Path, out: Path) -> None:
    """Run every word up to each of its places, and keep the cycles from the clock before it."""
    from driver import Gpu

    issue_order.word = word
    runs, rows = issue_order.Runs(folder, Gpu()), dict[str, list[list[int]]]()
    for family, made in words().items():
        rows[family] = []
        for code, places in made:
            stamps = [runs.stamps([code[:k]], [WAIT], None, []) for k in places]
            rows[family].append([last - first - WAIT - 1 for first, last in stamps])
    text = json.dumps({**runs.gpu.about(), "cycles": rows}, separators=(",", ":"))
    (out / "returns.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    command: dict[str, Callable[..., None]] = {"build": build, "run": run}
    command[sys.argv[1]](*map(Path, sys.argv[2:]))
