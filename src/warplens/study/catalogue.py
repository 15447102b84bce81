"""All reproductions, by name: `volkov`, `volkov-table-3.4`, `hong-kim-figure-21`, ..."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

from warplens.errors import WarplensError, nearest
from warplens.study.item import Item

_MODULES = ("volkov_tables", "volkov_figures", "volkov_evaluation_figures", "hong_kim", "sim", "kothapalli", "lemeire")


def _makers() -> dict[str, Callable[[], Item]]:
    """Return the functions that make the items, under the item's name (paper, kind, number)."""
    makers: dict[str, Callable[[], Item]] = {}
    for name in _MODULES:
        module = importlib.import_module(f"warplens.study.{name}")
        paper = name.removesuffix("_tables").removesuffix("_figures").removesuffix("_evaluation")
        for function in module.ITEMS:
            makers[f"{paper}_{function.__name__}".replace("_", "-")] = function
    return makers


def item_ids() -> list[str]:
    """Return the names of all items that can be reproduced."""
    return [_dotted(name) for name in _makers()]


# Tables that stand in an item under another name.
_ALSO = {"volkov-table-3.2": "volkov-table-3.4", "volkov-table-3.3": "volkov-table-3.4"}


def reproduce(which: str | None = None) -> Iterator[Item]:
    """Make all items, those of one paper (`volkov`), or a single one (`volkov-table-3.4`)."""
    makers = {_dotted(name): function for name, function in _makers().items()}
    which = None if which is None else _ALSO.get(which.lower(), which.lower())
    chosen = {n: f for n, f in makers.items() if which is None or n == which or n.startswith(f"{which}-")}
    if not chosen:
        hint = nearest(which or "", makers) or "; `warplens reproduce --list` shows them"
        raise WarplensError(f"nothing to reproduce under {which!r}{hint}")
    return (function() for function in chosen.values())


def _dotted(name: str) -> str:
    """Turn `volkov-table-3-4` into `volkov-table-3.4`: the numbers of tables carry a dot."""
    head, _, last = name.rpartition("-")
    return f"{head}.{last}" if last.isdigit() and head and head[-1].isdigit() else name
