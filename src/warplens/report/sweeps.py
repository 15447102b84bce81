"""What a sweep and a search for the best configuration made, for the terminal."""

from __future__ import annotations

from rich.console import RenderableType

from warplens.sweep.run import Outcome


def outcome(found: Outcome) -> list[RenderableType]:
    """Return the answer of `warplens sweep`."""
    earlier = f", {found.earlier:,} of them by an earlier run" if found.earlier else ""
    failed = f"; {found.failed:,} failed, and say why" if found.failed else ""
    return [f"{found.points:,} points{earlier}{failed}", *(f"  {file}" for file in found.files)]
