"""Which unit serves which instruction: each opcode alone and in turn with others, and what uniform registers cost.

    python data/h200/on_units.py build FOLDER    no GPU, the CUDA wheels: the kernel of orders.py, and the instructions
    python data/h200/on_units.py run FOLDER OUT  on the GPU: OUT/on_units.json

The instructions are the first of their opcode and modifiers in the repository's kernels, without guard, their result in
R44; only those of fixed latency. They fill a loop of 88 slots, alone or in turn with one or two others whose unit is
known, all with a stall of one: `cycles` has those of a turn of the loop, with one and with two warps of a scheduler.
`uniform` and `rows` are the cycles of a turn of one warp with the words of `uniform_words` and `row_words`.
"""

import ctypes
import json
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orders
from issue_order import CLOCK, CONTROL, NOP, Slot, s, word

ROOT = Path(__file__).resolve().parents[2]
RZ, URZ, TO = 255, 63, 44
FILLED, TURNS = orders.SLOTS - 2, 20
KINDS = ("int", "imul", "fp32", "half", "convert", "uniform", "shuffle")
# Of no fixed latency, or that need what the loop does not have; of comparisons three are enough.
WITHOUT = ("F2I", "FRND", "I2F ", "POPC", "S2R", "NOP", "SHFL", "UFLO", "VOTEU", "R2UR", "ULDC", "FCHK")
COMPARISONS = ("ISETP GE AND", "ISETP GT AND EX", "FSETP GE AND")
ADD = s("FADD", 1, 30, RZ, RZ)
OTHERS: dict[str, list[Slot]] = {
    "": [], "FADD": [ADD], "FADD FADD": [ADD, s("FADD", 1, 32, RZ, RZ)], "IADD3": [s("IADD3", 1, 26, RZ, RZ, RZ)],
    "IMAD": [s("IMAD", 1, 28, RZ, RZ, RZ)], "HFMA2": [s("HFMA2", 1, 34, RZ, RZ, RZ)],
    "HFMA2.MMA": [s("MMA", 1, 34, RZ, RZ, RZ)],
}  # fmt: skip


def uniform_words() -> list[list[Slot]]:
    """Return a uniform instruction and adds, with uniform registers of the same row of four and of others."""
    made = list[list[Slot]]()
    for name in ("USHF", "ULOP3"):
        for to in (48, 49, 42) if name == "USHF" else (48,):
            for a in (40, 41, 42, 43, 48, 49):
                for b in (URZ, 40, 41, 42, 43, 48):
                    for c in (40, 41, 42, 43, 48, 0) if name == "USHF" else (40, 42, 48, 0):
                        one = s(name, 1, to, a, b, *(URZ,) * (name == "ULOP3"))
                        adds = (
                            s("FADD.U", 1, 24 + i, 32 + i, c) if c else s("FADD", 1, 24 + i, 32 + i, RZ)
                            for i in range(4)
                        )
                        made.append([one, *adds])
    two = s("USHF", 1, 48, 48, 43)
    for adds_between in (1, 2, 3, 5, 7, 10, 14, 21, 43):
        places = [(24 + i % 8, 32 + i % 8) for i in range(adds_between)]
        made += [[two, *(s("FADD.U", 1, *at, c) for at in places)] for c in (40, 41, 48)]
        plain, reads = [s("FADD", 1, *at, RZ) for at in places], s("FADD.U", 1, 24, 32, 40)
        made += [[two, *plain, reads], [two, reads, *plain]]
    return made


def row_words() -> list[list[Slot]]:
    """Return USHF of UR4 or UR40 and each other uniform register, before adds that read UR40."""
    adds = [s("FADD.U", 1, 24 + i, 32 + i, 40) for i in range(4)]
    return [[s("USHF", 1, 62, a, b), *adds] for a in (4, 40) for b in range(63)]


