"""Which warp of a scheduler issues when: up to four warps, each with code of its own, cycle by cycle.

    python data/h200/issue_order.py build FOLDER   no GPU, the CUDA wheels: the kernel, and where its slots are
    python data/h200/issue_order.py run FOLDER OUT on the GPU: OUT/issue_order.json

The kernel has four bodies of slots that are filled with instructions written by hand, their stall counts and yields
too. Warps of one scheduler meet at a barrier, wait so long that they begin at wanted cycles, and run. A run reads the
clock in place of one instruction of one warp; what came before it is not disturbed. So many runs give the whole order.
"""

import ctypes
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CONTROL = 105
CLOCK, NOP = "CLOCK", "NOP"
DELAYS = 10
# The bits of an instruction without control code and registers, and where its registers are.
D, A, B, C = 16, 24, 32, 64
OPS: dict[str, tuple[int, tuple[int, ...]]] = {
    "FADD": (0x7221, (D, A, B)), "FFMA": (0x7223, (D, A, B, C)), "FMUL": (0x400000 << 64 | 0x7220, (D, A, B)),
    "IMAD": (0x78E0200 << 64 | 0x7224, (D, A, B, C)), "LOP3": (0x78E7800 << 64 | 0x7212, (D, A, B, C)),
    "IADD3": (0x7FFE000 << 64 | 0x7210, (D, A, B, C)), "PRMT": (0x7216, (D, A, B, C)),
    "FMNMX": (0x3800000 << 64 | 0x7209, (D, A, B)), "DADD": (0x7229, (D, A, C)), "DFMA": (0x722B, (D, A, B, C)),
    "HFMA2": (0x7231, (D, A, B, C)), "MMA": (0x7235, (D, A, B, C)), "HADD2": (0x7230, (D, A, B)),
    "MUFU": (0x800 << 64 | 0x7308, (D, B)), "LDS": (0x8000800 << 64 | 4 << B | 0x7984, (D, A)), "MOV": (0xF00 << 64 | 0x7202, (D, B)),
    "WIDE": (0x78E0000 << 64 | 0x7225, (D, A, B, C)), NOP: (0x7918, ()), "BRA": (0x3800000 << 64 | 0x7947, ()),
    "ISETP": (0x3F45270 << 64 | 0x720C, (A, B)), "HIGH": (0x78E0000 << 64 | 0x7227, (D, A, B, C)),
    "FADD.U": (0x8000000 << 64 | 0x7E21, (D, A, B)), "FFMA.U": (0x8000000 << 64 | 0x7C23, (D, A, B, C)),
    "USHF": (0x8010E00 << 64 | 5 << B | 0x7899, (D, A, C)), "UIMAD": (0xF8E0200 << 64 | 0x72A4, (D, A, B, C)),
    "ULOP3": (0xF8E3C00 << 64 | 0x7292, (D, A, B, C)), "UIADD3": (0xFFFE000 << 64 | 0x7290, (D, A, B, C)),
}  # fmt: skip
Slot = tuple[str, tuple[int, ...], int, bool, int]  # what, its registers, stall count, whether it yields, what is kept


def s(what: str, stall: int, *registers: int, y: bool = False, reuse: int = 0) -> Slot:
    """Return an instruction; `reuse` has a bit for each lane that keeps its operand."""
    return what, registers, stall, y, reuse


def word(slot: Slot, clock: int) -> int:
    """Return the 128 bits of an instruction."""
    what, registers, stall, yields, reuse = slot
    bits, fields = OPS[what] if what != CLOCK else (clock, (D,))
    for register, field in zip(registers, fields, strict=True):
        bits |= register << field
    return bits | (stall | (not yields) << 4 | 7 << 5 | 7 << 8 | reuse << 17) << CONTROL


