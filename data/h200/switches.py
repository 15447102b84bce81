"""What it costs to go from one warp to another: loops of switches.cu with other control codes, built and run.

    python data/h200/switches.py build FOLDER     no GPU, the CUDA wheels: a cubin for each change; the loops' code
    python data/h200/switches.py run FOLDER OUT   on the GPU: OUT/switches.json

Sums come out wrong where waits are taken away; nobody uses them.
"""

import ctypes
import gzip
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
OTHERS, ADDS, CHAINS = ("MUFU", "LDS"), (4, 8, 16, 32), (1, 2, 4)
KERNELS = [*((o, k, c) for o in OTHERS for k in ADDS for c in CHAINS), ("NONE", 8, 1), ("NONE", 16, 1)]
ACTIVE = (0xFF, 0x3F, 0x1F, 0x0F, 0x07, 0x03, 0x01)
SMS, REPETITIONS = 132, 3
AGAIN, LAUNCHES = ("compiled", "yield_all"), 10  # by the mean rate of all SMs and launches
RZ = 255

# A change: the field of a 128-bit instruction (its first bit, its width), the value, and which instruction of each
# body it is for: the other one (0), the one before it (-1), or every one of the loop (None).
Field = tuple[int, int]
STALL, KEEPS, WAIT, WRITTEN, READ = (105, 4), (109, 1), (116, 6), (16, 8), (32, 8)
CHANGES: dict[str, list[tuple[Field, int, int | None]]] = {
    "compiled": [],
    "yield_before": [(KEEPS, 0, -1)],
    "yield_at": [(KEEPS, 0, 0)],
    "yield_all": [(KEEPS, 0, None)],
    "stall2_before": [(STALL, 2, -1), (KEEPS, 1, -1)],
    "stall2_yield_before": [(STALL, 2, -1), (KEEPS, 0, -1)],
    "stall10_before": [(STALL, 10, -1), (KEEPS, 1, -1)],
    "stall10_yield_before": [(STALL, 10, -1), (KEEPS, 0, -1)],
    "no_wait": [(WAIT, 0, 0)],
    "no_write": [(WRITTEN, RZ, 0)],
    "no_read": [(READ, RZ, 0)],
    "no_ports": [(WRITTEN, RZ, 0), (READ, RZ, 0)],
}


