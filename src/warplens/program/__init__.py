"""A kernel's machine code: compiled or read from a file, decoded, with its control flow, dependences and schedule.

    program          what a kernel is to all other rooms: instructions, resources, memory of its module
    load             a file to programs, and the cache of those compiled before; the first file to read
    compile, nvrtc   CUDA source and PTX to a cubin; compiler options
    toolchain        which CUDA toolkit compiles, and how its tools are run
    triton           kernels of Python files, without running them
    declarations     names and types as people write them
    cubin            an ELF file of machine code: sections, resources, variables and their addresses
    encoding         machine words to text without nvdisasm (files/sm_90.json); source lines
    disassembly, decoding       nvdisasm's text and hand-written listings to instructions
    instruction, register_use   one instruction: class, operands, registers, scheduling field
    control_flow, dataflow      blocks, loops and paths; dependences, live registers, loops that wait
    lone_warp, static_analysis  cycles of a warp alone; all that is known without running a program

To add the decoding of an instruction: its class goes into files/classes.toml, which operands it writes into
files/operands.toml, and how many registers each operand stands for into `register_use`; tests/cuda/test_corpus.py
compares all of that with nvdisasm. To add an instruction class: `machine.KINDS` first, then files/classes.toml, and its
latency and rate in the machine files.
"""

from warplens.program.compile import Options
from warplens.program.declarations import demangle
from warplens.program.decoding import parse_listing
from warplens.program.instruction import Instruction
from warplens.program.load import is_source, list_kernels, load_program, load_programs

__all__ = [
    "Instruction", "Options", "demangle", "is_source", "list_kernels", "load_program", "load_programs", "parse_listing",
]  # fmt: skip