def scenarios() -> dict[str, tuple[list[list[Slot]], list[int]]]:
    """The programs of the warps, and the cycles at which they begin."""
    found: dict[str, tuple[list[list[Slot]], list[int]]] = {}
    add = (40, 16, 17)

    def warps(name: str, *programs: list[Slot], begin: tuple[int, ...] = ()) -> None:
        found[name] = ([p[:30] for p in programs], list(begin or (0,) * len(programs)))

    for stall in (1, 2, 3, 4):
        for y in (False, True):
            for n in (2, 3, 4):
                warps(f"fadd {stall}{'y' * y} x{n}", *[[s("FADD", stall, *add, y=y)] * 14] * n)
    for n in (1, 2, 3):
        warps(f"iadd3 2 x{n}", *[[s("IADD3", 2, 40, 16, 17, 255)] * 12] * n)
        warps(f"iadd3 1 x{n}", *[[s("IADD3", 1, 40, 16, 17, 255)] * 12] * n)
        warps(f"fadd 1114 x{n}", *[[s("FADD", k, *add) for k in (1, 1, 1, 4)] * 4] * n)
        warps(f"fadd 1114y x{n}", *[[s("FADD", k, *add, y=k > 2) for k in (1, 1, 1, 4)] * 4] * n)
    # operands of one bank
    two, three = (40, 16, 18, 17), (40, 16, 18, 20)
    for n in (1, 2, 3):
        warps(f"ffma2 1 x{n}", *[[s("FFMA", 1, *two)] * 14] * n)
        warps(f"ffma3 1 x{n}", *[[s("FFMA", 1, *three)] * 14] * n)
        warps(f"ffma2 4y x{n}", *[[s("FFMA", 4, *two, y=True)] * 10] * n)
        warps(f"ffma3 4y x{n}", *[[s("FFMA", 4, *three, y=True)] * 10] * n)
    warps("ffma2 fadd fadd alone", [s("FFMA", 1, *two), s("FADD", 1, *add), s("FADD", 1, *add)] * 6)
    warps("ffma3 fadd fadd alone", [s("FFMA", 1, *three), s("FADD", 1, *add), s("FADD", 1, *add)] * 6)
    for name, other in {"e": (40, 16, 16), "o": (40, 17, 17), "eo": add, "none": (40, 255, 255)}.items():
        for d in (1, 2):
            for long, regs in (("ffma2", two), ("ffma3", three)):
                warps(f"{long} 6, fadd {name} 6 +{d}", [s("FFMA", 6, *regs)] * 8, [s("FADD", 6, *other)] * 8, begin=(0, d))
    for name, other in {"e": 16, "o": 17}.items():
        regs = (40, other, other, 255)
        warps(f"ffma2 6, iadd3 {name} 6 +1", [s("FFMA", 6, *two)] * 8, [s("IADD3", 6, *regs)] * 8, begin=(0, 1))
        warps(f"lop3 6, fadd {name} 6 +1", [s("LOP3", 6, 40, 16, 17, 18)] * 8, [s("FADD", 6, 40, other, other)] * 8, begin=(0, 1))
        warps(f"imad 6, fadd {name} 6 +1", [s("IMAD", 6, 40, 16, 17, 18)] * 8, [s("FADD", 6, 40, other, other)] * 8, begin=(0, 1))
    # two units in turn, as the laboratory's pairs
    lop, mad, fad = (23, 23, 16, 17), (23, 16, 23, 17), (23, 16, 23)
    for d in range(5):
        warps(f"lop3 fadd +{d}", *[[s("LOP3", 5, *lop, y=True), s("FADD", 5, *fad, y=True)] * 8] * 2, begin=(0, d))
        warps(f"imad fadd +{d}", *[[s("IMAD", 4, *mad, y=True), s("FADD", 4, *fad, y=True)] * 8] * 2, begin=(0, d))
        warps(f"imad lop3 +{d}", *[[s("IMAD", 5, *mad, y=True), s("LOP3", 5, *lop, y=True)] * 8] * 2, begin=(0, d))
        warps(f"wide lop3 +{d}", *[[s("WIDE", 5, 24, 24, 25, 255, y=True), s("LOP3", 5, 24, 24, 16, 17, y=True)] * 8] * 2, begin=(0, d))
    # the end of the laboratory's loops
    tail = [s("FADD", 4, 23, 16, 23, y=True)] * 2 + [s("FADD", 1, 23, 16, 23), s("MOV", 4, 41, 255, y=True),
            s("IADD3", 2, 40, 16, 41, 255), s("IADD3", 2, 41, 18, 255, 255), s("IADD3", 2, 42, 40, 19, 255),
            s("IADD3", 2, 42, 40, 21, 255), s("IADD3", 9, 42, 40, 22, 255, y=True), s("IADD3", 4, 42, 40, 255, 255, y=True),
            s("MOV", 1, 43, 40), s("NOP", 6)] + [s("FADD", 4, 23, 16, 23, y=True)] * 6  # fmt: skip
    for d in (0, 1, 2, 3, 6):
        warps(f"tail +{d}", tail, tail, begin=(0, d))
    warps("tail x3", tail, tail, tail)
    # one unit or several
    one = (40, 16, 16, 16)
    units = {"HFMA2": one, "MMA": one, "IMAD": one, "LOP3": one, "FADD": (40, 16, 16), "DADD": (40, 16, 16), "FMNMX": (40, 16, 16)}
    for what, regs in units.items():
        warps(f"{what} 1 alone", [s(what, 1, *regs)] * 14)
    warps("HFMA2 MMA 1 alone", [s("HFMA2", 1, *one), s("MMA", 1, *one)] * 7)
    for what, other in (("HFMA2", "MMA"), ("HFMA2", "FADD"), ("HFMA2", "IMAD"), ("HFMA2", "LOP3"), ("HFMA2", "HFMA2"),
                        ("MMA", "FADD"), ("MMA", "IMAD"), ("MMA", "LOP3"), ("MMA", "MMA"), ("IMAD", "FADD"), ("IMAD", "LOP3"),
                        ("LOP3", "FADD"), ("DADD", "FADD"), ("DADD", "LOP3"), ("DADD", "MMA"), ("DADD", "DADD"), ("IMAD", "IMAD")):  # fmt: skip
        a, b = [s(what, 1, *units[what])] * 12, [s(other, 1, *((18 if other == "DADD" else 17) if r == 16 else r for r in units[other]))] * 12
        warps(f"{what} 1, {other} 1", a, b)
    for n in (2, 3, 4):
        warps(f"hfma2 mma x{n}", *[[s("HFMA2", 6, 23, 23, 16, 17, y=True), s("MMA", 10, 23, 23, 18, 19, y=True)] * 6] * n)
        warps(f"hfma2_1 mma_1 x{n}", *[[s("HFMA2", 6, 23, 23, 23, 23, y=True), s("MMA", 10, 23, 23, 23, 23, y=True)] * 6] * n)
        warps(f"mma 1 x{n}", *[[s("MMA", 1, *one)] * 12] * n)
    warps("dfma alone", [s("DFMA", 1, 40, 16, 18, 20)] * 10)
    warps("dadd alone", [s("DADD", 1, 40, 16, 18)] * 10)
    for name, other in {"e": (40, 16, 16), "o": (40, 17, 17), "eo": add, "none": (40, 255, 255)}.items():
        warps(f"dadd 1, fadd {name} 2", [s("DADD", 1, 40, 16, 18)] * 10, [s("FADD", 2, *other)] * 14)
        warps(f"dadd_1 1, fadd {name} 2", [s("DADD", 1, 40, 16, 16)] * 10, [s("FADD", 2, *other)] * 14)
    # operands and results of SFU and shared memory
    wait = [s("NOP", 11)] * 3
    for name, other in {"e": (40, 16, 16), "o": (40, 17, 17), "eo": add}.items():
        stream = [s("FADD", 1, *other)] * 14
        for what in ("MUFU", "LDS"):
            source = 18 if what == "MUFU" else 255
            later = (0, 12 if what == "MUFU" else 18)
            warps(f"{what} reads, fadd {name}", [s(what, 1, 255, source)] * 2 + wait, stream, begin=(0, 1))
            warps(f"{what} writes e, fadd {name}", [s(what, 1, 42, 255)] * 2 + wait, stream, begin=later)
    # what takes two slots
    beat = [s("FADD", 2, *add, y=True)] * 16
    for name, slot in {"clock": s(CLOCK, 9, 41), "bra": s("BRA", 9), "nop": s(NOP, 9), "isetp": s("ISETP", 9, 16, 17)}.items():
        warps(f"{name} among fadd 2y", beat, [s(NOP, 2, y=True)] * 3 + [slot, s(NOP, 9)])
        warps(f"{name} in fadd 1", [s("FADD", 1, *add)] * 4 + [s(slot[0], 1, *slot[1])] + [s("FADD", 1, *add)] * 4)
    for y in (False, True):
        for n in (2, 3):
            warps(f"iadd3 4{'y' * y} x{n}", *[[s("IADD3", 4, 40, 16, 17, 255, y=y)] * 12] * n)
            warps(f"lop3 4{'y' * y} x{n}", *[[s("LOP3", 4, 40, 16, 17, 18, y=y)] * 12] * n)
            warps(f"imad 4{'y' * y} x{n}", *[[s("IMAD", 4, 40, 16, 17, 18, y=y)] * 12] * n)
        warps(f"iadd3 2{'y' * y} x2 again", *[[s("IADD3", 2, 40, 16, 17, 255, y=y)] * 12] * 2)
    # the end and the begin of loops of the laboratory
    ends = [s(CLOCK, 5, 45, y=True), s("IMAD", 2, 44, 45, 255, 18), s("IADD3", 3, 45, 42, 255, 255, y=True),
            s("ISETP", 2, 44, 47), s("ISETP", 2, 255, 43), s("IADD3", 9, 36, 36, 255, 255, y=True),
            s("IMAD", 4, 45, 255, 255, 42, y=True), s("IMAD", 1, 42, 255, 255, 45), s("BRA", 6)]  # fmt: skip
    for name, pair in {"lop3 fadd": (s("LOP3", 5, *lop, y=True), s("FADD", 5, *fad, y=True)),
                       "imad lop3": (s("IMAD", 5, *mad, y=True), s("LOP3", 5, *lop, y=True)),
                       "imad fadd": (s("IMAD", 4, *mad, y=True), s("FADD", 4, *fad, y=True))}.items():  # fmt: skip
        last = s(pair[1][0], 1 if pair[1][0] == "FADD" else 2, *pair[1][1])
        whole = [*pair, pair[0], last, *ends, *pair, *pair, *pair]
        for d in range(6):
            warps(f"end of {name} +{d}", whole, whole, begin=(0, d))
    warps("MUFU alone", [s("MUFU", 1, 42, 18)] * 8)
    warps("LDS alone", [s("LDS", 1, 42, 255)] * 10)
    warps("MUFU x2", *[[s("MUFU", 1, 42, 18)] * 6] * 2)
    warps("MUFU x3", *[[s("MUFU", 1, 42, 18)] * 5] * 3)
    return found


