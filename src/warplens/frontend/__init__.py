"""Files to programs: compile, disassemble, decode."""

from warplens.frontend.compile import Options
from warplens.frontend.load import list_kernels, load_program, load_programs
from warplens.frontend.names import demangle

__all__ = ["Options", "demangle", "list_kernels", "load_program", "load_programs"]
