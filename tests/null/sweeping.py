"""A sweep for tests that needs no compiler: what its workers do is in `work`, by the values of a point."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from warplens.tuner.points import Row, Task
from warplens.tuner.run import Outcome, processes, run
from warplens.tuner.spec import Sweep, load_sweep

LAUNCH = """
kernel = "k"
file = "k.cu"
grid = 1
block = 32
[[arg]]
name = "n"
type = "i32"
value = 7
"""
SPEC = """
format = 1
gpus = ["h200", "a100"]
[[kernel]]
launch = "k.launch.toml"
where = ["x != 3"]
[kernel.parameter]
x = [{values}]
[kernel.set]
grid = "x + n"
"""


def make(folder: Path, values: str = "0, 1, 2, 3, 4, 5, 6, 7") -> Sweep:
    """Write a sweep file of one axis x and load it."""
    (folder / "k.launch.toml").write_text(LAUNCH)
    (folder / "s.toml").write_text(SPEC.format(values=values))
    return load_sweep(folder / "s.toml")


def work(task: Task) -> list[Row]:
    """Answer at once; x = 100 kills the worker always, x = 101 the first time, x from 1000 on takes a while."""
    c = task.configuration
    x = int(c.values["x"])
    flag = Path(str(task.cache)) / "died"
    if x == 100 or (x == 101 and not flag.exists()):
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if x == 102:
        raise ValueError("not this one")
    if x >= 1000:
        time.sleep(0.02)
    return [Row(c.number, c.kernel, c.values, gpu, "m", 1e-6 * c.call.blocks, 2.0, "issue") for gpu in task.gpus]


def sweep(folder: Path, made: Sweep | None = None, out: str = "out", workers: int = 1) -> Outcome:
    """Run it on processes."""
    return run(made or load_sweep(folder / "s.toml"), folder / out, processes(workers), cache=str(folder), work=work)


if __name__ == "__main__":  # python -m tests.null.sweeping FOLDER OUT
    sweep(Path(sys.argv[1]), out=sys.argv[2], workers=2)
