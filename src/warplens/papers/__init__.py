"""The papers' tables and figures, regenerated, and the validation of all models against measurements.

    catalogue         every table and figure by name; `reproduce` makes them
    contents          every table, figure, listing and example of the papers, and the item of each
    item              what a reproduction is: rows of ours beside theirs, and plots
    volkov_*, hong_kim, sim, kothapalli, lemeire*    one paper each; Lemeire's own simulator and graphs are here too
    coalescing        Hong & Kim's transactions of an access on early GPUs
    laboratory, measured_*    the same tables for a GPU that the laboratory measured, from its journal
    occupancy_ladders kernels over occupancy and threads on an H200, and stamps of warps, for Volkov and Hong & Kim
    validation        measured launches: errors of every model, intervals, ablation, ladders, tuning
    report            tables and pages of all of it

Only the command line imports this room. To add a table or a figure of a paper: a function that returns an Item, in the
file of its paper, named in that file's ITEMS. What differs from the paper says why in a note of its own. To add a set
of measured launches: a folder under data/h200/suite and a line in validation/kernels.py; half of it is put aside for
the test set by program before anybody looks.
"""

from warplens.papers.catalogue import entries, item_ids, reproduce
from warplens.papers.item import Grid, Item, Plot, Row, Series, counts, line
from warplens.papers.report.items import register
from warplens.papers.validation.kernel_errors import KernelError, KernelValidation, validate_kernels
from warplens.papers.validation.mixes import ModelError, validate

__all__ = [
    "Grid", "Item", "KernelError", "KernelValidation", "ModelError", "Plot", "Row", "Series", "counts", "entries",
    "item_ids", "line", "reproduce", "validate", "validate_kernels",
]  # fmt: skip

register()  # items show their pictures in a notebook
