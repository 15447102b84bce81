"""Which warp of a scheduler goes where three to seven are there: when each comes to each instruction of a code.

    python data/h200/crowds.py build FOLDER    no GPU, the CUDA wheels: the kernel, and where its slots are
    python data/h200/crowds.py run FOLDER OUT  on the GPU: OUT/crowds.json.gz

All warps run the same code by hand, but the one that is looked at has a copy of it that reads the clock in place of one
instruction; what came before is as it was. Before that one more warp spins, so that no issues of the others count any
more, and is the last at the barrier behind which all begin. A row: the code, how many warps, and for each of them when
all began most often, and when it came to each place, from the last one's begin on (none: they began otherwise).
"""

import ctypes
import gzip
import json
import random
import sys
from pathlib import Path
from typing import Any

from issue_order import CLOCK, CONTROL, NOP, OPS, Slot, s, word

GAPS, LENGTH, AGAIN, SPIN_CYCLES, TURNS = 16, 96, 6, 3000, 8
ADDS = 120  # of the compiled code, which the code by hand replaces
LINE = 8  # instructions
PLAIN = ("FADD", 40, 255, 255)  # an add that reads nothing
OPS["LDS"] = (0x800 << 64 | 0x7984, (16, 24))  # without an offset
STALLS = {"1 to 4": (1, 2, 3, 4), "2 to 8": (2, 3, 4, 5, 6, 7, 8), "all": (1, 2, 4, 6, 9, 11)}
REPEATED: dict[str, list[Slot]] = {
    "halves": [s("MMA", 10, 13, 13, 14, 15, y=True), s("HFMA2", 6, 13, 13, 16, 17, y=True)],
    "one register": [s("MMA", 10, 13, 13, 13, 13, y=True), s("HFMA2", 6, 13, 13, 13, 13, y=True)],
    "two chains": [
        s("MMA", 1, 14, 14, 12, 11), s("HFMA2", 4, 13, 13, 12, 11, y=True), s("HFMA2", 3, 13, 13, 10, 15, y=True)
    ],
    "lop3 fadd": [s("LOP3", 5, 13, 13, 14, 15, y=True), s("FADD", 5, 13, 14, 13, y=True)],
    "imad lop3": [s("IMAD", 5, 13, 14, 13, 15, y=True), s("LOP3", 5, 13, 13, 14, 15, y=True)],
    "dfma": [s("DFMA", 8, 18, 16, 18, 14, y=True), s("DFMA", 8, 18, 12, 18, 10, y=True)],
    "lds fadd": [s("LDS", 1, 12, 255), s("FADD", 1, 16, 16, 21)],
    "lds 4 fadd": [s("LDS", 1, 12, 255), *(s("FADD", 1, k, k, 21) for k in (16, 17, 18, 19))],
}
# Adds, and loads of shared memory in four chains, each of which waits for the one before it in its own.
ZERO, CHAINS = 20, 4
for chain in range(CHAINS):
    OPS[f"LDS{chain}"] = OPS["LDS"]
TAILS = {
    f"tail {stall}": [s("FADD", 1, 24 + k, 24 + k, 255) for k in range(12)]
    + [s(f"LDS{k % CHAINS}", stall, 12 + k % CHAINS, ZERO) for k in range(24)]
    for stall in (1, 4)
}
# High halves of products, whose sums were just moved; and SFUs in two chains, with a product before each.
PAIRS = {
    "high": [s("HIGH", 4, 15, 15, 16, 18, y=True), s("IMAD", 2, 19, 255, 255, 23), s("HIGH", 1, 15, 15, 22, 18),
             s("MOV", 5, 19, 21, y=True)],
    "sfu": [s("FMUL1", 7, 13, 14, 255, y=True), s("MUFU1", 1, 14, 13), s("FMUL2", 7, 16, 17, 255, y=True),
            s("MUFU2", 1, 17, 16)],
}  # fmt: skip
# By what they are called: their scoreboard, whether they have it, and whether they wait for it.
BOARDS = {f"LDS{chain}": (chain, True, True) for chain in range(CHAINS)}
for chain in (1, 2):
    OPS[f"MUFU{chain}"], BOARDS[f"MUFU{chain}"] = OPS["MUFU"], (chain, True, False)
    OPS[f"FMUL{chain}"], BOARDS[f"FMUL{chain}"] = OPS["FMUL"], (chain, False, True)
Code = tuple[str, int, list[Slot]]  # its name, how many warps, its instructions: adds come first