def build(folder: Path) -> None:
    """Compile the kernel; keep it, where each body's slots are, and how the clock is read."""
    from warplens.program import load_program, load_programs, nvrtc
    from warplens.program.cubin import parse_cubin

    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "issue_order.cubin"
    made_by = nvrtc.compile_source((HERE / "issue_order.cu").read_text(), "issue_order.cu", "sm_90", [], file)
    code = load_program(file, "trace").instructions
    text = parse_cubin(file.read_bytes(), "trace").sections[".text.trace"].start
    firsts = [i for i, x in enumerate(code) if "CLOCK" in x.text][::2]
    bodies = []
    for first in firsts:
        last = next(i for i in range(first, len(code)) if code[i].text.startswith("MOV R3,"))
        assert {x.opcode for x in code[first : last + 1]} == {"S2UR", "NOP", "MOV", "FADD"}
        bodies.append([text + code[first].offset, last + 1 - first])
    lone = HERE / "lone_warp.cubin"
    data, cubin = lone.read_bytes(), parse_cubin(lone.read_bytes(), "lone")
    name, program = next(iter(load_programs(lone).items()))
    at = next(x for x in program.instructions if x.text.startswith("CS2R.32") and "CLOCKLO" in x.text)
    place = cubin.sections[f".text.{name}"].start + at.offset
    clock = int.from_bytes(data[place : place + 16], "little") & ((1 << CONTROL) - 1) & ~(255 << D)
    about = {"compiler": made_by, "bodies": bodies[::-1], "clock": f"{clock:x}"}  # the first warp's body is the last
    (folder / "issue_order_slots.json").write_text(json.dumps(about))


