"""The special-function unit and tensor cores, bit for bit: inputs, recording, derived tables, comparison.

`measure` records outputs on a GPU into data/experiments/special_functions, `derive` makes the emulator's tables of
them, `check` compares the emulator with every output.
"""

from pathlib import Path

DATA = Path(__file__).resolve().parents[4] / "data" / "experiments" / "special_functions"
