"""The papers' tables and figures, regenerated: ours, theirs, difference."""

from warplens.study.catalogue import item_ids, reproduce
from warplens.study.item import Item, Plot, Row, Series, counts
from warplens.study.validation import ModelError, validate

__all__ = ["Item", "ModelError", "Plot", "Row", "Series", "counts", "item_ids", "reproduce", "validate"]
