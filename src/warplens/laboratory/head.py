"""Head of a journal, as far as derivations need it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from warplens.core.files import convert


class Facts(Struct):
    """Driver's facts that every derivation needs."""

    attributes: dict[str, int]
    uuid: str = ""


class Head(Struct):
    """Fields of a journal's head that every derivation needs."""

    format: int
    gpu: str
    date: str
    reference_ghz: Annotated[float, Meta(gt=0)]
    facts: Facts


def checked(head: dict[str, Any], path: Path) -> Head:
    """Return the head of a journal; what is missing or wrong is one line."""
    return convert(head, Head, f"{path}: head")
