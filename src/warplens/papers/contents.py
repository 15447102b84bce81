"""Contents of the five papers: their tables, figures, listings and worked examples, and the item of each.

`contents.toml` has the lists. An entry without an item says why: a drawing, code, or definitions. One whose item does
not exist is missing, and is counted as such.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from warplens.papers.item import Item

_MANY = {"drawing": "drawings"}
_REASONS = ("drawing: ", "code: ", "definitions: ")


class Entry(Struct, frozen=True):
    """A numbered thing of a paper: its item, or the reason why it has none."""

    paper: str
    number: str
    item: str = ""
    reason: str = ""


class Found(Struct, frozen=True):
    """An entry and its verdict: that of its item where it is made, else why not."""

    paper: str
    number: str
    item: str
    verdict: str


@cache
def contents() -> tuple[Entry, ...]:
    """Return the entries of all five papers, each paper's in its own order."""
    papers = tomllib.loads((Path(__file__).parent / "contents.toml").read_text())
    return tuple(
        Entry(paper, number, reason=text) if text.startswith(_REASONS) else Entry(paper, number, item=text)
        for paper, entries in papers.items()
        for number, text in entries.items()
    )


def found(items: Sequence[Item], known: Iterable[str], paper: str | None = None) -> list[Found]:
    """Return all entries, or those of a paper, with verdicts; `known` are the names of all items that exist."""
    verdicts, exists = {it.id: it.verdict for it in items}, set(known)
    return [
        Found(e.paper, e.number, e.item, e.reason or verdicts.get(e.item) or _not_reproduced(e.item, exists))
        for e in contents()
        if paper in (None, e.paper)
    ]


def _not_reproduced(item: str, exists: set[str]) -> str:
    return f"on request: `warplens reproduce {item}`" if item in exists else "missing"


def tally(entries: Sequence[Found]) -> dict[str, str]:
    """Return for each paper how many entries it has, how many of them have an item, and why others have none."""
    said = {}
    for paper in dict.fromkeys(e.paper for e in entries):
        own = [e for e in entries if e.paper == paper]
        without = Counter(e.verdict.partition(":")[0] for e in own if not e.item or e.verdict == "missing")
        rest = "".join(f", {count} {_MANY.get(why, why) if count > 1 else why}" for why, count in without.items())
        said[paper] = (
            f"{len(own)} tables, figures, listings and examples: {len(own) - without.total()} reproduced{rest}"
        )
    return said
