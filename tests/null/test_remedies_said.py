"""Remedies as they are said: what they change, in which order they stand, and that they fit the data."""

from __future__ import annotations

from functools import cache

import pytest
from msgspec.structs import replace

import warplens as wl
from warplens.advisor import REMEDIES
from warplens.advisor.advice import Advised
from warplens.advisor.case import Case, Proposal, Refusal
from warplens.advisor.memory import coalesce, scattered_title
from warplens.advisor.precision import data_type, lower_precision
from warplens.advisor.remedies import HOW
from warplens.papers.validation.kernels import launches
from warplens.report.analysis import NEAREST, first_screen, remedies
from warplens.report.data import to_json

GPU = wl.load_machine("h200")


@cache
def workload(name: str) -> wl.Workload:
    return next(x.workload for x in launches() if x.name == name)


@cache
def case(name: str) -> Case:
    return Case(workload(name), GPU, wl.predict(workload(name), GPU, "warplens-fast"))


@cache
def advised(name: str) -> Advised:
    return wl.advise(workload(name), GPU, simulated=0)


def test_every_remedy_says_how_in_a_line() -> None:
    assert [*HOW] == [*REMEDIES.values()]
    assert max(map(len, HOW.values())) < 80


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("saxpy", {"f32"}),
        ("axpy_half", {"f16"}),  # HFMA2
        ("rms_norm", {"f16"}),  # HADD2.F32 on the way to single precision
        ("hgemm_mma", {"f16", "f32"}),  # operands through shared memory to HMMA, sums in single precision
        ("gather", {"integer", "f32"}),  # an index, and what it finds
        ("hash_probe", {"integer"}),
        ("histogram_global", {"integer"}),  # the one that is added is a constant made by HFMA2
        ("gemv_int8", {"integer"}),
        ("permute_random", {"integer", "f32"}),
    ],
)
def test_types_of_data(name: str, types: set[str]) -> None:
    sites = [s for s in case(name).global_sites if s.instruction.kind in ("load", "store") and s.bytes_per_thread >= 4]
    assert {data_type(case(name), s) for s in sites} == types


@pytest.mark.parametrize("name", ["axpy_half", "rms_norm", "hash_probe", "histogram_global", "gemv_int8", "philox"])
def test_what_is_no_float_of_32_or_64_bits_is_not_halved(name: str) -> None:
    refusal = lower_precision(case(name))
    assert isinstance(refusal, Refusal)
    assert ("16 bits wide already" in refusal.reason) is (name in ("axpy_half", "rms_norm"))


def test_a_copy_has_the_type_that_the_launch_file_says() -> None:
    """A transpose computes nothing: of f32 it may be halved, of u32 and of f16 not."""
    names = [t.name for t in workload("transpose_naive").profile.traffic]  # type: ignore[union-attr]
    for element, halved in (("f32", True), ("u32", False), ("f16", False), ("f64", True)):
        w = replace(workload("transpose_naive"), array_types=dict.fromkeys(names, element))
        found = lower_precision(Case(w, GPU, case("transpose_naive").prediction))
        assert isinstance(found, Refusal) is not halved


@pytest.mark.parametrize("name", ["saxpy", "vector_add", "transpose_naive", "spmv_scalar"])
def test_half_the_bytes_come_last_and_are_marked(name: str) -> None:
    helpful = advised(name).helpful
    assert [a.name for a in helpful].index("lower-precision") == len(helpful) - 1
    others = [a.speedup for a in helpful[:-1]]
    assert others == sorted(others, reverse=True)
    assert helpful[-1].changes_results


def test_results_change_where_numbers_or_the_order_of_float_sums_do() -> None:
    said = {a.name: a.changes_results for a in advised("matmul_tiled16") if a.helps}
    assert said["tensor-cores"] and said["lower-precision"] and not said["keep-in-registers"]
    assert "FP16 or BF16" in next(a.title for a in advised("matmul_tiled16") if a.name == "tensor-cores")
    by_name = {a.name: a.changes_results for a in advised("matmul_naive")}
    assert by_name["more-loads-in-flight"]  # a sum for each iteration: added up in another order
    assert not by_name["unroll"]


def test_the_mark_is_in_text_and_in_json() -> None:
    text = "\n".join(map(str, remedies(advised("matmul_tiled16"), GPU)))
    assert "[changes results] nvcuda::wmma" in text and "[same results]" in text
    assert '"changes_results": true' in to_json(advised("matmul_tiled16").advice)
    screen = "\n".join(map(str, first_screen(advised("saxpy"))))
    assert "[changes results]" in screen and "[same results]" in screen


def test_of_what_would_not_help_the_nearest_are_shown_and_all_if_asked() -> None:
    made = advised("saxpy")
    useless = sum(not a.helps for a in made)
    few, every = ("\n".join(map(str, remedies(made, GPU, everything=e))) for e in (False, True))
    assert f"and {useless - NEAREST} more: --all shows them" in few and "potential benefits" not in few
    assert "--all" not in every and "potential benefits" in every
    part = few.partition("what would not, and why\n")[2]
    assert len(part.splitlines()) == NEAREST + 1


def test_where_all_bytes_are_used_what_costs_is_the_lines() -> None:
    """4 full sectors of an access of 128 bytes, in two lines: no byte too many, but two lines are looked up."""
    site = replace(case("saxpy").global_sites[0], requests=1.0, useful_bytes=128.0, sectors=4.0, lines=2.0)
    assert scattered_title(site) == "fewer lines per access: its 4 sectors lie in 2 lines per request, 1 would do"
    site = replace(site, sectors=32.0, lines=32.0)
    assert scattered_title(site) == "coalesce this access: 32 sectors in 32 lines per request, 4 sectors would do"
    proposal = coalesce(case("transpose_naive"))
    assert isinstance(proposal, Proposal) and "4 sectors would do" in proposal.title
