"""Tests that share what is expensive run in one worker."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("groups")
def test_a_test_of_a_group_is_named_by_it(request: pytest.FixtureRequest) -> None:
    """By its name pytest-xdist knows the worker; if it stops doing so, tests only become slower, and nobody is told."""
    arguments = getattr(request.config, "workerinput", {}).get("mainargv", [])
    if not any("loadgroup" in argument for argument in arguments):
        pytest.skip("without --dist loadgroup there are no groups")
    assert request.node.nodeid.endswith("@groups")
