"""When what goes to shared memory and SFUs is done, to the cycle: code by hand, of a lone warp, and of one on each scheduler.

    python data/h200/shared_times.py build FOLDER    no GPU, the CUDA wheels: the kernel, and where its slots are
    python data/h200/shared_times.py run FOLDER OUT  on the GPU: OUT/shared_times.json, 10 s

As issue_order.py, with scoreboards: one instruction of a program has one, and the clock behind the program waits for
it. So a run says when its result is there, or when its registers have been read (stores).
"""

import ctypes
import itertools
import json
import random
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from issue_order import CLOCK, CONTROL, NOP, A, B, C, D

HERE = Path(__file__).parent
DELAYS = 10
LANE, BASE, BY4, BY8, BY16, SAME, NONE = 40, 39, 41, 42, 43, 44, 45  # registers: addresses by lane, zero
# The bits of an instruction without control code and registers, and where its registers are.
OPS: dict[str, tuple[int, tuple[int, ...]]] = {
    NOP: (0x7918, ()), "LANEID": (0x7919, (D,)), "MOV": (0xF00 << 64 | 0x7202, (D, B)), "IMAD4": (0x78E0000 << 64 | 4 << 32 | 0x7824, (D, A, C)),
    "IMAD8": (0x78E0000 << 64 | 8 << 32 | 0x7824, (D, A, C)), "IMAD16": (0x78E0000 << 64 | 16 << 32 | 0x7824, (D, A, C)),
    "BASE": (0xF00 << 64 | 0x400 << 32 | 0x7802, (D,)),
    "LDS": (0x800 << 64 | 0x7984, (D, A)), "LDS64": (0xA00 << 64 | 0x7984, (D, A)), "LDS128": (0xC00 << 64 | 0x7984, (D, A)),
    "STS": (0x800 << 64 | 0x7388, (A, B)), "STS64": (0xA00 << 64 | 0x7388, (A, B)), "STS128": (0xC00 << 64 | 0x7388, (A, B)),
    "ATOMS": (0x738C, (D, A, B)), "CAS": (0x738D, (D, A, B, C)),
    "BFLY": (0xE0000 << 64 | 0x0CA01F0000007F89, (D, A)), "IDX": (0xE0000 << 64 | 0x00001F0000007589, (D, A, B)),
    "MATCH": (0xE8000 << 64 | 0x73A1, (D, A)), "REDUX": (0xC200 << 64 | 0x73C4, (D, A)),
    "MUFU": (0x800 << 64 | 0x7308, (D, B)), "POPC": (0x7309, (D, B)), "F2F64": (0x201800 << 64 | 0x7310, (D, B)), "F2F32": (0x301000 << 64 | 0x7310, (D, B)),
    "S2R": (0x300 << 64 | 0x7919, (D,)),
}  # fmt: skip
# What is measured: the instruction, the registers it reads behind its result, and whether it has a result.
KINDS: dict[str, tuple[str, tuple[int, ...]]] = {
    "lds": ("LDS", (BY4,)), "lds_64": ("LDS64", (BY8,)), "lds_128": ("LDS128", (BY16,)), "lds_same": ("LDS", (SAME,)), "lds_128_same": ("LDS128", (SAME,)),
    "lds_2way": ("LDS", (BY8,)), "lds_4way": ("LDS", (BY16,)), "sts": ("STS", (BY4, 36)), "sts_64": ("STS64", (BY8, 36)), "sts_128": ("STS128", (BY16, 32)),
    "sts_own": ("STS", (BY4, BY4)), "sts_2way": ("STS", (BY8, 36)), "atoms": ("ATOMS", (BY4, NONE)), "cas": ("CAS", (BY4, NONE, NONE)), "cas_2": ("CAS", (BY4, 36, 37)), "bfly": ("BFLY", (36,)), "idx": ("IDX", (36, LANE)), "match": ("MATCH", (36,)),
    "redux": ("REDUX", (36,)), "mufu": ("MUFU", (36,)), "popc": ("POPC", (36,)), "f2f_64": ("F2F64", (36,)), "f2f_32": ("F2F32", (36,)), "s2r": ("S2R", ()),
}  # fmt: skip
WITHOUT = ("sts", "sts_64", "sts_128", "sts_own", "sts_2way")
Slot = tuple[str, int, tuple[int, ...], tuple[int, ...]]  # what, its stall count, its scoreboards (write, read), waits
Case = tuple[list[int], list[list[Slot]], list[int]]  # warps, their programs, and cycles before these


