"""Source that was written to take long: the time to read it grows with its length, and no faster."""

from __future__ import annotations

import time

import pytest

from warplens.program.declarations import (
    declared_kernels,
    declared_structures,
    declared_variables,
    shared_extent,
    with_types,
    without_comments,
)
from warplens.workload.interface import Interface, Parameter
from warplens.workload.suggested_launch import starting_tree

LIMIT_SECONDS = 1.0
COUNT = 20_000
HOSTILE = {
    "blanks behind __device__": "__device__ " + " " * 3000 + "x",
    "__device__": "__device__ " * COUNT,
    "types of variables": "__device__ " + "int " * COUNT,
    "__global__": "__global__ " * COUNT,
    "__global__ and brackets": "__global__ a<a<a<a" * COUNT,
    "brackets that close": ("__global__ " + "a<b>" * 50) * (COUNT // 50),
    "unclosed parameters": "__global__ k(" * 1000 + "a, " * 300_000,
    "unclosed bodies": "__global__ k(){" * 1000 + "{}" * 100_000,
    "launch bounds": "__launch_bounds__(" * COUNT,
    "alignas": "struct alignas(" * COUNT,
    "structures": "struct a{" * COUNT,
    "blanks behind typedef": "typedef " + " " * COUNT,
    "typedef": "typedef " * COUNT,
    "using": "using a = " * COUNT,
    "types that grow": "".join(f"typedef t{i} t{i} t{i + 1};" for i in range(100, 0, -1)) + "t101 " * COUNT,
    "extern": "__global__ void k() {" + "extern " * COUNT + "}",
    "__shared__": "__global__ void k() {" + "__shared__ " * COUNT + "}",
    "loops": "__global__ void k() {" + "for (" * COUNT + "}",
    "comments": "/*" * COUNT,
    "texts": '"\\' * COUNT,
    "parameters": "__global__ void k(" + "x a[" * COUNT + ")",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_time_to_read_source_is_that_of_its_length(name: str) -> None:
    start = time.process_time()
    text = with_types(without_comments(HOSTILE[name]))
    declared_structures(text)
    declared_variables(text)
    body = next((k.body for k in declared_kernels(text)), "")
    shared_extent(body, "k", text)
    starting_tree(Interface("k", "k", [Parameter("n", "i32", "int", 4)], body=body))
    assert time.process_time() - start < LIMIT_SECONDS


def test_blanks_and_bounds_leave_what_is_declared() -> None:
    text = with_types(
        without_comments("""
        typedef  unsigned   int word;  using real = float;
        __constant__   real  scale [ 4 ];   // a comment; '"' is a character
        __device__ static word count = 3;
        struct __align__ ( 16 )  Box { word n; real *to, *from; };
        template <int N> __global__ void __launch_bounds__(128, (1 + 1)) step ( Box  box , word
            last ) { __shared__ float tile [ 8 ] ; }
        __global__ std::enable_if_t<true, void> next(real *x) {}
    """)
    )
    assert declared_variables(text) == {"scale": ("float ", False), "count": ("static unsigned int ", True)}
    assert declared_structures(text) == {"Box": [("unsigned int", "n"), ("float *", "to"), ("float *", "from")]}
    step, following = declared_kernels(text)
    assert (step.name, step.parameters) == ("step", [("Box", "box"), ("unsigned int", "last")])
    assert shared_extent(step.body, "step", text) == 8
    assert (following.name, following.parameters) == ("next", [("float *", "x")])


def test_a_body_that_is_never_closed_ends_at_the_next_kernel() -> None:
    one, two = declared_kernels("__global__ void one(int a) { if (a) { __global__ void two(int b) { b; }")
    assert one.body == " if (a) { " and two.body == " b; "
