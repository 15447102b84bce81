"""Page of the remedies, docs/reference/remedies.md: `python bench/remedies.py LADDERS.json`.

`warplens validate --ladders --json > LADDERS.json` gives the measured steps. Preconditions and overlays are those that
the docstrings of the remedies state. Steps with a launch of the test set are counted, and not named.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

from warplens.advisor import REMEDIES

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "remedies.md"


def definitions() -> list[str]:
    """Return a row of the table for each remedy, from its docstring."""
    found = []
    for name, remedy in REMEDIES.items():
        text = " ".join((inspect.getdoc(remedy) or "").split())
        where, overlay = re.search(r"Applies where: (.*)\. Overlay: (.*)\.$", text).groups()  # type: ignore[union-attr]
        found.append(f"| `{name}` | {where} | {overlay} |")
    return found


def steps(climbed: dict[str, Any]) -> list[str]:
    """Return a row of the table for each step, by its remedies."""
    rows = []
    for outcome in climbed["outcomes"]:
        step, predicted = outcome["step"], outcome["predicted"]
        names = " and ".join(f"`{name}`" for name in step["remedies"]) or "none"
        value = "none" if predicted is None else f"{predicted:.2f}x"
        rows.append(f"| {names} | {step['before']} to {step['after']} | {outcome['measured']:.2f}x | {value} |")
    return sorted(rows)


def page(text: str, climbed: dict[str, Any]) -> str:
    """Return the page with new rows in its two tables, and new counts of steps."""
    sets = climbed["sets"]
    counts = f"Of {sets['all']['steps']} steps {sets['all']['close']} are within 20 %"
    text = re.sub(r"Of \d+ steps \d+ are within 20 %", counts, text)
    for head, rows in (("remedy", definitions()), ("remedies", steps(climbed))):
        table = re.compile(rf"(^\| {head} \|.*\n\|[ -|]*\n)(?:\|.*\n)*", re.M)
        text = table.sub(lambda found, rows=rows: found[1] + "\n".join(rows) + "\n", text)  # type: ignore[misc]
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(), json.loads(Path(sys.argv[1]).read_text())))
