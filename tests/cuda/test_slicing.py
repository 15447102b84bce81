"""A profile computes only what addresses and branches depend on; what is counted must not change."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.programs import program_of
from tests.cuda.test_profile import FILES
from warplens.emulate import ops
from warplens.emulate.emulator import Emulator
from warplens.kernel.launch import load_launch

pytestmark = [pytest.mark.cuda, pytest.mark.xdist_group("emulator")]


def _skipped(emulator: Emulator) -> int:
    return int((emulator.code.table[:, ops.GROUP] == ops.NOTHING).sum())


@pytest.mark.parametrize(
    ("name", "skips"),
    [("hgemm_mma", True), ("sgemm_tiled", True), ("fft_radix4", True), ("svm_coalesced", True), ("spmv_vector", False),
     ("list_ranking", False), ("cutoff_binned", False), ("hash_probe", False), ("gelu", False)],
)  # fmt: skip
def test_counts_are_the_same(name: str, skips: bool) -> None:
    """Every column of every instruction: executions, threads, sectors, wavefronts; and so after `forget`."""
    call = load_launch(FILES[name], "small")
    program = program_of(call)
    blocks = range(min(4, call.blocks))
    whole, sliced = Emulator(program, call), Emulator(program, call, values=False)
    for emulator in (whole, sliced):
        emulator.run(blocks)
    assert np.array_equal(whole.stats, sliced.stats)
    assert (_skipped(sliced) > _skipped(whole) + 5) == skips
    once = sliced.stats.copy()
    sliced.forget()
    sliced.run(blocks)
    assert np.array_equal(sliced.stats[:, :5], 2 * once[:, :5])


def test_what_is_written_is_forgotten_and_what_is_read_is_kept() -> None:
    call = load_launch(FILES["saxpy"], "small")
    emulator = Emulator(program_of(call), call)
    first = emulator.array(3)
    emulator.run([0])
    pages_in_use = int(emulator.pages.table[-1])
    assert not np.array_equal(emulator.array(3), first)
    emulator.forget()
    assert np.array_equal(emulator.array(3), first)
    emulator.run([0])
    assert int(emulator.pages.table[-1]) == pages_in_use
