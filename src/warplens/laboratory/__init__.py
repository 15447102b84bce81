"""Microbenchmarks that run on a GPU, and what follows from them: the journal of a run, the machine file.

`run.measure` measures, `run.check_all` compiles and checks all kernels without a GPU, `derive.derive` makes a machine
of a journal. A measurement is an `Entry` of the catalogue: a template's kernels, a plan that launches them, parameters.
"""
