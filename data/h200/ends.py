"""When the blocks of a grid begin and end that has a round of them or a few, and how long the launch takes for it.

    python data/h200/ends.py build FOLDER    no GPU, the CUDA wheels: ends.cu with one load at a time and with four
    python data/h200/ends.py run FOLDER OUT  on the GPU: OUT/ends.json.gz
    python data/h200/ends.py compare         no GPU, the extras `cuda` and `emulate`, minutes: how far the simulator is
                                             off by one SM's draws, by the mean of 32, and by the slowest of these

A sample: loads at a time, turns, warps of a block, blocks of the grid, and of each launch the microseconds between two
events around it; the nanoseconds from the first warp's begin to the last one's, to the first end and to the last; and
what its SMs took, each from the begin of its first warp to the end of its last by its own clock: the shortest, the
mean, the standard deviation and the longest. `begins` and `ends`: by the SMs' clocks, when their first, second, third
... block begins and ends, in the mean over launches and SMs, for as many as each SM has. Before each launch all SMs
read other memory, more than L2 holds.
"""

from __future__ import annotations

import ctypes
import gzip
import json
import sys
from pathlib import Path
from typing import Any

LOADS, TURNS, SMS, LAUNCHES = (1, 4), (0, 1, 4, 16, 64), 132, 9
SHAPES = ((8, 8), (2, 32), (32, 2))  # warps of a block, blocks that an SM holds
ROUNDS = (0.125, 0.25, 0.5, 1, 1.25, 1.5, 2, 2.5, 3, 4, 8)
MOST = 300  # loads of a thread, times rounds
BYTES, WORDS = 4 << 30, 5
KEPT = 2.0  # rounds of which begins and ends of blocks are kept


def build(folder: Path) -> None:
    """Compile the kernels."""
    from warplens.program import nvrtc

    folder.mkdir(parents=True, exist_ok=True)
    source = Path(__file__).with_suffix(".cu").read_text()
    for loads in LOADS:
        nvrtc.compile_source(source, "ends.cu", "sm_90", [f"-DLOADS={loads}"], folder / f"ends{loads}.cubin")


