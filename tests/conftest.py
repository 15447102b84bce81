"""Tests of an `xdist_group` run in one worker: what is expensive is made once for all of them.

pytest-xdist tells the worker by a suffix of a test's name, which pytest 9.2 does not take from it: without an error
every test ran where there was room (pytest-dev/pytest-xdist#1386). What it did not name, we name.
"""

from __future__ import annotations

from typing import Any

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not getattr(config.option, "loadgroup", False):  # set in a worker, with --dist loadgroup
        return
    for item in items:
        names = sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")})
        named = item.nodeid.removesuffix(suffix := f"@{'_'.join(names)}") + suffix
        if names and item.nodeid != named:
            node: Any = item
            node._id = type(node.id).parse(named)
