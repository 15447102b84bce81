"""The committed journals of the H200, read and sorted once for all tests of a process: nobody changes them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from warplens.laboratory import journal
from warplens.laboratory.agree import plain
from warplens.laboratory.samples import Samples, load

DATA = Path(__file__).parents[2] / "data/h200/journal"
FULL = ("measured", "measured_again", "measured_third")
QUICK = DATA / "measured_quick.jsonl.xz"
TOGETHER = pytest.mark.xdist_group("journals")  # of what reads them: they are read by one worker


@cache
def events(name: str) -> list[dict[str, Any]]:
    return journal.read(DATA / f"{name}.jsonl.xz")


@cache
def samples(name: str) -> Samples:
    return load(DATA / f"{name}.jsonl.xz")


@cache
def numbers(name: str) -> dict[str, float]:
    """What a journal gives, the members of lists one by one."""
    return plain(samples(name))


def part(file: Path, start: str) -> Path:
    """Write what the quick journal has of the entries that begin so."""
    some = [e for e in events("measured_quick") if e["is"] == "head" or e.get("entry", "").startswith(start)]
    file.write_text("".join(json.dumps(event) + "\n" for event in some))
    return file
