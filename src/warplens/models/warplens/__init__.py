"""Our own model: one SM simulated, the limits of the chip, and the interval of the answer.

predict     time = launch + the longest of the simulated SM, each unit of an SM, L2 and DRAM; the schedule of the blocks
limits      cycles of each unit alone, and of a lone warp with memory as slow as the kernel's own traffic makes it
intervals   errors to expect, from those of measured launches (confidence.json)
"""
