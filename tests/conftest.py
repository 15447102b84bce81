"""How all tests run: those of an `xdist_group` in one worker, and no law by the time that an example takes.

What is expensive is made once for a group. pytest-xdist tells the worker by a suffix of a test's name, which pytest 9.2
does not take from it: without an error every test ran where there was room (pytest-dev/pytest-xdist#1386). What it did
not name, we name.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from warplens.core import progress as notice
from warplens.program.toolchain import prefer_wheels

# How long one example takes says how busy the machine is, not whether a law holds.
settings.register_profile("laws", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("laws")

prefer_wheels()  # whatever toolkit is installed here: what is expected was made with them


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not getattr(config.option, "loadgroup", False):  # set in a worker, with --dist loadgroup
        return
    for item in items:
        marks = [mark for mark in item.iter_markers("xdist_group") if hasattr(item, "_id")]
        names = sorted({str(mark.args[0] if mark.args else mark.kwargs.get("name", "default")) for mark in marks})
        named = item.nodeid.removesuffix(suffix := f"@{'_'.join(names)}") + suffix
        if names and item.nodeid != named:
            node: Any = item
            node._id = type(node.id).parse(named)


@pytest.fixture(autouse=True)
def _compiling_goes_without_saying(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command says does not depend on what earlier ones compiled of ours; tests/null/test_native.py hears it."""
    monkeypatch.setattr(notice, "_say", lambda text: None)