class Runs:
    """Launches one after the other, each on memory that was not read for long."""

    def __init__(self, folder: Path) -> None:
        from driver import Gpu

        self.gpu, self.at = Gpu(), 0
        self.array, self.kept = self.gpu.memory(BYTES), self.gpu.memory(4 * WORDS * SMS * 64 * 8)
        self.kernels = {n: self.gpu.function(folder / f"ends{n}.cubin", "ends", 0) for n in LOADS}

    def ask(self, loads: int, turns: int, warps: int, blocks: int) -> None:
        """Launch, and do not wait."""
        pitch = blocks * warps * 32
        size = 4 * pitch * loads * turns
        self.at = self.at if self.at + size <= BYTES else 0
        values = [ctypes.c_uint64(self.array.value + self.at), ctypes.c_int(turns), ctypes.c_uint32(pitch), self.kept]
        self.at += -(-size // (2 << 20)) * (2 << 20)
        arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        self.gpu.call("cuLaunchKernel", self.kernels[loads], blocks, 1, 1, 32 * warps, 1, 1, 0, None, arguments, None)

    def timed(self, loads: int, turns: int, warps: int, blocks: int) -> tuple[float, Any]:
        """Return the microseconds between two events around a launch, and what its warps wrote down."""
        import numpy as np

        self.ask(4, 16, 8, 8 * SMS)  # 69 MB
        self.gpu.delay()
        self.gpu.call("cuEventRecord", self.gpu.events[0], None)
        self.ask(loads, turns, warps, blocks)
        self.gpu.call("cuEventRecord", self.gpu.events[1], None)
        self.gpu.wait()
        took, host = ctypes.c_float(), np.zeros(WORDS * blocks * warps, np.uint32)
        self.gpu.call("cuEventElapsedTime", ctypes.byref(took), *self.gpu.events)
        self.gpu.get(self.kept, host)
        return 1e3 * took.value, host.reshape(-1, WORDS).astype(np.int64)


def since(times: Any) -> Any:
    """Return times of 32 bits from the first one on."""
    import numpy as np

    near = (times - times.flat[0] + (1 << 31)) % (1 << 32)
    return near - np.min(near)


def seen(microseconds: float, stamps: Any) -> list[float]:
    """Return what is kept of a launch."""
    import numpy as np

    by_sm = [since(stamps[stamps[:, 0] == sm][:, 1:3]).max() for sm in np.unique(stamps[:, 0])]
    ns = since(stamps[:, 3:5])
    moments = [int(ns[:, 0].max()), int(ns[:, 1].min()), int(ns.max())]
    of_sms = [int(min(by_sm)), round(float(np.mean(by_sm)), 1), round(float(np.std(by_sm)), 1), int(max(by_sm))]
    return [round(microseconds, 3), *moments, *of_sms]


def in_order(stamps: Any, warps: int, column: int) -> Any:
    """Return when each SM's blocks begin (1) or end (2), from its first begin on, one after the other: a row an SM."""
    import numpy as np

    blocks, rows = stamps.reshape(-1, warps, WORDS), []
    for sm in np.unique(blocks[:, 0, 0]):
        times = since(blocks[blocks[:, 0, 0] == sm][:, :, 1:3])[:, :, column - 1]
        rows.append(np.sort(times.min(axis=1) if column == 1 else times.max(axis=1)))
    least = min(map(len, rows))
    return np.array([row[:least] for row in rows])


def run(folder: Path, out: Path) -> None:
    """Run all launches."""
    import numpy as np

    runs, samples = Runs(folder), list[dict[str, object]]()
    cases = [(w, holds, n, t, r) for w, holds in SHAPES for n in LOADS for t in TURNS for r in ROUNDS]
    for warps, holds, loads, turns, rounds in cases:
        blocks = round(SMS * holds * rounds)
        if turns * loads * rounds > MOST or (loads > 1 and not turns):
            continue
        made = [runs.timed(loads, turns, warps, blocks) for _ in range(1 + LAUNCHES)][1:]
        row = {"loads": loads, "turns": turns, "warps": warps, "blocks": blocks, "launches": [seen(*m) for m in made]}
        if 0.5 <= rounds <= KEPT:
            for column, name in ((1, "begins"), (2, "ends")):
                each = [in_order(stamps, warps, column).mean(axis=0) for _, stamps in made]
                least = min(map(len, each))
                row[name] = np.mean([times[:least] for times in each], axis=0).round(1).tolist()
        samples.append(row)
    about = {**runs.gpu.about(), "command": "python data/h200/ends.py run FOLDER OUT", "holds": dict(SHAPES)}
    text = json.dumps({**about, "samples": samples}, separators=(",", ":")).encode()
    (out / "ends.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))


LAUNCH = """\
kernel = "ends"
defines = ["LOADS={loads}"]
l2 = "cold"
grid = {blocks}
block = {threads}
arg = [
  {{ name = "in", type = "f32*", count = {words} }},
  {{ name = "turns", type = "i32", value = {turns} }},
  {{ name = "pitch", type = "u32", value = {pitch} }},
  {{ name = "out", type = "u32*", count = {stamps} }},
]
"""


def launch_of(sample: dict[str, Any]) -> str:
    """Return the launch file of a sample."""
    loads, turns, warps, blocks = (sample[key] for key in ("loads", "turns", "warps", "blocks"))
    words = 32 * warps * blocks
    sizes = {"words": words * loads * turns, "pitch": words, "stamps": WORDS * warps * blocks}
    return LAUNCH.format(loads=loads, turns=turns, blocks=blocks, threads=32 * warps, **sizes)


def differences(sample: dict[str, Any]) -> tuple[float, float, float]:
    """Return by how much a sample's time is off by the first of 32 SMs, by their mean, and by the slowest."""
    import statistics
    import tempfile

    from warplens.models.warplens.predict import start_cycles

    import warplens as wl
    from warplens.simulator.from_program import from_program
    from warplens.simulator.run import Options
    from warplens.simulator.run import run as simulated
    from warplens.simulator.simulation import busy_sms
    from warplens.simulator.units import units

    gpu, blocks = wl.load_machine("h200"), sample["blocks"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ends.toml"
        file.write_text(launch_of(sample))
        work = wl.count(Path(__file__).with_suffix(".cu"), launch=file, machine=gpu)
    made, on_sm = units(gpu, busy_sms(gpu, blocks)), -(-blocks // SMS)
    code = from_program(work.code, made, work.profile, name=work.name)
    resident, cycles = min(on_sm, 64 // sample["warps"], 32), list[float]()
    for seed in range(1, 33):
        cycles.append(simulated(code, made, Options(seed=seed), resident=resident, blocks=on_sm).end_cycle)
    took = 1e-6 * statistics.median(launch[0] for launch in sample["launches"]) * gpu.chip.clock_hz
    launch = start_cycles(gpu, min(SMS, blocks))
    first, mean, slowest = ((launch + c) / took - 1 for c in (cycles[0], statistics.mean(cycles), max(cycles)))
    return first, mean, slowest


def compare() -> None:
    """Print the mean differences over all grids that load."""
    import statistics
    from concurrent.futures import ProcessPoolExecutor

    file = Path(__file__).with_name("ends.json.gz")
    samples = [s for s in json.loads(gzip.decompress(file.read_bytes()))["samples"] if s["turns"]]
    with ProcessPoolExecutor() as pool:
        rows = list(pool.map(differences, samples))
    for name, column in zip(("one SM", "mean of 32", "slowest of 32"), zip(*rows, strict=True), strict=True):
        off, bias = (100 * sum(each) / len(column) for each in (list(map(abs, column)), column))
        print(f"{len(column)} grids by {name}: off by {off:.1f} %, bias {bias:+.1f} %")
    full = [s["launches"] for s in samples if s["warps"] * s["blocks"] == SMS * 64]
    slowest = [statistics.median(launch[7] / launch[5] for launch in launches) for launches in full]
    print(
        f"one full round: the slowest SM takes {min(slowest):.2f} to {max(slowest):.2f} times what the mean one takes"
    )


if __name__ == "__main__":
    if sys.argv[1] == "compare":
        compare()
    else:
        build(Path(sys.argv[2])) if sys.argv[1] == "build" else run(Path(sys.argv[2]), Path(sys.argv[3]))