def instructions(file: Path) -> dict[str, tuple[str, int]]:
    """Return the first instruction of each opcode with its modifiers in a file of kernels: its text and its bits."""
    from warplens.program import load_programs
    from warplens.program.compile import Options, compile_file
    from warplens.program.cubin import parse_cubin
    from warplens.program.toolkits import wheels_if_there

    found = dict[str, tuple[str, int]]()
    with tempfile.TemporaryDirectory() as folder:
        cubin = compile_file(file, Options(arch="sm_90", toolkit=wheels_if_there()), Path(folder)).cubin
        data, sections = cubin.read_bytes(), parse_cubin(cubin.read_bytes(), file.name).sections
        for name, program in load_programs(cubin).items():
            for x in program.instructions:
                key, control = " ".join((x.opcode, *x.modifiers)), x.control
                if key in found or control is None or control.write_scoreboard is not None or x.target is not None:
                    continue
                if x.kind not in KINDS or key.startswith(WITHOUT):
                    continue
                if key.startswith(("ISETP", "FSETP")) and key not in COMPARISONS:
                    continue
                at = sections[f".text.{name}"].start + x.offset
                bits = int.from_bytes(data[at : at + 16], "little") & ((1 << CONTROL) - 1) & ~(15 << 12) | 7 << 12
                text = x.text.split(" ", 1)[1] if x.text.startswith("@") else x.text
                if x.writes and x.writes[0].startswith("R"):
                    bits = bits & ~(255 << 16) | TO << 16
                    text = text.replace(f" {x.writes[0]}", f" R{TO}", 1)
                found[key] = text.replace(".reuse", ""), bits
    return found


def build(folder: Path) -> None:
    """Compile the kernel, and all of the repository's, those without headers first, for their instructions."""
    orders.build(folder)
    files = sorted([*(ROOT / "examples").rglob("*.cu"), *(ROOT / "data" / "h200" / "unseen").rglob("*.cu")])
    files.sort(key=lambda file: "#include" in file.read_text())
    found = dict[str, tuple[str, str]]()
    with ThreadPoolExecutor(2) as pool:
        for of_file in pool.map(instructions, files):
            for key, (text, bits) in of_file.items():
                found.setdefault(key, (text, f"{bits:x}"))
    (folder / "on_units_words.json").write_text(json.dumps(found, indent=0))


def looped(code: list[int]) -> list[int]:
    """Return so much of a code, again and again, as the loop has room for."""
    return code * (FILLED // len(code))


def per_turn(gpu: Any, folder: Path, code: list[int], warps: int) -> float:
    """Return the cycles of a turn of the loop with this code, with so many warps of a scheduler."""
    import numpy as np

    made, times = bytearray((folder / "orders.cubin").read_bytes()), list[int]()
    host = np.zeros((4, orders.SLOTS + 1), np.uint32)
    about = json.loads((folder / "orders_slots.json").read_text())
    end = [s(NOP, 1)] * (FILLED - len(code)) + [s(NOP, 11), s(CLOCK, 5, about["registers"][-1], y=True)]
    for i, bits in enumerate([*code, *(word(slot, int(about["clock"], 16)) for slot in end)]):
        made[about["at"] + 16 * i : about["at"] + 16 * i + 16] = bits.to_bytes(16, "little")
    module, kernel, stamps = ctypes.c_void_p(), ctypes.c_void_p(), gpu.memory(4096)
    gpu.call("cuModuleLoadData", ctypes.byref(module), bytes(made))
    gpu.call("cuModuleGetFunction", ctypes.byref(kernel), module, b"orders")
    for turns in (TURNS, 2 * TURNS):
        values = [stamps, *(ctypes.c_int(v) for v in (turns, warps, 0, 0))]
        arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        for _ in range(2):
            gpu.call("cuLaunchKernel", kernel, 1, 1, 1, 512, 1, 1, 4096, None, arguments, None)
            gpu.wait()
        gpu.get(stamps, host)
        times.append(int((host[:warps, -2] - host[warps - 1, -1]).astype(np.int32).max()))
    gpu.call("cuModuleUnload", module)
    gpu.call("cuMemFree_v2", stamps)
    return (times[1] - times[0]) / TURNS


def run(folder: Path, out: Path) -> None:
    """Run every instruction alone and in turn with the others, and the words of uniform registers."""
    from driver import Gpu

    gpu, rows = Gpu(), dict[str, dict[str, Any]]()
    control = (1 | 1 << 4 | 7 << 5 | 7 << 8) << CONTROL
    for key, (text, bits) in json.loads((folder / "on_units_words.json").read_text()).items():
        cycles = {}
        for name, slots in OTHERS.items():
            code = looped([int(bits, 16) | control, *(word(slot, 0) for slot in slots)])
            cycles[name] = [per_turn(gpu, folder, code, warps) for warps in (1, 2)]
        rows[key] = {"text": text, "word": bits, "cycles": cycles}
    made: dict[str, Any] = {**gpu.about(), "instructions": rows}
    for name, words in (("uniform", uniform_words()), ("rows", row_words())):
        made[name] = [per_turn(gpu, folder, looped([word(slot, 0) for slot in code]), 1) for code in words]
    (out / "on_units.json").write_text(json.dumps(made) + "\n")


if __name__ == "__main__":
    command: dict[str, Callable[..., None]] = {"build": build, "run": run}
    command[sys.argv[1]](*map(Path, sys.argv[2:]))
