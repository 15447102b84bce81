"""What a GPU is: structures, machine files, occupancy rules."""

from warplens.machine.loader import list_machines, load_machine
from warplens.machine.machine import KINDS, Machine, Source
from warplens.machine.occupancy import Occupancy, occupancy

__all__ = ["KINDS", "Machine", "Occupancy", "Source", "list_machines", "load_machine", "occupancy"]
