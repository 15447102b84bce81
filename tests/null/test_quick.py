"""The choice of `make quick`."""

from __future__ import annotations

from tests.quick import chosen, name_of

TESTS = ["slow.py::one", "slow.py::two", "fast.py::one", "fast.py::two[a@b]@group", "new.py::one"]
SECONDS = {"slow.py::one": 0.4, "slow.py::two": 0.6, "fast.py::one": 0.1, "fast.py::two[a@b]": 0.2}


def test_what_takes_over_half_a_second_is_left_out_and_short_files_come_first() -> None:
    assert [TESTS[at] for at in chosen(SECONDS, TESTS)] == [TESTS[4], TESTS[2], TESTS[3], TESTS[0]]


def test_a_group_is_no_part_of_a_name() -> None:
    assert [name_of(test) for test in TESTS[2:4]] == ["fast.py::one", "fast.py::two[a@b]"]
