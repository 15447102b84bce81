"""Our own model: one SM simulated, the limits of the chip, and the interval of the answer.

predict            time = launch + the longest of the simulated SM, each unit of an SM, L2 and DRAM
limits             what each unit alone would take
latency_bound      what a lone warp takes, with memory as slow as the kernel's own traffic makes it
block_scheduling   how blocks that differ lie on the SMs
intervals          how far the answer may be off, from the errors of measured launches (confidence.json)
"""
