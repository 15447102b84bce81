"""What the end of a loop costs where two warps of a scheduler come to it, by how far they are apart.

    python data/h200/orders.py build FOLDER       no GPU, the CUDA wheels: the kernel, and where its slots are
    python data/h200/loop_ends.py FOLDER OUT      on the GPU: OUT/loop_ends.json.gz

The body is a chain of FADD between two reads of the clock; before it one of the warps jumps over some NOPs, the other
waits for them. `clocks` has for each case and each of the first three turns the two reads of each warp.
"""

import ctypes
import gzip
import json
import sys
from pathlib import Path
from typing import Any

from issue_order import CLOCK, CONTROL, NOP, Slot, word
from orders import RZ, SLOTS

LONGEST, APART = 11, 64  # stalls of a NOP, and cycles of all that are jumped over
AGAIN, TURNS, MORE = 3, 3, 8
FREE = 1 << 4 | 7 << 5 | 7 << 8  # a control code that neither yields nor waits


def cases() -> list[tuple[int, int, bool, int]]:
    """Return warps, cycles that are jumped over, whether the first warp jumps or the second, the stall of a FADD."""
    both = [(2, cycles, first, stall) for stall in (4, 8, 2) for first in (False, True) for cycles in range(1, APART)]
    return [(1, cycles, False, stall) for stall in (4, 8, 2) for cycles in (1, 20)] + both


def body(cycles: int, stall: int, registers: list[int]) -> list[Slot]:
    """Return the slots; where two warps part there is a comparison and a branch, over as many NOPs as named."""
    waits = [LONGEST] * (cycles // LONGEST) + [cycles % LONGEST] * (cycles % LONGEST > 0)
    slots: list[Slot] = [(CLOCK, (registers[0],), 2, True, 0), ("PART", (), 13, True, 0), ("JUMP", (len(waits),), 5, False, 0)]
    slots += [(NOP, (), wait, False, 0) for wait in waits]
    slots += [("FADD", (20, 20, 21), stall, True, 0)] * (SLOTS - 2 - len(slots))
    return [*slots, (CLOCK, (registers[SLOTS - 2],), 2, True, 0), ("FADD", (registers[SLOTS - 1], RZ, RZ), 4, True, 0)]


def filled(cubin: bytes, about: dict[str, Any], slots: list[Slot], first: bool) -> bytes:
    """Return the kernel with these slots: P1 says whether a warp is the second one, R5 has its number."""
    made = bytearray(cubin)
    for i, slot in enumerate(slots):
        if slot[0] == "PART":
            bits = 0x3F25270 << 64 | RZ << 32 | 5 << 24 | 0x720C | (FREE & ~(1 << 4) | 13) << CONTROL
        elif slot[0] == "JUMP":
            words = 4 * slot[1][0]
            bits = 0x3800000 << 64 | (words >> 8) << 34 | (words & 255) << 16 | (9 if first else 1) << 12 | 0x947
            bits |= (FREE | 5) << CONTROL
        else:
            bits = word(slot, int(about["clock"], 16))
        made[about["at"] + 16 * i : about["at"] + 16 * i + 16] = bits.to_bytes(16, "little")
    return bytes(made)


def main(folder: Path, out: Path) -> None:
    """Run all cases, a launch for each turn and each warp that is looked at."""
    import numpy as np
    from driver import Gpu

    gpu, clocks = Gpu(), list[list[list[list[int]]]]()
    cubin, stamps = (folder / "orders.cubin").read_bytes(), gpu.memory(4096)
    about, host = json.loads((folder / "orders_slots.json").read_text()), np.zeros((4, SLOTS + 1), np.uint32)
    for warps, cycles, first, stall in cases():
        module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        made = filled(cubin, about, body(cycles, stall, about["registers"]), first)
        gpu.call("cuModuleLoadData", ctypes.byref(module), made)
        gpu.call("cuModuleGetFunction", ctypes.byref(kernel), module, b"orders")
        turns = list[list[list[int]]]()
        for turn in range(1, TURNS + 1):
            turns.append([])
            for seen in range(warps):
                values = [stamps, *(ctypes.c_int(v) for v in (turn, warps, seen, MORE))]
                arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
                for _ in range(AGAIN):
                    gpu.call("cuLaunchKernel", kernel, 1, 1, 1, 512, 1, 1, 4096, None, arguments, None)
                    gpu.wait()
                gpu.get(stamps, host)
                turns[-1].append((host[seen, [0, SLOTS - 2]] - host[warps - 1, SLOTS]).astype(np.int32).tolist())
        gpu.call("cuModuleUnload", module)
        clocks.append(turns)
    text = json.dumps({**gpu.about(), "command": "python data/h200/loop_ends.py FOLDER OUT", "clocks": clocks}, separators=(",", ":"))
    (out / "loop_ends.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
