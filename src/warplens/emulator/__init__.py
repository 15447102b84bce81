"""What a kernel does, instruction by instruction, without a GPU: a SIMT machine, compiled by Numba."""