def codes() -> list[Code]:
    """Return the codes: adds with stalls by chance, and instructions in turn behind such adds."""
    chance, made = random.Random(5), list[Code]()
    for warps in (3, 4, 5, 7):
        for name, stalls in STALLS.items():
            for share in (1.0, 0.5, 0.0):
                before = [s(PLAIN[0], 6, *PLAIN[1:], y=True)] * GAPS
                code = [(chance.choice(stalls), chance.random() < share) for _ in range(LENGTH)]
                adds = [s(PLAIN[0], stall, *PLAIN[1:], y=yields) for stall, yields in code]
                made.append((f"adds, {name}, {share:.0%} yield", warps, before + adds))
        for name, slots in REPEATED.items():
            gaps = [(chance.choice((2, 3, 5, 7, 9, 11)), chance.random() < 0.7) for _ in range(GAPS)]
            before = [s(PLAIN[0], stall, *PLAIN[1:], y=yields) for stall, yields in gaps]
            made.append((name, warps, before + (slots * LENGTH)[:LENGTH]))
    for warps in (1, 2, 3, 4):
        for name, slots in TAILS.items():
            gaps = [(chance.choice((2, 3, 5, 7, 9, 11)), chance.random() < 0.7) for _ in range(1, GAPS)]
            before = [s("MOV", 6, ZERO, 255, y=True), *(s(PLAIN[0], stall, *PLAIN[1:], y=y) for stall, y in gaps)]
            made.append((name, warps, before + (slots * LENGTH)[:LENGTH]))
    for warps in (1, 2, 3):
        for name, slots in PAIRS.items():
            for number in range(3):
                gaps = [(chance.choice((2, 3, 5, 7, 9, 11)), chance.random() < 0.7) for _ in range(GAPS)]
                before = [s(PLAIN[0], stall, *PLAIN[1:], y=y) for stall, y in gaps]
                made.append((f"{name} {number}", warps, before + (slots * LENGTH)[:LENGTH]))
    return made


def bits(slot: Slot, clock: int) -> int:
    """Return the 128 bits of an instruction, with its scoreboard."""
    made = word(slot, clock)
    board, has, waits = BOARDS.get(slot[0], (7, False, False))
    return made ^ (7 ^ board if has else 0) << CONTROL + 5 | waits << CONTROL + 11 + board


def source(counted: bool = False) -> str:
    """Return the kernel: in each turn warps of one scheduler meet, and the last one spins before.

    It spins for some cycles, or `counted` times: then how often it has issued is the same in all launches.
    """
    adds = "add.f32 %2, %2, %3;\\n" * ADDS
    body = f"barrier.sync 0, %4;\\nmov.u32 %0, %%clock;\\n{adds}mov.u32 %1, %%clock;\\nbarrier.sync 1, %4;\\n"
    spin = f"""u32 from, now;
      asm volatile("mov.u32 %0, %%clock;" : "=r"(from));
      do asm volatile("mov.u32 %0, %%clock;" : "=r"(now)); while (now - from < {SPIN_CYCLES});"""
    if counted:
        spin = """u32 now;
#pragma unroll 1
      for (int i = 0; i < spins; i++) {
        asm volatile("mov.u32 %0, %%clock;" : "=r"(now));
        if (now == 12345u) out[99] = now;
      }"""
    return f"""
typedef unsigned u32;
#define BODY(x, y) asm volatile("{body}" : "=r"(t0), "=r"(t1), "+f"(x) : "f"(y), "r"(warps * 32 + 32) : "memory")
extern "C" __global__ void __launch_bounds__(1024) crowds(u32 *out, float *in, int warps, int seen, int spins) {{
  int group = threadIdx.x / 128;
  if (threadIdx.x / 32 % 4 || group > warps) return;
  if (group == warps) {{
#pragma unroll 1
    for (int k = 0; k < {TURNS}; k++) {{
      {spin}
      asm volatile("barrier.sync 0, %0;\\nbarrier.sync 1, %0;" :: "r"(warps * 32 + 32) : "memory");
    }}
    return;
  }}
  float f[40], sum = 0;
#pragma unroll
  for (int i = 0; i < 40; i++) f[i] = in[i * 32 + threadIdx.x % 32];
  u32 t0 = 0, t1 = 0;
#pragma unroll 1
  for (int k = 0; k < {TURNS}; k++) {{
    if (group == seen) BODY(f[0], f[1]);
    else BODY(f[2], f[3]);
  }}
#pragma unroll
  for (int i = 0; i < 40; i++) sum = sum * f[i] + f[39 - i];
  if (threadIdx.x % 32 == 0) out[2 * group] = t0, out[2 * group + 1] = t1;
  out[64 + threadIdx.x] = (u32)sum;
}}
"""


