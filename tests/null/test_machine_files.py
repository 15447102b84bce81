"""Laws of machine files: what is written is read back as the same machine."""

from __future__ import annotations

import tomllib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.inspect import FloatType, StructType

from warplens.machine import Machine, list_machines, load_machine
from warplens.machine.loader import parse, parsed, toml_of, tree_of
from warplens.machine.machine import at_key


def _written_and_read(machine: Machine) -> Machine:
    return parse(tomllib.loads(toml_of(machine)), "written.toml")


@pytest.mark.parametrize("machine", list_machines(), ids=lambda machine: machine.id)
def test_a_file_that_ships_survives_a_round_trip(machine: Machine) -> None:
    assert _written_and_read(machine) == machine


def _field(key: str) -> FloatType | None:
    """Return the type of the number under a key, with its range; None where it is a list or a text."""
    kind: Any = msgspec.inspect.type_info(Machine)
    for part in key.split("."):
        while isinstance(kind, msgspec.inspect.UnionType):
            kind = next(one for one in kind.types if not isinstance(one, msgspec.inspect.NoneType))
        if isinstance(kind, StructType):
            kind = next(field.type for field in kind.fields if field.encode_name == part)
        elif isinstance(kind, msgspec.inspect.DictType):
            kind = kind.value_type
        else:
            kind = kind.item_type
    while isinstance(kind, msgspec.inspect.UnionType):
        kind = next(one for one in kind.types if not isinstance(one, msgspec.inspect.NoneType))
    return kind if isinstance(kind, FloatType) else None


H200 = load_machine("h200")
NUMBERS = {key: kind for key in sorted(H200.sources) if (kind := _field(key)) is not None}


def _numbers(kind: FloatType) -> st.SearchStrategy[float]:
    low, high = kind.ge if kind.ge is not None else kind.gt or 0.0, kind.le if kind.le is not None else 1e18
    if kind.multiple_of:
        return st.integers(int(low), int(high)).map(float)
    return st.floats(low, high, exclude_min=kind.gt is not None)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_number_in_its_range_survives_a_round_trip(data: st.DataObject) -> None:
    tree = tree_of(H200)
    for key in data.draw(st.lists(st.sampled_from(sorted(NUMBERS)), min_size=1, max_size=8, unique=True)):
        table, _, name = key.rpartition(".")
        at_key(tree, table)[name] = data.draw(_numbers(NUMBERS[key]), label=key)
    machine = parsed(tree, H200.sources, "random")
    assert _written_and_read(machine) == machine
    assert toml_of(_written_and_read(machine)) == toml_of(machine)
