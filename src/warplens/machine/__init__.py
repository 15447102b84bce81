"""What a GPU is: structures, machine files, occupancy rules."""

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
