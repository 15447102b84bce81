"""What is left out of Numba while the engine is compiled is there again afterwards."""

from __future__ import annotations

from contextlib import suppress
from inspect import getattr_static

import pytest

from warplens.simulator.lean import _changes, compiling

numba = pytest.importorskip("numba")


def test_numba_is_as_it_was_afterwards_even_where_something_failed() -> None:
    changed = [(kind, name) for kind, name, _ in _changes()]
    before = [getattr_static(kind, name) for kind, name in changed]
    with suppress(KeyError), compiling():
        assert all(getattr_static(*place) is not was for place, was in zip(changed, before, strict=True))
        raise KeyError
    assert [getattr_static(*place) for place in changed] == before


def test_other_functions_have_all_of_numba_and_what_the_engine_left_there() -> None:
    def larger(a: int, b: int) -> int:
        return max(a, b)

    def total(count: int) -> int:
        return sum([max(each, 3) for each in range(count) if each % 2])

    with compiling():  # `max` stays with Numba, not optimised
        numba.njit(larger).compile((numba.int64, numba.int64))
    assert numba.njit(total)(10) == 3 + 3 + 5 + 7 + 9
