"""The papers' tables and figures, regenerated: ours, theirs, difference."""

from warplens.papers.catalogue import item_ids, reproduce
from warplens.papers.item import Grid, Item, Plot, Row, Series, counts
from warplens.papers.validation.kernel_errors import KernelError, KernelValidation, validate_kernels
from warplens.papers.validation.mixes import ModelError, validate

__all__ = [
    "Grid", "Item", "KernelError", "KernelValidation", "ModelError", "Plot", "Row", "Series", "counts", "item_ids",
    "reproduce", "validate", "validate_kernels",
]  # fmt: skip
