"""The public verbs: one flat list, one name for one thing, and objects that are checked as files are."""

from __future__ import annotations

import inspect
import math
from typing import Any

import msgspec
import numpy as np
import pytest

import warplens as wl
from warplens.api.request import Request, load
from warplens.core.errors import WarplensError
from warplens.workload import parse_workload

MINE: dict[str, Any] = {"name": "mine", "instructions": {"fp32": 200}, "launch": wl.Launch(grid=1024, block=256)}


def workload(**values: Any) -> wl.Workload:
    return wl.Workload(**{**MINE, **values})


def test_every_public_name_is_there_and_no_verb_takes_what_is_for_the_command_line() -> None:
    from warplens import api

    assert set(dir(wl)) >= set(api.__all__) and [*api.__all__] == sorted(api.__all__)
    for name in api.__all__:
        thing = getattr(wl, name)
        if not inspect.isfunction(thing):
            continue
        taken = set(inspect.signature(thing).parameters)
        assert not taken & {"gpu", "early", "load", "known", "base", "most_code", "brisk", "progress"}, name
        assert len(taken) <= 8 and (thing.__doc__ or name.startswith("__")), name


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"instructions": {"load": 4}}, "instructions.load: memory accesses are counted under"),
        ({"instructions": {"fp33": 4}}, "instructions.fp33: unknown class; did you mean 'fp32'?"),
        ({"instructions": {"fp32": -1}}, "instructions.fp32: must be zero or more, not -1"),
        ({"instructions": {"fp32": math.nan}}, "instructions.fp32: must be finite, not nan"),
        ({"instructions": {"fp32": np.array([1.0, -1.0])}}, "instructions.fp32: must be zero or more, not -1"),
        ({"instructions": {"fp32": np.array([1.0, math.inf])}}, "instructions.fp32: must be finite"),
        ({"instructions": {"fp32": "many"}}, "instructions.fp32"),
        ({"instructions": {"fp32": np.array(["a"])}}, "numbers or arrays of numbers are wanted, not ndarray"),
        ({"instructions": {"fp32": object()}}, "numbers or arrays of numbers are wanted, not object"),
        ({"instructions": {}}, "nothing to predict"),
        ({"accesses": [wl.Access(count=1, hit_fraction=2)]}, "access.0.hit_fraction: must be a number <= 1"),
        ({"accesses": [wl.Access(count=1, space="globl")]}, "access.0.space"),  # type: ignore[arg-type]
        ({"launch": wl.Launch(grid=0, block=256)}, "launch.grid: one to three whole numbers"),
        ({"launch": wl.Launch(grid=[1, 2, 3, 4], block=256)}, "launch.grid: one to three whole numbers"),
    ],
)
def test_a_workload_of_python_is_refused_as_one_of_a_file_is(values: dict[str, Any], said: str) -> None:
    for verb in (wl.predict, wl.compare, wl.occupancy_curve, wl.simulate, wl.what_if):
        with pytest.raises(WarplensError) as caught:
            verb(workload(**values))
        assert str(caught.value).startswith("Workload: ") and said in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_workload_of_python_is_answered_as_one_of_a_file_is() -> None:
    mine = workload(accesses=[wl.Access(count=4), wl.Access(count=np.float64(2), kind="store")])
    assert (
        wl.predict(mine, model="volkov").terms
        == wl.predict(
            parse_workload(
                msgspec.to_builtins(workload(accesses=[wl.Access(count=4), wl.Access(count=2, kind="store")])),
                "mine.toml",
            ),
            model="volkov",
        ).terms
    )
    many = wl.predict(workload(instructions={"fp32": np.array([100.0, 200.0])}), model="volkov").seconds
    assert np.asarray(many)[1] == wl.predict(workload(), model="volkov").seconds
    dependent = [wl.Link("fp32", "fp32", 200.0)]
    assert wl.predict(workload(links=dependent)).seconds == wl.predict(workload()).seconds


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"gird": 4}, "gird: unknown value of a call; did you mean 'grid'?"),
        ({"grid": 2.5}, "grid: one to three whole numbers are wanted, as in 1024 or (128, 64), not 2.5"),
        ({"grid": "4"}, "grid: one to three whole numbers"),
        ({"block": (64, True)}, "block: one to three whole numbers"),
        ({"shared_bytes": 1.5}, "shared_bytes: a whole number is wanted, not 1.5"),
        ({"args": ["n=4"]}, "args: values by name are wanted, as in {'n': 1024}, not list"),
        ({"args": {"n": [1, 2]}}, "args: n: a number, the count of an array's elements or a text"),
        ({"args": {"n": np.zeros(4)}}, "not ndarray"),
        ({"args": {3: 4}}, "args: 3: a number"),
        ({"args": {"n": ""}}, "args: n: a number"),
        ({"variables": 4}, "variables: values by name are wanted"),
        ({"variant": "small"}, "a variant is one of a launch file"),
    ],
)
def test_wrong_values_of_a_call_are_one_line(call: dict[str, Any], said: str) -> None:
    for verb in (wl.analyze, wl.count):
        with pytest.raises(WarplensError) as caught:
            verb("k.cu", **call)
        assert said in str(caught.value) and "\n" not in str(caught.value)


def test_values_of_a_call_are_those_of_the_command_line() -> None:
    call: wl.Call = {
        "grid": (4, 2), "block": 64, "args": {"n": 7, "a": 2.5, "x": "f32[4]:ones", "f": np.float32(0.5)},
        "variables": {"rounds": True},
    }  # fmt: skip
    flags = Request.of("k.cu", None, call).flags
    assert (flags.grid, flags.block) == ("4,2", "64") and flags.variables == ["rounds=1"]
    assert flags.arguments == ["n=7", "a=2.5", "x=f32[4]:ones", "f=0.5"]


def test_wrong_things_are_named() -> None:
    wrong: Any = 3
    with pytest.raises(WarplensError, match="a workload, its name or its path is wanted, not int"):
        wl.predict(wrong)
    with pytest.raises(WarplensError, match="a machine, its name or its path is wanted, not int"):
        wl.predict("saxpy", wrong)
    with pytest.raises(WarplensError, match=r"name a kernel's file .* or a launch file"):
        load(Request(), wl.load_machine("h200"))
    with pytest.raises(WarplensError, match="'full', 'fast' or 'exact', not 3"):
        from warplens.api.counting import profiled

        profiled(wrong, wrong, wrong, effort=wrong)
