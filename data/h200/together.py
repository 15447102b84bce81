"""Which warp of a scheduler goes first: two and three warps run the same random code, and read the clock in it.

    python data/h200/together.py build FOLDER    no GPU, the CUDA wheels: the kernel, and where its slots are
    python data/h200/together.py run FOLDER OUT  on the GPU: OUT/together.json

The code has no operands, so that no register port is asked, only the issue stage, and LOP3's unit, which the clock's
reads share. A row is a name (what it is of, the share that yields, warps, instructions between two clocks), the code
(`3y`: a stall of three that yields) and the clocks of each warp, from the first one's on.
"""

import ctypes
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from issue_order import CLOCK, NOP, Slot, s, word

HERE = Path(__file__).parent
BEFORE, STAMPS, KEPT = 8, 18, 7  # NOPs of 11 cycles before the code, clocks in it, and the repetition that is kept
OPS = {"N": (NOP, ()), "F": ("FADD", (255, 255)), "L": ("LOP3", (255, 255, 255))}
TARGETS = (0, 7)  # registers that the kernel does not use meanwhile


def programs() -> list[tuple[str, int, list[Slot]]]:
    """Return the names, warps and codes."""
    chance, found = random.Random(6), list[tuple[str, int, list[Slot]]]()

    def part(kind: str, count: int, stalls: tuple[int, ...], share: float) -> list[Slot]:
        what, sources = OPS[kind]
        made = list[Slot]()
        for _ in range(count):
            to = (chance.choice(TARGETS),) if sources else ()
            made.append(s(what, chance.choice(stalls), *to, *sources, y=chance.random() < share))
        return [*made, s(CLOCK, chance.choice(stalls), 0, y=chance.random() < share)]

    for kind in OPS:
        for share in (0.0, 0.5, 1.0):
            for warps in (2, 3):
                for count in (1, 4):
                    for _ in range(6):
                        code = [x for _ in range(STAMPS) for x in part(kind, count, (2, 3, 4, 5, 6), share)]
                        found.append((f"{kind} {share:g} {warps} {count}", warps, code))
    return found


def build(folder: Path) -> None:
    """Compile the kernel; keep it, where its slots are, how the clock is read, and into which registers."""
    from warplens.program import load_program, nvrtc
    from warplens.program.cubin import parse_cubin

    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "together.cubin"
    nvrtc.compile_source((HERE / "together.cu").read_text(), "together.cu", "sm_90", [], file)
    code = load_program(file, "together").instructions
    text = parse_cubin(file.read_bytes(), "together").sections[".text.together"].start
    clocks = [i for i, x in enumerate(code) if x.text.startswith("CS2R.32")][1:]
    every = [i for i in range(clocks[0], len(code)) if "SR_CLOCKLO" in code[i].text]
    last = next(i for i in range(clocks[-1], len(code)) if code[i].opcode == "BSSY")
    assert {x.opcode for x in code[clocks[0] : last]} == {"CS2R", "FADD", "S2UR"}
    assert len(every) == 24 and len(clocks) > STAMPS
    place = text + code[clocks[0]].offset
    clock = int.from_bytes(file.read_bytes()[place : place + 16], "little") & ((1 << 105) - 1) & ~(255 << 16)
    registers = [(every.index(i), int(code[i].text.split()[1][1:-1])) for i in clocks]
    about = {"at": place, "count": last - clocks[0], "clock": f"{clock:x}", "registers": registers}
    (folder / "together_slots.json").write_text(json.dumps(about))


def filled(cubin: bytes, about: dict[str, Any], code: list[Slot]) -> bytes:
    """Return the kernel with this code in its slots."""
    registers = [register for _, register in about["registers"]]
    slots = [s(CLOCK, 1, registers.pop(0)), *[s(NOP, 11)] * BEFORE]
    slots += [(CLOCK, (registers.pop(0),), x[2], x[3], 0) if x[0] == CLOCK else x for x in code]
    slots += [s(NOP, 11)] * 2
    assert len(slots) <= about["count"]
    slots += [s(NOP, 1)] * (about["count"] - len(slots))
    made = bytearray(cubin)
    for i, slot in enumerate(slots):
        place = about["at"] + 16 * i
        made[place : place + 16] = word(slot, int(about["clock"], 16)).to_bytes(16, "little")
    return bytes(made)


def run(folder: Path, out: Path) -> None:
    """Run all codes."""
    import numpy as np
    from driver import Gpu

    gpu, cubin = Gpu(), (folder / "together.cubin").read_bytes()
    about = json.loads((folder / "together_slots.json").read_text())
    stamps, data, host = gpu.memory(131072), gpu.memory(8192), np.zeros((12, 32, 32), np.uint32)
    kept, rows = [index for index, _ in about["registers"]][: STAMPS + 1], list[list[Any]]()
    for name, warps, code in programs():
        module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        gpu.call("cuModuleLoadData", ctypes.byref(module), filled(cubin, about, code))
        gpu.call("cuModuleGetFunction", ctypes.byref(kernel), module, b"together")
        values = [stamps, data, ctypes.c_int(warps)]
        arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        gpu.call("cuLaunchKernel", kernel, 1, 1, 1, 512, 1, 1, 0, None, arguments, None)
        gpu.wait()
        gpu.get(stamps, host)
        gpu.call("cuModuleUnload", module)
        seen = host[KEPT, :warps][:, kept]
        text = " ".join(f"{x[0]} {x[2]}{'y' * x[3]}" for x in code)
        rows.append([name, text, (seen - seen[0, 0]).astype(np.int32).tolist()])
    (out / "together.json").write_text(json.dumps({**gpu.about(), "rows": rows}) + "\n")


if __name__ == "__main__":
    command: dict[str, Callable[..., None]] = {"build": build, "run": run}
    command[sys.argv[1]](*map(Path, sys.argv[2:]))
