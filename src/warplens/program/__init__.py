"""A kernel's machine code: compiled or read from a file, decoded, with its control flow, dependences and schedule."""

from warplens.program.compile import Options
from warplens.program.instruction import Instruction
from warplens.program.kernel_names import demangle
from warplens.program.listing import parse_listing
from warplens.program.load import is_source, list_kernels, load_program, load_programs
from warplens.program.schedule import Schedule, period, schedule

__all__ = [
    "Instruction", "Options", "Schedule", "demangle", "is_source", "list_kernels", "load_program",
    "load_programs", "parse_listing", "period", "schedule",
]  # fmt: skip