def op(kind: str, stall: int, number: int = 0, *, write: int = 7, read: int = 7, wait: Sequence[int] = ()) -> tuple[Any, ...]:
    """Return an instruction; its result goes to the registers of its number."""
    what, reads = KINDS[kind]
    result = () if kind in WITHOUT else (8,) if kind == "redux" else (4 + 4 * (number % 7),)
    return what, stall, (*result, *reads), (write, read), tuple(wait)


def plain(what: str, stall: int, *registers: int, write: int = 7, wait: Sequence[int] = ()) -> tuple[Any, ...]:
    """Return an instruction by its name."""
    return what, stall, registers, (write, 7), tuple(wait)


@cache
def word(slot: tuple[Any, ...], clock: int) -> bytes:
    """Return the 128 bits of an instruction."""
    what, stall, registers, (write, read), waits = slot
    bits, fields = OPS[what] if what != CLOCK else (clock, (D,))
    for register, field in zip(registers, fields, strict=True):
        bits |= register << field
    mask = sum(1 << k for k in waits)
    return (bits | (stall | (stall < 12) << 4 | write << 5 | read << 8 | mask << 11) << CONTROL).to_bytes(16, "little")


SETUP = [plain("LANEID", 2, LANE, write=5), plain("BASE", 8, BASE), plain("IMAD4", 6, BY4, LANE, BASE, wait=[5]), plain("IMAD8", 6, BY8, LANE, BASE),
         plain("IMAD16", 6, BY16, LANE, BASE), plain("MOV", 6, SAME, BASE), plain("MOV", 6, NONE, 255), *[plain("MOV", 6, k, 255) for k in range(32, 39)]]  # fmt: skip


