"""What arrays hold, and where arguments lie, as launch files say it."""

from __future__ import annotations

import numpy as np
import pytest

from warplens.core.errors import FileError, WarplensError
from warplens.workload.contents import contents
from warplens.workload.launch import Argument, KernelCall, check_parameters, parse_launch

INDEX = np.arange(1000)


def _array(fill: str, type: str = "f32*", seed: int = 3) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.asarray(contents(Argument(type, count=1000, fill=fill), seed)(INDEX))


@pytest.mark.parametrize(
    ("fill", "first", "step"),
    [
        ("linear(1e5, 1)", 1e5, 1), ("linear(1, 2e-1)", 1, 0.2), ("linear(-1E3,+5)", -1e3, 5),
        ("linear(0x1e, 1)", 30, 1), ("linear(0x1E5, -0x1)", 485, -1), ("linear( .5 , 2. )", 0.5, 2),
        ("linear(12, 0)", 12, 0),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(fill: str, first: float, step: float) -> None:
    assert _array(fill, "f64*").tolist() == (first + step * INDEX).tolist()


def test_whole_numbers_with_an_exponent() -> None:
    assert _array("random_int(0, 1e2)", "i32*").tolist() == _array("random_int(0, 100)", "i32*").tolist()
    assert _array("hash_mod(1e1)", "i32*").tolist() == _array("hash_mod(10)", "i32*").tolist()


def test_uniform_has_the_bits_of_random() -> None:
    share = _array("random", "f64*")
    made = _array("uniform(-2, 6.5)", "f64*")
    assert made.tolist() == (-2 + 8.5 * share).tolist()
    assert made.min() >= -2 and made.max() < 6.5 and made.std() == pytest.approx(8.5 / 12**0.5, rel=0.05)
    assert _array("uniform(0, 1)").tobytes() == _array("random").tobytes()
    assert _array("uniform(-2, 6.5)").tobytes() == made.astype(np.float32).tobytes()


@pytest.mark.parametrize(
    ("fill", "type", "message"),
    [
        ("uniform(0, 1)", "i32*", "use random_int for i32*"), ("uniform(1, 1)", "f32*", "needs lo < hi"),
        ("uniform(0, inf)", "f32*", "both finite"), ("uniform(nan, 1)", "f32*", "needs lo < hi"),
        ("uniform(1)", "f32*", "takes 2 numbers, not 1"), ("unifrom(0, 1)", "f32*", "did you mean 'uniform'"),
        ("random_int(0, 1.5)", "i32*", "takes whole numbers"), ("hash_mod(inf)", "i32*", "takes whole numbers"),
        ("hash_mod(0)", "i32*", "positive"), ("linear(1f, 1)", "f32*", "must be numbers"),
        ("linear(99999999999999999999, 1)", "i64*", "64 bits"), ("linear(010, 1)", "i32*", "must be numbers"),
    ],
)  # fmt: skip
def test_fills_that_make_no_sense(fill: str, type: str, message: str) -> None:
    with pytest.raises(FileError, match=r"arg\.fill") as caught:
        _array(fill, type)
    assert message in str(caught.value)


def _call(*arguments: dict[str, object]) -> KernelCall:
    return parse_launch({"grid": 1, "block": 1, "arg": list(arguments)}, "x.toml")


@pytest.mark.parametrize(("align", "offset"), [(None, 8), (1, 4), (4, 4), (8, 8), (16, 16), (128, 128)])
def test_a_structure_lies_where_its_alignment_says(align: int | None, offset: int) -> None:
    structure: dict[str, object] = {"type": "bytes", "value": "00" * 12}
    call = _call({"type": "i32", "value": 1}, structure if align is None else {**structure, "align": align})
    assert check_parameters(call, offset + 12, "k") == [0, offset]
    with pytest.raises(WarplensError, match="takes 13 bytes"):
        check_parameters(call, 13, "k")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"type": "bytes", "value": "00", "align": 3}, "align"),
        ({"type": "bytes", "value": "00", "align": 256}, "align"),
        ({"type": "i32", "value": 1, "align": 4}, "align: only for bytes"),
        ({"type": "f32*", "count": 1, "align": 16}, "align: only for bytes"),
    ],
)  # fmt: skip
def test_alignments_that_make_no_sense(argument: dict[str, object], message: str) -> None:
    with pytest.raises(FileError) as caught:
        _call(argument)
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1.5, 1e30, -(2**31) - 1])
def test_values_that_a_whole_number_cannot_hold(value: float) -> None:
    with pytest.raises(FileError, match="i32 holds whole numbers"):
        _call({"type": "i32", "value": value})


