"""Machine files: what a GPU is, as numbers with their sources.

A GPU is one TOML file in `files/`. Each number in it has a unit, a source (measured, vendor, paper or derived), a
reference and a date; nothing in a file is evaluated. `machine.sm.schedulers` is a float, and
`machine.sources["sm.schedulers"]` says where it comes from.

    machine, measured, papers   the schema: sections of a file, with the ranges that are physically possible
    quantities                  types of numbers by unit
    loader, writer              files to machines and back; errors name the file and the key
    base                        numbers that a file takes from another GPU's, each by a named rule
    occupancy, occupancy_table  how many blocks fit on an SM, and what limits them
    review                      checks of numbers against one another, as `warplens machine check` does

A hypothetical GPU is a machine with some values replaced: `machine.with_values(memory__pin_bytes_per_second=2e12)`.
"""

from warplens.machine.base import evidence, taken
from warplens.machine.loader import list_machines, load_machine
from warplens.machine.machine import KINDS, Machine, Source
from warplens.machine.occupancy import Occupancy, Step, check_grid, occupancy
from warplens.machine.occupancy_table import Needs, OccupancyTable, occupancy_table

__all__ = [
    "KINDS",
    "Machine",
    "Needs",
    "Occupancy",
    "OccupancyTable",
    "Source",
    "Step",
    "check_grid",
    "evidence",
    "list_machines",
    "load_machine",
    "occupancy",
    "occupancy_table",
    "taken",
]
