"""Files to programs: compile, disassemble, decode."""

from warplens.frontend.load import Options, demangle, list_kernels, load_program

__all__ = ["Options", "demangle", "list_kernels", "load_program"]
