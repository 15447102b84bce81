"""The loops of register_ports.cu in other registers: how fast they are, and when their warps begin.

    python data/h200/other_registers.py build FOLDER    no GPU, the CUDA wheels: the kernels, and their code
    python data/h200/other_registers.py run FOLDER OUT  on the GPU: OUT/other_registers.json.gz

With -DSTARTS, which writes a clock more, the compiler gives half of the loops other registers, some other stall counts
or another order; these are kept, with their code. A sample, of all 132 SMs and ten launches: `cycles` of a scheduler
per body by the mean rate, of the `fastest` and the `slowest` SM of any launch; and of four SMs in two launches when
each warp read its clock, from the first one on (`starts`).
"""

from __future__ import annotations

import ctypes
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
SMS, LAUNCHES = 132, 10
KEPT_SMS, KEPT_LAUNCHES = (0, 41, 77, 131), (1, 3)
OTHERS = ("none", "mufu", "lds", "ldg64", "address_ldg", "shf", "mufu_loose", "lds_loose")
ACTIVE = (0xFF, 0x7F, 0x3F, 0x1F, 0x0F, 0x55, 0x03)
FAMILIES = {"ports": 4, "alone": 1}  # on so many schedulers
ARGUMENTS = "u64 *, float, double *, unsigned, unsigned"


def build(folder: Path) -> None:
    """Compile the kernels; keep the loops that are not those of register_ports_code.json.gz."""
    from warplens.program import nvrtc

    folder.mkdir(parents=True, exist_ok=True)
    source = (HERE / "register_ports.cu").read_text()
    source = source[source.index("#ifndef SCHEDULERS") : source.index("static u64")]
    kept = json.loads(gzip.decompress((HERE / "register_ports_code.json.gz").read_bytes()))["loops"]
    kernels = [(f"body<{OTHERS.index(r['other'])}, {r['adds']}, {'true' if r['chained'] else 'false'}>", r)
               for r in kept]  # fmt: skip
    source += "".join(f"template __global__ void {name}({ARGUMENTS});\n" for name, _ in kernels)
    about: dict[str, Any] = {}
    for family, schedulers in FAMILIES.items():
        file, options = folder / f"{family}.cubin", ["-DSTARTS", f"-DSCHEDULERS={schedulers}"]
        about["compiler"] = nvrtc.compile_source(source, "ports", "sm_90", options, file)
        loops = [_loop(file, kernel, row) for kernel, row in kernels]
        about.setdefault("loops", [loop for loop, same in loops if not same])  # but for places those of both families
    (folder / "about.json").write_text(json.dumps(about))


def _loop(file: Path, kernel: str, row: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return a kernel's longest loop with what names it, and whether it is the one that is kept."""
    import msgspec

    from warplens.program import load_program

    program = load_program(file, kernel)
    code, number = program.instructions, {x.offset: i for i, x in enumerate(program.instructions)}
    backs = [(number[x.target], i) for i, x in enumerate(code) if x.target is not None and x.target < x.offset]
    first, last = max(backs, key=lambda ends: ends[1] - ends[0])
    loop = [msgspec.to_builtins(msgspec.structs.replace(x, operands=(), line=None)) for x in code[first : last + 1]]
    same = [(x["text"].split(" `")[0], x["control"]) for x in loop] == [
        (x["text"].split(" `")[0], x["control"]) for x in row["code"]
    ]
    return {**row, "symbol": program.name, "code": loop}, same


def run(folder: Path, out: Path) -> None:
    """Run all loops."""
    from driver import Gpu

    gpu, about = Gpu(), json.loads((folder / "about.json").read_text())
    memory, rates, host = gpu.memory(1 << 16), gpu.memory(2 * SMS * 32 * 8), np.zeros((2, SMS, 32))
    samples = []
    for family, schedulers in FAMILIES.items():
        for loop in about["loops"]:
            kernel = gpu.function(folder / f"{family}.cubin", loop["symbol"], 0)
            keys = {key: loop[key] for key in ("other", "adds", "chained")}
            for active in ACTIVE:
                values = [memory, ctypes.c_float(0), rates, ctypes.c_uint(active), ctypes.c_uint(3)]
                sample = _measured(gpu, kernel, values, rates, host, schedulers)
                samples.append({"family": family, **keys, "active": active, **sample})
    made = {**gpu.about(), "command": "python data/h200/other_registers.py run FOLDER OUT", **about, "samples": samples}
    text = json.dumps(made, separators=(",", ":")).encode()
    (out / "other_registers.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))


def _measured(gpu: Any, kernel: Any, values: list[Any], rates: Any, host: Any, schedulers: int) -> dict[str, Any]:
    """Return the cycles of one scheduler per body, and when the warps of some SMs began."""
    seen, starts = [], []
    arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
    for launch in range(LAUNCHES):
        gpu.call("cuLaunchKernel", kernel, SMS, 1, 1, 1024, 1, 1, 0, None, arguments, None)
        gpu.wait()
        gpu.get(rates, host)
        seen.append(host[0].sum(axis=1) / schedulers)
        for sm in KEPT_SMS if launch in KEPT_LAUNCHES else ():
            begun = host[1, sm][host[0, sm] > 0]
            starts.append([int(x) for x in begun - begun.min()])
    each = np.array(seen)
    cycles = {"cycles": each.mean(), "fastest": each.max(), "slowest": each.min()}
    return {**{key: round(1 / float(rate), 4) for key, rate in cycles.items()}, "starts": starts}


if __name__ == "__main__":
    build(Path(sys.argv[2])) if sys.argv[1] == "build" else run(Path(sys.argv[2]), Path(sys.argv[3]))
