"""Simulator of one streaming multiprocessor (SM), cycle by cycle: schedulers, pipes, register file, memory.

What comes in is a counted program (`from_program`), or a hand-written workload (`from_workload`). Both become `Code`:
steps and the paths of warps through them (`code`). What comes out is a `Simulation`: cycles, their error, and what
warps wait for, instruction by instruction, in the names of Nsight Compute.

    lowering     from_program (control codes), operands (registers by banks), matrix (tensor cores, asynchronous
                 groups), traffic (what accesses ask of L2 and DRAM), units (a machine as the engine sees it)
    engine       engine (the cycle loop), scheduler (which warp issues, and where it goes next), blocks (blocks and
                 barriers), memory (L1, L2, DRAM, instruction caches), register_ports, register_writes; all compiled
                 (`compiled`), on the records of `layout`
    time         run (so many blocks through one SM), sampling (a kernel from a part of it), simulation (the answer)
    what if      overlay (a machine or a workload with numbers replaced)
    other forms  fluid and fluid_schedule (the schedule of `warplens-fast`), views (timelines and traces)

A mechanism is switched off by a machine that lacks its number; `papers.validation.ablation` lists them all. Not
modelled: which of several schedulers sends to shared memory first in a cycle, the order of lines behind the targets of
branches, own units of REDUX and MATCH, the other SMs but as a share of L2 and DRAM.
"""

from warplens.simulator.run import Options as SimulationOptions
from warplens.simulator.simulation import Line, Simulation, simulate

__all__ = ["Line", "Simulation", "SimulationOptions", "simulate"]