def unroll(adds: int) -> int:
    """Return the bodies of one turn of the loop."""
    return (256 // (adds + 1) + 3) // 4 * 4


def applies(change: str, other: str) -> bool:
    """Whether a change is made: registers and waits only of MUFU, since a load needs its address."""
    ports = change in ("no_write", "no_read", "no_ports")
    return other == "MUFU" or (not ports and change != "no_wait")


def edit(word: int, field: Field, value: int) -> int:
    """Return an instruction of 128 bits with another value in a field."""
    first, width = field
    return word & ~(((1 << width) - 1) << first) | value << first


def build(folder: Path) -> None:
    """Compile, change, and keep the code of each loop as it was compiled."""
    from warplens.program import nvrtc
    from warplens.program.cubin import parse_cubin

    folder.mkdir(parents=True, exist_ok=True)
    plain = folder / "compiled.cubin"
    made_by = nvrtc.compile_source((HERE / "switches.cu").read_text(), "switches.cu", "sm_90", [], plain)
    data = plain.read_bytes()
    cubin = parse_cubin(data, "switches")
    loops, rows = {}, []
    for other, adds, chains in KERNELS:
        name = f"{other}_{adds}_{chains}"
        loops[name] = loop = _loop(plain, name)
        code = [x for x, _ in loop]
        rows.append({"other": other.lower(), "adds": adds, "chains": chains, "unroll": unroll(adds), "code": code})
    for change in CHANGES:
        changed = bytearray(data)
        for other, adds, chains in KERNELS:
            name = f"{other}_{adds}_{chains}"
            text = cubin.sections[f".text.{name}"].start
            if applies(change, other):
                _change(changed, text, loops[name], change, other, adds)
        (folder / f"{change}.cubin").write_bytes(changed)
    _write(rows, made_by)


def _loop(file: Path, name: str) -> list[tuple[Any, int]]:
    """Return the loop's instructions and their offsets in the kernel: up to the longest branch back."""
    from warplens.program import load_program

    code = load_program(file, name).instructions
    number = {x.offset: i for i, x in enumerate(code)}
    backs = [(number[x.target], i) for i, x in enumerate(code) if x.target is not None and x.target < x.offset]
    first, last = max(backs, key=lambda ends: ends[1] - ends[0])
    return [(x, x.offset) for x in code[first : last + 1]]


def others(names: list[str], other: str, adds: int) -> Iterator[int]:
    """Yield where the other instruction of each body is; of adds alone, every so many of them."""
    found = [i for i, name in enumerate(names) if name == ("FADD" if other == "NONE" else other)]
    yield from found[adds::adds] if other == "NONE" else found


def _change(data: bytearray, text: int, loop: list[tuple[Any, int]], change: str, other: str, adds: int) -> None:
    names = [x.opcode for x, _ in loop]
    for field, value, which in CHANGES[change]:
        rows = range(len(names)) if which is None else [i + which for i in others(names, other, adds) if i + which > 0]
        for i in rows:
            place, (first, width) = text + loop[i][1], field
            word = int.from_bytes(data[place : place + 16], "little")
            if field == STALL:  # never less than the compiler found to be needed
                value = max(value, word >> first & (1 << width) - 1)
            data[place : place + 16] = edit(word, field, value).to_bytes(16, "little")


def _write(rows: list[dict[str, Any]], made_by: str) -> None:
    import msgspec

    for row in rows:
        row["code"] = msgspec.to_builtins([msgspec.structs.replace(x, operands=(), line=None) for x in row["code"]])
    content = {"command": "python data/h200/switches.py build", "compiler": made_by, "arch": "sm_90", "loops": rows}
    (HERE / "switches_code.json.gz").write_bytes(gzip.compress(msgspec.json.encode(content), mtime=0))


def run(folder: Path, out: Path) -> None:
    """Run every loop with every change and number of warps; keep the best of some repetitions."""
    from driver import Gpu

    gpu, failed = Gpu(), list[dict[str, object]]()
    samples = [
        {**keys, "cycles": round(1 / float(rates[:, 0].max()), 3)}
        for keys, rates in _measured(gpu, folder, tuple(CHANGES), REPETITIONS, failed)
    ]
    note = "cycles of one scheduler per body, best of three; `active` has a bit for each of a scheduler's eight warps"
    (out / "switches.json").write_text(
        json.dumps({**gpu.about(), "note": note, "failed": failed, "samples": samples}) + "\n"
    )


def _measured(
    gpu: Any, folder: Path, changes: tuple[str, ...], launches: int, failed: list[dict[str, object]]
) -> Iterator[tuple[dict[str, object], Any]]:
    """Yield each loop with a change and a number of warps, and the bodies per cycle of each launch and SM."""
    from driver import Failure

    host = np.zeros(SMS * 32)
    for change in changes:
        for other, adds, chains in KERNELS:
            if not applies(change, other):
                continue
            keys = {"change": change, "other": other.lower(), "adds": adds, "chains": chains}
            try:
                kernel = gpu.function(folder / f"{change}.cubin", f"{other}_{adds}_{chains}", 0)
                keep, rates = gpu.memory(4096), gpu.memory(SMS * 32 * 8)
                for active in ACTIVE:
                    seen = [_rates(gpu, kernel, keep, rates, host, active) for _ in range(launches)]
                    yield {**keys, "active": active}, np.array(seen)
            except Failure as error:
                print(keys, error)
                failed.append({**keys, "error": str(error)})
                gpu.reset()


def _rates(gpu: Any, kernel: Any, keep: Any, rates: Any, host: Any, active: int) -> Any:
    """Return the bodies per cycle of one scheduler of each SM."""
    values = [keep, rates, ctypes.c_float(0), ctypes.c_uint(active)]
    arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
    gpu.call("cuLaunchKernel", kernel, SMS, 1, 1, 1024, 1, 1, 0, None, arguments, None)
    gpu.wait()
    gpu.get(rates, host)
    return host.reshape(SMS, 32).sum(axis=1) / 4


if __name__ == "__main__":
    command: dict[str, Callable[..., None]] = {"build": build, "run": run}
    command[sys.argv[1]](*map(Path, sys.argv[2:]))
