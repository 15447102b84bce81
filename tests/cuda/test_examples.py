"""The kernels under examples/: every launch parses and compiles with each variant and covers its arrays."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cuda.programs import cubin, options_of
from tests.cuda.today import sizes
from tests.cuda.today.sizes import count as _count
from tests.cuda.today.sizes import threads as _threads
from tests.cuda.today.sizes import value as _value
from warplens.program import load_program
from warplens.program.cubin import parse_cubin
from warplens.workload.contents import contents
from warplens.workload.launch import KernelCall, check_parameters, list_variants, load_launch

pytestmark = pytest.mark.cuda
EMULATOR = pytest.mark.xdist_group("emulator")  # its worker has most of these kernels compiled
EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = [
    f for f in sorted(EXAMPLES.rglob("*.toml")) if f.parent.name not in ("triton", "graphs")
]  # test_triton.py, test_graphs.py
SOURCES = sorted(EXAMPLES.rglob("*.cu"))


@cache
def _calls(file: Path) -> list[KernelCall]:
    """Return the calls of a launch file: with no variant, with each, and small ones of all these."""
    variants = ["", *(v for v in list_variants(file) if v != "small")]
    return [load_launch(file, v) for v in [*variants, *(f"{v},small".lstrip(",") for v in variants)]]


def _is_small(call: KernelCall) -> bool:
    return call.variant.endswith("small")


def _covers(threads: int, elements: int, block: int) -> bool:
    """Whether there is a thread for every element, and no block without work."""
    return threads - block < elements <= threads


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_parses_with_each_variant(file: Path) -> None:
    assert "small" in list_variants(file)
    for call in _calls(file):
        assert call.file and (file.parent / call.file).is_file()
        assert call.kernel and call.source
        outputs = [a for a in call.arguments if a.is_pointer and a.name.startswith("out")]
        assert outputs
        assert len({a.name for a in call.arguments}) == len(call.arguments)
        if _is_small(call):
            assert call.blocks <= 64
            assert sum(a.count or 0 for a in outputs) <= 8192  # reference outputs are kept


LARGEST_SHARED = {"sm_80": 163 << 10, "sm_90": 227 << 10}


def _check_compiled(source: Path, calls: list[KernelCall], arch: str) -> None:
    for call in calls:
        made = parse_cubin(cubin(source, options_of(call, arch)), source.name)
        assert call.kernel in made.kernels()
        resources = made.resources(str(call.kernel))
        offsets = check_parameters(call, resources.parameter_bytes, source.name)
        assert len(offsets) == len(call.arguments)
        assert resources.static_shared_bytes + call.dynamic_shared_bytes <= LARGEST_SHARED[arch]
        assert (resources.frame_bytes > 0) == bool(call.register_limit)  # what is spilled is meant to be


def _compilations() -> list[Any]:
    """Return sources, architectures and how many calls of each: the first few always, all of them slow."""
    made = []
    for source in SOURCES:
        today = "today" in source.parts
        made.append(pytest.param(source, "sm_90", 1 if today else 6, id=source.stem))
        for arch in ("sm_80", "sm_90") if today else ("sm_90",):
            made.append(pytest.param(source, arch, None, id=f"{source.stem}-{arch}", marks=pytest.mark.slow))
    return made


@pytest.mark.parametrize(("source", "arch", "most"), _compilations())
@EMULATOR
def test_compiles_with_each_variant(source: Path, arch: str, most: int | None) -> None:
    calls = [call for file in FILES for call in _calls(file) if file.parent / str(call.file) == source]
    assert calls
    _check_compiled(source, calls[:most], arch)


# A division by the compiler's subroutine, constants, shuffles, atomics, and a loop over vectors of four.
@pytest.mark.parametrize("stem", ["ulist", "svm_constant", "reduction_k6", "histogram", "saxpy"])
def test_loads_as_a_program(stem: str) -> None:
    file = next(f for f in FILES if f.stem == stem)
    call = load_launch(file)
    program = load_program(file.parent / str(call.file), call.kernel, options_of(call))
    assert program.name == call.kernel
    check_parameters(call, program.resources.parameter_bytes, program.name)


# What the outputs of a launch must count, from its grid and its scalars.
EXPECTED: dict[str, sizes.Size | dict[str, sizes.Size]] = {
    **sizes.OUTPUTS,
    **dict.fromkeys(
        (
            "vector_add",
            "permute_trivial",
            "permute_random",
            "vabs",
            "mb",
            "loads",
            "divergence",
            "itilp",
            "sfu",
            "bank",
        ),
        _threads,
    ),
    **dict.fromkeys(("reduction_k0_k2", "reduction_k3_k5", "reduction_k6"), lambda c: c.blocks),
    **dict.fromkeys(
        ("black_scholes", "svm_naive", "svm_constant", "svm_coalesced", "barrier"), lambda c: _value(c, "n")
    ),
    **dict.fromkeys(("matmul_naive", "matmul_tiled8", "matmul_tiled16"), lambda c: _value(c, "n") ** 2),
    **dict.fromkeys(("sepia", "linear"), lambda c: 3 * _value(c, "width") * _value(c, "height")),
    **dict.fromkeys(("angular_baseline", "angular_tiled"), lambda c: 32),
    "saxpy": lambda c: 4 * _value(c, "n"),
    "stride": lambda c: _threads(c) * _value(c, "per_thread"),
    "ulist": lambda c: 128 * c.blocks,
    "cutoff_baseline": lambda c: _value(c, "nx") * _value(c, "ny") * c.grid_shape[2],
    "cutoff_binned": lambda c: 16**3 * _value(c, "bins_x") * _value(c, "bins_y") * _value(c, "bins_z"),
    "list_ranking": lambda c: _count(c, "successor"),
    "histogram": lambda c: 256 * c.blocks,
}


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_outputs_have_the_size_that_the_kernel_writes(file: Path) -> None:
    for call in _calls(file):
        for argument in call.arguments:
            if argument.is_pointer and argument.name.startswith("out"):
                expected = EXPECTED[file.stem]
                size = expected[argument.name] if isinstance(expected, dict) else expected
                assert argument.count == size(call), call.variant


@pytest.mark.parametrize("stem", ["black_scholes", "svm_naive", "svm_constant", "svm_coalesced", "saxpy"])
def test_threads_cover_the_elements(stem: str) -> None:
    for call in _calls(next(f for f in FILES if f.stem == stem)):
        assert _covers(_threads(call), _value(call, "n"), call.threads_per_block)


@pytest.mark.parametrize("stem", sizes.COVERED)
def test_threads_cover_what_a_scalar_counts(stem: str) -> None:
    name, per_element = sizes.COVERED[stem]
    for call in _calls(next(f for f in FILES if f.stem == stem)):
        assert _covers(_threads(call), per_element * _value(call, name), call.threads_per_block), call.variant


@pytest.mark.parametrize("stem", ["sepia", "linear", *sizes.PLANES])
def test_blocks_cover_the_image(stem: str) -> None:
    for call in _calls(next(f for f in FILES if f.stem == stem)):
        (gx, gy, _), (bx, by, _) = call.grid_shape, call.block_shape
        assert _covers(gx * bx, _value(call, "width"), bx)
        assert _covers(gy * by, _value(call, "height"), by)


@pytest.mark.parametrize("stem", ["matmul_naive", "matmul_tiled8", "matmul_tiled16"])
def test_blocks_cover_the_matrix(stem: str) -> None:
    for call in _calls(next(f for f in FILES if f.stem == stem)):
        (gx, gy, _), (bx, by, _) = call.grid_shape, call.block_shape
        assert gx * bx == gy * by == _value(call, "n")  # no bounds check in the kernel


def test_barriers_are_reached_by_all_threads() -> None:
    for call in _calls(EXAMPLES / "micro" / "barrier.toml"):
        assert _value(call, "n") % _threads(call) == 0


# Arrays of indices, and what they index.
INDICES: dict[str, tuple[str, Callable[[KernelCall], int]]] = {
    **sizes.INDICES,
    "permute_trivial": ("order", lambda c: _count(c, "values")),
    "permute_random": ("order", lambda c: _count(c, "values")),
    "histogram": ("values", lambda c: 256),
    "ulist": ("lists", lambda c: _value(c, "n") // 128),
    "list_ranking": ("successor", lambda c: _count(c, "successor")),
}


@pytest.mark.parametrize("stem", INDICES)
def test_indices_stay_inside(stem: str) -> None:
    name, limit = INDICES[stem]
    for call in _calls(next(f for f in FILES if f.stem == stem)):
        at, argument = next((i, a) for i, a in enumerate(call.arguments) if a.name == name)
        count = argument.count or 0
        index = np.unique(np.linspace(0, count - 1, 10_000).astype(np.int64))
        values = contents(argument, seed=at)(index)
        assert values.min() >= 0
        assert values.max() < limit(call)


def test_masks_fit_their_arrays() -> None:
    for stem in ("mb", "loads"):
        for call in _calls(EXAMPLES / "micro" / f"{stem}.toml"):
            assert _value(call, "mask") == _count(call, "x") - 1


def test_every_element_of_the_list_belongs_to_one_splitter() -> None:
    call = load_launch(EXAMPLES / "list_ranking" / "list_ranking.toml", "small")
    count, spacing, splitters = _count(call, "successor"), _value(call, "spacing"), _value(call, "splitters")
    successor = contents(call.arguments[2], seed=2)(np.arange(count))
    visited = np.zeros(count, int)
    for splitter in range(splitters):
        at = splitter * spacing
        while True:
            visited[at] += 1
            at = int(successor[at])
            if at % spacing == 0 and at // spacing < splitters:
                break
    assert (visited == 1).all()


def test_the_fmm_has_44_combinations() -> None:
    folder = EXAMPLES / "fmm"
    written = subprocess.run(
        [sys.executable, folder / "variants.py"], capture_output=True, check=True, text=True
    ).stdout
    assert written == (folder / "ulist.toml").read_text()
    defines = {tuple(c.defines) for c in _calls(folder / "ulist.toml")}
    assert len(defines) == 44


def test_the_readme_names_every_launch_file() -> None:
    text = (EXAMPLES / "README.md").read_text()
    missing = [f.stem for f in FILES if f"`{f.stem}`" not in text]
    assert not missing
