"""A GPU as numbers: structures, machine files, occupancy.

    machine           Machine: what every model reads
    tables, papers    its tables, with the kinds of numbers and their physical ranges; the papers' numbers
    loader            machine files to Machine and back, each number with value, unit, source and ref
    base              numbers that a file takes from a measured GPU, each by a rule
    review            what a file lacks, and which numbers disagree with the vendor's or with physics
    occupancy         blocks of a kernel on an SM; the same over block sizes and registers
    files             one TOML file per GPU

To add a number of a machine: a field of a table in tables.py (its name carries the unit, its type the range), a line
in files/*.toml with its source, and its mechanism in the list of the ablation where a model reads it. To add a GPU: a
TOML file (docs/reference/machine-file.md); `warplens machine check` says what it lacks. To add an instruction class:
`tables.KINDS`, then program/files/classes.toml, then its latency and rate in the files.
"""

from warplens.machine.base import evidence, taken
from warplens.machine.loader import list_machines, load_machine
from warplens.machine.machine import Machine, Source
from warplens.machine.occupancy import Needs, Occupancy, OccupancyTable, Step, check_grid, occupancy, occupancy_table
from warplens.machine.tables import KINDS

__all__ = [
    "KINDS", "Machine", "Needs", "Occupancy", "OccupancyTable", "Source", "Step", "check_grid", "evidence",
    "list_machines", "load_machine", "occupancy", "occupancy_table", "taken",
]  # fmt: skip
