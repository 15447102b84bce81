"""Emulator of a kernel's machine code: a SIMT machine on the CPU, compiled by Numba.

`profiler.profile` is the door: from a program, a launch and a machine it returns a profile, which has how often each
instruction ran and what its accesses touched. `emulator.Emulator` runs given blocks and has their results.

Decoding        decode*.py turn instructions into rows of a code table (ops.py, layout.py: its columns)
Execution       engine.py issues warps; integer, floating, half, packed, special, tensor, lanes, access, atomics,
                asynchronous and control.py have one compiled handler per operation (handlers.py, bits.py)
Memory          pages.py has the contents, wavefronts.py the cost of an access, cache.py L1 and L2, marks.py which words
                are unknown; initial.py sets up arrays, constant banks and warps
Sampling        slicing.py drops what no address or branch needs; sample.py has the strata of a grid, blocks.py chooses
                the blocks and runner.py runs them
Doubts          undecided.py finds branches on which blocks may differ, assumed.py the values that nobody gave
Whole grid      footprint.py and traffic.py estimate what L2 and DRAM move

An instruction is added with a rule in a decode file and a handler; what no rule knows gives unknown values and a note.
"""
