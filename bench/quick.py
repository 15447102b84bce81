"""How far the few blocks that a sweep emulates lead predictions astray: `python bench/quick.py [LAUNCH ...]`.

Each launch (a file of examples/, or NAME.VARIANT) is emulated as a sweep does and as `analyze` does; printed are the
blocks of both, the error that the few blocks say themselves, and how far `warplens-fast` and `roofline` differ.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import warplens as wl
from warplens.emulate.profiler import FULL, QUICK, profile
from warplens.frontend import load_program
from warplens.frontend.calls import OLDEST, architecture, source_of
from warplens.kernel.counted import workload_of
from warplens.kernel.launch import load_launch

FILES = {path.stem: path for path in (Path(__file__).parents[1] / "examples").rglob("*.toml")}
DATA_DEPENDENT = ("mandelbrot", "hash_probe", "spmv_vector", "compact", "embedding_bag")


def main() -> None:
    """Print a line for each launch."""
    gpu = wl.load_machine("h200")
    for name in sys.argv[1:] or DATA_DEPENDENT:
        stem, _, variant = name.partition(".")
        call = load_launch(FILES[stem], variant)
        path, options = source_of(call, architecture(gpu, OLDEST))
        program = load_program(path, call.kernel, options)
        made, took = [], []
        for effort in (QUICK, FULL):
            start = time.process_time()
            found = profile(program, call, gpu, effort=effort)
            took.append(time.process_time() - start)
            workload = workload_of(program, call, found, gpu)
            said = [wl.predict(workload, gpu, model).seconds or 0.0 for model in ("warplens-fast", "roofline")]
            made.append((found, [float(seconds) for seconds in said]))
        (few, quick), (many, full) = made
        off = ", ".join(f"{100 * (a / b - 1):+.1f} %" for a, b in zip(quick, full, strict=True))
        print(
            f"{name}: {few.emulated_blocks} and {many.emulated_blocks} of {few.grid_blocks} blocks, "
            f"said to be {100 * few.error:.1f} and {100 * many.error:.1f} % off; differ by {off}; "
            f"{took[0]:.2f} and {took[1]:.2f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