def test_a_block_has_64_threads_in_z_at_most() -> None:
    with pytest.raises(FileError, match="65 threads in z; a block has at most 64"):
        parse_launch({"grid": 1, "block": [1, 1, 65]}, "x.toml")


def test_an_argument_of_the_wrong_size_is_named_though_the_sum_is_right() -> None:
    """A kernel of (float *, int, int) called with a pointer and an i64; a structure may be given by its members."""
    pointer: dict[str, object] = {"type": "f32*", "count": 4}
    call = _call(pointer, {"name": "n", "type": "i64", "value": 1})
    assert check_parameters(call, 16, "k") == [0, 8]
    with pytest.raises(WarplensError, match=r"arg\.n \(i64, 8 bytes\) does not fit .* one of 4 bytes"):
        check_parameters(call, 16, "k", ((0, 8), (8, 4), (12, 4)))
    members = _call(pointer, {"type": "i32", "value": 1}, {"type": "i32", "value": 2})
    assert check_parameters(members, 16, "k", ((0, 8), (8, 8))) == [0, 8, 12]


def test_arrays_larger_than_any_memory_are_refused() -> None:
    with pytest.raises(FileError, match="no GPU has more than"):
        _call({"type": "f32*", "count": 1 << 39}, {"type": "u8*", "count": 1})


@pytest.mark.parametrize("beliefs", [{}, {"trips": 2, "taken_fraction": 0.5}])
def test_an_assumption_says_one_thing(beliefs: dict[str, float]) -> None:
    with pytest.raises(FileError, match="line 7: one of taken_fraction, trips, bytes_apart"):
        parse_launch({"grid": 1, "block": 1, "assume": [{"line": 7, **beliefs}]}, "x.toml")


def test_a_structure_is_given_by_its_members_though_it_has_padding() -> None:
    """struct P { float *x; int n; } has 16 bytes: its 4 of padding hold no argument. Then an int m, behind it."""
    pointer: dict[str, object] = {"type": "f32*", "count": 4}
    whole: dict[str, object] = {"type": "i32", "value": 1}
    assert check_parameters(_call(pointer, whole, whole), 20, "k", ((0, 16), (16, 4))) == [0, 8, 16]
    # int m before it: P begins at 8, where its pointer's alignment wants it
    assert check_parameters(_call(whole, pointer, whole, whole), 28, "k", ((0, 4), (8, 16), (24, 4))) == [0, 8, 16, 24]
    with pytest.raises(WarplensError, match="takes 28 bytes"):
        check_parameters(_call(whole, pointer, whole), 28, "k", ((0, 4), (8, 16), (24, 4)))


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ({"type": "f33"}, "unknown type 'f33*'"),
        ({"type": "f32*", "count": 4}, "a variable that is a pointer cannot be given"),
        ({"type": "f32", "value": 1, "count": 4}, "not both"),
        ({"type": "i8", "value": 300}, "i8 holds whole numbers"),
        ({"type": "f32", "fil": "ones"}, "did you mean 'fill'"),
    ],
)
def test_variables_that_make_no_sense(variable: dict[str, object], message: str) -> None:
    with pytest.raises(FileError) as caught:
        parse_launch({"grid": 1, "block": 1, "global": [{"name": "coef", **variable}]}, "x.toml")
    assert message in str(caught.value)