class Runs:
    """The kernel, filled and run."""

    def __init__(self, folder: Path, gpu: Any) -> None:
        self.gpu = gpu
        self.cubin = (folder / "issue_order.cubin").read_bytes()
        self.about = json.loads((folder / "issue_order_slots.json").read_text())
        self.clock = int(self.about["clock"], 16)
        self.out, self.data = self.gpu.memory(4096), self.gpu.memory(8192)

    def filled(self, programs: list[list[Slot]], waits: list[int], at: tuple[int, int] | None) -> bytes:
        """Return the kernel with these programs, and the clock read at one slot of one of them."""
        code = bytearray(self.cubin)
        for group, (place, count) in enumerate(self.about["bodies"]):
            program = list(programs[group]) if group < len(programs) else []
            wait = waits[group] if group < len(waits) else DELAYS
            stalls = [wait // DELAYS + (i < wait % DELAYS) for i in range(DELAYS)]
            slots = [s(CLOCK, 1, 2), *(s(NOP, k) for k in stalls), *program]
            end = s(CLOCK, 11, 3)
            if at is not None and at[0] == group:
                slots[1 + DELAYS + at[1] : 2 + DELAYS + at[1]] = [end]
                end = s(NOP, 11)
            slots += [end, s(NOP, 11)]
            slots += [s(NOP, 1)] * (count - len(slots))
            assert len(slots) == count
            for i, slot in enumerate(slots):
                code[place + 16 * i : place + 16 * i + 16] = word(slot, self.clock).to_bytes(16, "little")
        return bytes(code)

    def stamps(
        self, programs: list[list[Slot]], waits: list[int], at: tuple[int, int] | None, begun: list[int]
    ) -> list[int]:
        """Return the two looks at the clock of each warp, from the first one's on."""
        import numpy as np

        gpu, module, kernel, host = self.gpu, ctypes.c_void_p(), ctypes.c_void_p(), np.zeros(8, np.uint32)
        gpu.call("cuModuleLoadData", ctypes.byref(module), self.filled(programs, waits, at))
        gpu.call("cuModuleGetFunction", ctypes.byref(kernel), module, b"trace")
        values = [self.out, self.data, ctypes.c_int(len(programs))]
        arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        seen = []
        for _ in range(1 if not begun else 60):
            gpu.call("cuLaunchKernel", kernel, 1, 1, 1, 512, 1, 1, 0, None, arguments, None)
            gpu.wait()
            gpu.get(self.out, host)
            seen = [int(t) for t in (host[: 2 * len(programs)] - host[0]).astype(np.int32)]
            if begun == seen[::2]:
                break
        gpu.call("cuModuleUnload", module)
        return seen

    def begun(self, programs: list[list[Slot]], waits: list[int]) -> list[int]:
        """Return when the warps most often come to the begin of their code."""
        seen = [tuple(self.stamps(programs, waits, None, [])[::2]) for _ in range(9)]
        return list(max(set(seen), key=seen.count))


def run(folder: Path, out: Path) -> None:
    """Run every scenario: first so that the warps begin when they should, then slot by slot."""
    from driver import Failure, Gpu

    runs = Runs(folder, Gpu())
    rows: list[dict[str, Any]] = []
    for name, (programs, begin) in scenarios().items():
        waits = [64 + d for d in begin]
        try:
            for _ in range(3):
                begun = runs.begun(programs, waits)
                waits = [max(DELAYS, min(11 * DELAYS, 64 + d - t)) for d, t in zip(begin, begun, strict=True)]
            begun = runs.begun(programs, waits)
            order = [
                [runs.stamps(programs, waits, (g, k), begun) for k in range(len(p) + 1)] for g, p in enumerate(programs)
            ]
        except Failure as error:
            print(name, error)
            runs.gpu.reset()
            runs = Runs(folder, runs.gpu)
            continue
        rows.append({"name": name, "begin": begin, "begun": begun, "waits": waits, "stamps": order})
        met = sum(row[::2] == begun for part in order for row in part) / sum(map(len, order))
        print(name, begun, round(met, 2), [[row[2 * g + 1] for row in part] for g, part in enumerate(order)], flush=True)
    (out / "issue_order.json").write_text(json.dumps({**runs.gpu.about(), "rows": rows}) + "\n")


if __name__ == "__main__":
    command: dict[str, Callable[..., None]] = {"build": build, "run": run}
    command[sys.argv[1]](*map(Path, sys.argv[2:]))