class Runs:
    """The kernel, filled and run."""

    def __init__(self, folder: Path, gpu: Any) -> None:
        self.gpu, self.count = gpu, 0
        self.cubin = (folder / "shared_times.cubin").read_bytes()
        about = json.loads((folder / "shared_times_slots.json").read_text())
        self.bodies, self.clock = about["bodies"], int(about["clock"], 16)
        self.out, self.data = gpu.memory(4096), gpu.memory(8192)

    def filled(self, programs: list[list[Any]], waits: Sequence[int]) -> bytes:
        """Return the kernel with these programs; the clock behind each waits for the first scoreboards."""
        code = bytearray(self.cubin)
        for group, (place, count) in enumerate(self.bodies):
            program, wait = (programs[group], waits[group]) if group < len(programs) else ([], DELAYS)
            delay = [plain(NOP, wait // DELAYS + (i < wait % DELAYS)) for i in range(DELAYS)]
            slots = [*SETUP, plain(CLOCK, 1, 2), *delay, *program, plain(CLOCK, 11, 3, wait=[0, 1, 2, 3])]
            slots += [plain(NOP, 11)] * (count - len(slots))
            assert len(slots) == count, len(slots) - count
            for i, slot in enumerate(slots):
                code[place + 16 * i : place + 16 * i + 16] = word(slot, self.clock)
        return bytes(code)

    def stamps(self, warps: Sequence[int], programs: list[list[Any]], waits: Sequence[int], launches: int = 1) -> list[list[int]]:
        """Return for some launches when each warp began and ended, from the first one's begin on."""
        import numpy as np

        gpu, module, kernel, host = self.gpu, ctypes.c_void_p(), ctypes.c_void_p(), np.zeros(8, np.uint32)
        gpu.call("cuModuleLoadData", ctypes.byref(module), self.filled(programs, waits))
        gpu.call("cuModuleGetFunction", ctypes.byref(kernel), module, b"trace")
        places = ctypes.c_uint32(sum(w << 8 * g for g, w in enumerate(warps)))
        values = [self.out, self.data, ctypes.c_int(len(programs)), places]
        arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        seen = []
        for _ in range(launches):
            gpu.call("cuLaunchKernel", kernel, 1, 1, 1, 512, 1, 1, 0, None, arguments, None)
            gpu.wait()
            gpu.get(self.out, host)
            seen.append([int(t) for t in (host[: 2 * len(programs)] - host[0]).astype(np.int32)])
        gpu.call("cuModuleUnload", module)
        self.count += 1
        return seen


def watched(program: list[Any], at: int) -> list[Any]:
    """Return the program up to an instruction, which has a scoreboard: of its result, or of its sources."""
    what, stall, registers, _, waits = program[at]
    stores = what.startswith("STS")
    return [*program[:at], (what, max(2, stall), registers, (7, 0) if stores else (0, 7), waits), *program[at + 1 :]]


def alone(runs: Runs) -> list[Any]:
    """Several of one kind in a row, each watched; one of a kind, and one of another so many cycles behind it."""
    rows = list[Any]()
    base = runs.stamps([0], [[]], [20])[0][1]
    for kind, stall in itertools.product(KINDS, (1, 2, 4, 8)):
        program = [op(kind, stall, k) for k in range(7)]
        taken = [runs.stamps([0], [watched(program[: k + 1], k)], [20])[0][1] - base for k in range(7)]
        rows.append(["row", kind, stall, taken])
    for first, second in itertools.product(KINDS, KINDS):
        programs = [watched([op(first, apart, 0), op(second, 2, 6)], 1) for apart in APART]
        rows.append(["pair", first, second, [runs.stamps([0], [p], [20])[0][1] - base for p in programs]])
    return rows


APART = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15)
FEW = ("lds", "lds_64", "lds_128", "lds_2way", "sts", "sts_64", "sts_128", "atoms", "cas", "bfly", "idx")


def two(runs: Runs) -> list[Any]:
    """One of one kind, and one of another on another scheduler: by how much both are later, by the cycles between."""
    rows = list[Any]()
    alone = {kind: runs.stamps([0], [watched([op(kind, 2)], 0)], [20])[0][1] - 21 for kind in FEW}
    for first, second in itertools.product(FEW, FEW):
        seen = []
        for later in range(20, 52):
            programs = [watched([op(first, 2, 0)], 0), watched([op(second, 2, 1)], 0)]
            begun, end, other, last = runs.stamps([0, 1], programs, [34, later])[0]
            apart = other + later - begun - 34
            seen.append([apart, end - begun - 35 - alone[first], last - other - later - 1 - alone[second]])
        rows.append(["two", first, second, [found for found in seen if found[1:] != [0, 0]]])
    return rows


def rounds(kind: str, count: int) -> list[Any]:
    """Return chains of the laboratory: each access waits for that of the round before."""
    program = list[Any]()
    for k in range(count):
        if kind == "sts_lds":
            program += [op("sts", 4, wait=[0] if k else []), op("lds", 4, k, write=0)]
        elif kind.endswith(" 1"):
            program += [op(kind[:-2], 4, k, write=0, wait=[0] if k else [])]
        else:
            chains = int(kind[-1])
            program += [op(kind[:-2], 4 if c < chains - 1 else 2, chains * k + c, write=c) for c in range(chains)]
            program += [plain(NOP, 2 if c < chains - 1 else 4, wait=[c]) for c in range(chains)]
    return program


def many(runs: Runs) -> list[Any]:
    """Chains of accesses, on one to four schedulers, which begin at different cycles."""
    rows, chance = list[Any](), random.Random(5)
    kinds = ["lds 2", "lds_64 2", "lds_128 2", "cas 2", "sts_lds", "lds_64 4"]
    for kind, places in itertools.product(kinds, ([0], [0, 1, 2, 3], [0, 4])):
        for trial in range(1 if len(places) == 1 else 6):
            waits = [30 + (chance.randrange(24) if trial else 0) for _ in places]
            most = 4 if kind.endswith("4") else 7
            seen = [runs.stamps(places, [rounds(kind, n)] * len(places), waits) for n in range(1, most + 1)]
            rows.append(["rounds", kind, places, waits, [s[0] for s in seen]])
    return rows


def meet(runs: Runs) -> list[Any]:
    """One to three of a kind of a warp on each scheduler, that come within some cycles: when the last of each is there.

    A row: the kind, how many of each, when the first ones came, and when the last ones were there.
    """
    rows = list[Any]()
    for kind, count in itertools.product(("lds", "lds_same", "lds_64", "sts", "atoms", "cas", "bfly"), (1, 2, 3)):
        program = watched([op(kind, 1, k) for k in range(count)], count - 1)
        offsets = range(5 if count == 1 and kind in ("lds", "lds_same") else 4)
        for later in itertools.product(offsets, repeat=4):
            waits = [wait + more for wait, more in zip((40, 44, 28, 30), later, strict=True)]  # most often they meet so
            for begins in runs.stamps([0, 1, 2, 3], [program] * 4, waits, 2):
                came = [begin + wait for begin, wait in zip(begins[::2], waits, strict=True)]
                if max(came) - min(came) <= 8:
                    rows.append(["meet", kind, count, came, begins[1::2]])
    return rows


def build(folder: Path) -> None:
    """Compile the kernel; keep it, where each body's slots are, and how the clock is read."""
    from warplens.program import load_program, load_programs, nvrtc
    from warplens.program.cubin import parse_cubin

    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "shared_times.cubin"
    made_by = nvrtc.compile_source((HERE / "shared_times.cu").read_text(), "shared_times.cu", "sm_90", [], file)
    code = load_program(file, "trace").instructions
    text = parse_cubin(file.read_bytes(), "trace").sections[".text.trace"].start
    loaded = [x.writes[0] for x in code if x.opcode == "LDG"]
    bodies: dict[int, list[int]] = {}
    for first in [i for i, x in enumerate(code) if "CLOCK" in x.text][::2]:
        last = next(i for i in range(first, len(code)) if code[i].text.startswith("MOV R3,"))
        assert {x.opcode for x in code[first : last + 1]} == {"S2UR", "NOP", "MOV", "FADD"}
        added = next(x for x in code[first:] if x.opcode == "FADD")
        bodies[loaded.index(added.writes[0]) // 2] = [text + code[first].offset, last + 1 - first]
    lone = HERE / "lone_warp.cubin"
    data, cubin = lone.read_bytes(), parse_cubin(lone.read_bytes(), "lone")
    name, program = next(iter(load_programs(lone).items()))
    at = next(x for x in program.instructions if x.text.startswith("CS2R.32") and "CLOCKLO" in x.text)
    place = cubin.sections[f".text.{name}"].start + at.offset
    clock = int.from_bytes(data[place : place + 16], "little") & ((1 << CONTROL) - 1) & ~(255 << D)
    about = {"compiler": made_by, "bodies": [bodies[g] for g in range(4)], "clock": f"{clock:x}"}
    (folder / "shared_times_slots.json").write_text(json.dumps(about))


def run(folder: Path, out: Path) -> None:
    """Run all programs."""
    from driver import Gpu

    runs, rows = Runs(folder, Gpu()), list[Any]()
    for part in (alone, many, two, meet):
        rows += part(runs)
        print(part.__name__, runs.count, len(rows), flush=True)
        (out / "shared_times.json").write_text(json.dumps({**runs.gpu.about(), "rows": rows}) + "\n")


if __name__ == "__main__":
    command: dict[str, Callable[..., None]] = {"build": build, "run": run}
    command[sys.argv[1]](*map(Path, sys.argv[2:]))
