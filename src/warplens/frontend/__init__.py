"""Files to programs: compile, disassemble, decode."""

from warplens.frontend.compile import Options
from warplens.frontend.load import is_source, list_kernels, load_call, load_program, load_programs
from warplens.frontend.names import demangle

__all__ = ["Options", "demangle", "is_source", "list_kernels", "load_call", "load_program", "load_programs"]
