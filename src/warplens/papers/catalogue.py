"""All reproductions, by name: `volkov`, `volkov-table-3.4`, `hong-kim-figure-21`, ..."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from warplens.core.errors import WarplensError, nearest
from warplens.papers.contents import Found, contents, found
from warplens.papers.item import Item

if TYPE_CHECKING:
    from warplens.papers.laboratory import Laboratory

_MODULES = (
    "volkov_hardware", "volkov_little", "volkov_kernels", "volkov_tables", "volkov_figures", "volkov_throughput",
    "volkov_parameters", "volkov_evaluation_figures", "hong_kim", "hong_kim_threads", "hong_kim_effects", "sim",
    "kothapalli", "lemeire", "validation.triton", "validation.gemm",
)  # fmt: skip
_PAPERS = ("volkov", "hong_kim")  # with several files each
# Not made unasked: tables of our own measurements, and what takes half a minute or more of simulation.
_ASKED = ("triton-", "gemm-", "lemeire-figure-3", "lemeire-further-work", "lemeire-compiled-")


def _makers() -> dict[str, Callable[[], Item]]:
    """Return the functions that make the items, under the item's name (paper, kind, number)."""
    makers: dict[str, Callable[[], Item]] = {}
    for name in _MODULES:
        module = importlib.import_module(f"warplens.papers.{name}")
        paper = next((paper for paper in _PAPERS if name.startswith(paper)), name.removeprefix("validation."))
        for function in module.ITEMS:
            makers[f"{paper}_{function.__name__}".replace("_", "-")] = function
    papers = list(dict.fromkeys(name.split("-")[0] for name in makers))
    return dict(sorted(makers.items(), key=lambda one: (papers.index(one[0].split("-")[0]), *_position(one[0]))))


def _position(name: str) -> tuple[int, str, int]:
    """Return where an item stands in a paper with several files: chapter, kind, number; others keep their order."""
    if not name.replace("-", "_").startswith(_PAPERS):
        return 0, "", 0
    numbers = [int(n) for n in re.findall(r"\d+", name)]
    kind = name.rstrip("-0123456789").rpartition("-")[2]
    chapter = numbers[0] if len(numbers) > 1 and name.startswith("volkov") else 0
    return chapter, kind, numbers[-1] if chapter else (numbers or [0])[0]


def item_ids(gpu: str | None = None, which: str | None = "") -> list[str]:
    """Return the names of all items that can be reproduced, of the papers or for a measured GPU; or of those chosen."""
    every = [_dotted(name) for name in _makers()] if gpu is None else list(_measured(gpu))
    return every if which == "" else [name for name in every if _is_chosen(name, which)]


def _is_chosen(name: str, which: str | None) -> bool:
    if which is None:
        return not name.startswith(_ASKED)
    return name == which or name.startswith(f"{which}-")


def _measured(gpu: str) -> dict[str, Callable[[], Item]]:
    """Return the functions that make items of a measured GPU, under the item's name without the GPU's."""
    from warplens.papers.laboratory import laboratory
    from warplens.papers.measured_figures import FIGURES
    from warplens.papers.measured_summary import since_maxwell
    from warplens.papers.measured_tables import TABLES

    lab = laboratory(gpu)

    def make(function: Callable[[Laboratory], Item], name: str) -> Item:
        try:
            item = function(lab)
        except (LookupError, TypeError, ValueError, ZeroDivisionError, WarplensError):
            if lab.complete:
                raise
            text = "not made: the journal lacks measurements that it needs (`warplens machine measure` goes on with it)"
            return Item(f"{name}-{lab.machine.id}", name, f"{lab.name} by the laboratory", notes=[text])
        return replace(item, notes=[*item.notes, lab.borrowed]) if lab.borrowed else item

    named = {_dotted(f"volkov-{f.__name__}".replace("_", "-")): f for f in (since_maxwell, *TABLES, *FIGURES)}
    return {
        name: partial(make, function, name)
        for name, function in named.items()
        if lab.machine.tensor or "tensor" not in name
    }


# Tables and figures that stand in an item under another name.
_ALSO = {
    "volkov-table-2.2": "volkov-table-2.4", "volkov-table-2.3": "volkov-table-2.4",
    "volkov-table-3.2": "volkov-table-3.4", "volkov-table-3.3": "volkov-table-3.4",
    "volkov-listing-3.1": "volkov-listings", "volkov-listing-3.2": "volkov-listings",
    "volkov-listing-3.3": "volkov-listings", "volkov-listing-3.5": "volkov-listings",
    "hong-kim-figure-12": "hong-kim-table-2", "hong-kim-figure-13": "hong-kim-table-2",
    "hong-kim-figure-14": "hong-kim-table-4", "hong-kim-figure-18": "hong-kim-figure-17",
    "hong-kim-figure-19": "hong-kim-figure-17", "hong-kim-figure-20": "hong-kim-figure-17",
    "hong-kim-figure-24": "hong-kim-figure-25", "hong-kim-figure-26": "hong-kim-figure-25",
    "hong-kim-figure-27": "hong-kim-figure-28", "hong-kim-figure-29": "hong-kim-figure-30",
    **{f"hong-kim-figure-{n}": "hong-kim-figures-5-to-8" for n in (5, 6, 7, 8)},
    **{f"hong-kim-algorithm-{n}": "hong-kim-algorithms" for n in (1, 2)},
}  # fmt: skip


def reproduce(which: str | None = None, gpu: str | None = None) -> Iterator[Item]:
    """Make all items, those of one paper (`volkov`), or a single one (`volkov-table-3.4`).

    With a GPU that the laboratory measured: what there is of them for that GPU, beside the paper's.
    """
    makers = {_dotted(name): function for name, function in _makers().items()} if gpu is None else _measured(gpu)
    which = None if which is None else _ALSO.get(which.lower(), which.lower())
    chosen = {n: f for n, f in makers.items() if _is_chosen(n, which)}
    if not chosen:
        hint = nearest(which or "", makers) or "; `warplens reproduce --list` shows them"
        raise WarplensError(f"nothing to reproduce under {which!r}{hint}")
    return (function() for function in chosen.values())


def entries(items: Sequence[Item], which: str | None) -> list[Found]:
    """Return the contents of all papers, or of the one that is asked for, with verdicts; nothing for a single item."""
    papers = {entry.paper for entry in contents()}
    return found(items, item_ids(), which) if which is None or which in papers else []


def _dotted(name: str) -> str:
    """Turn `volkov-table-3-4` into `volkov-table-3.4`: the numbers of tables carry a dot."""
    head, _, last = name.rpartition("-")
    return f"{head}.{last}" if last.isdigit() and head and head[-1].isdigit() else name