def build(folder: Path, counted: bool = False) -> None:
    """Compile the kernel; keep it, and where the slots of both copies are: from a line's begin on."""
    from warplens.program import load_program, nvrtc
    from warplens.program.cubin import parse_cubin

    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "crowds.cubin"
    nvrtc.compile_source(source(counted), "crowds.cu", "sm_90", [], file)
    code, data = load_program(file, "crowds").instructions, file.read_bytes()
    text = parse_cubin(data, "crowds").sections[".text.crowds"].start
    at = [i for i, x in enumerate(code) if "CLOCKLO" in x.text]
    spins = next(i for i in at if code[i].text.startswith("CS2R.32"))
    place = text + code[spins].offset
    clock = int.from_bytes(data[place : place + 16], "little") & ((1 << 105) - 1) & ~(255 << 16)
    copies = [[text + code[first].offset, last + 3 - first, -first % LINE] for first, last in (at[:2], at[2:4])]
    assert [pad for *_, pad in copies] == [4, 5], copies  # NOPs before the code, as the test has them
    (folder / "crowds_slots.json").write_text(json.dumps({"copies": copies, "clock": f"{clock:x}"}))


def placed(cubin: bytes, about: dict[str, Any], slots: list[Slot], at: int) -> bytes:
    """Return the kernel with this code in both copies, of which the second reads the clock at one of its places."""
    made, clock = bytearray(cubin), int(about["clock"], 16)
    for seen, (first, count, pad) in enumerate(about["copies"]):
        code = [*slots, *[s(NOP, 11)] * 2]
        if seen:
            code[GAPS + at] = s(CLOCK, 11, 3)
        code = [*[s(NOP, 1)] * pad, s(CLOCK, 2, 2), *code]
        for i, slot in enumerate([*code, *[s(NOP, 1)] * (count - len(code))]):
            made[first + 16 * i : first + 16 * i + 16] = bits(slot, clock).to_bytes(16, "little")
    return bytes(made)


def run(folder: Path, out: Path, name: str, chosen: list[Code], spins: int = 0) -> None:
    """Run codes, once for each warp and place that is looked at; `spins`: how often, if that is counted."""
    import numpy as np
    from driver import Gpu

    gpu, rows, cubin = Gpu(), list[Any](), (folder / "crowds.cubin").read_bytes()
    about = json.loads((folder / "crowds_slots.json").read_text())
    stamps, data = gpu.memory(1 << 16), gpu.memory(1 << 16)
    gpu.put(data, 0, np.zeros(1 << 13, np.uint64))
    host = np.zeros(32, np.uint32)

    def seen(slots: list[Slot], warps: int, warp: int, at: int) -> list[tuple[tuple[int, ...], int]]:
        module, kernel, found = ctypes.c_void_p(), ctypes.c_void_p(), []
        gpu.call("cuModuleLoadData", ctypes.byref(module), placed(cubin, about, slots, at))
        gpu.call("cuModuleGetFunction", ctypes.byref(kernel), module, b"crowds")
        values = [stamps, data, ctypes.c_int(warps), ctypes.c_int(warp), ctypes.c_int(spins)]
        arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        for _ in range(AGAIN):
            gpu.call("cuLaunchKernel", kernel, 1, 1, 1, 1024, 1, 1, 4096, None, arguments, None)
            gpu.wait()
            gpu.get(stamps, host)
            clocks = (host - host[2 * warps - 2]).astype(np.int32).tolist()
            found.append((tuple(clocks[: 2 * warps : 2]), clocks[2 * warp + 1]))
        gpu.call("cuModuleUnload", module)
        return found

    for what, warps, slots in chosen:
        row: list[Any] = [what, warps]
        for warp in range(warps):
            looks = [seen(slots, warps, warp, at) for at in range(LENGTH)]
            begins = [begin for look in looks for begin, _ in look]
            common = max(set(begins), key=begins.count)
            row.append([common, [next((t for begin, t in look if begin == common), None) for look in looks]])
        rows.append(row)
    made = {**gpu.about(), "command": f"python data/h200/{name}.py run FOLDER OUT", "rows": rows}
    (out / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(made, separators=(",", ":")).encode(), 9, mtime=0))


if __name__ == "__main__":
    build(Path(sys.argv[2])) if sys.argv[1] == "build" else run(Path(sys.argv[2]), Path(sys.argv[3]), "crowds", codes())
