"""The laboratory's kernels, without a GPU: every template compiles for every architecture and is what it means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cuda.programs import skip_before
from warplens.core.errors import WarplensError
from warplens.laboratory import (
    atomics,
    bandwidth,
    block_lifetime,
    chase,
    control,
    in_flight,
    issue,
    launches,
    loaded_latency,
    scattered,
    tensor,
    waiting,
)
from warplens.laboratory.build import build
from warplens.laboratory.catalogue import HELPERS, entries
from warplens.laboratory.checks import CheckError, bank_conflicts, check, checked, compiled, timed_loop
from warplens.laboratory.operations import OPERATIONS, PAIRS, chain_kernel, local_kernel, uniform_kernel
from warplens.laboratory.source import Expectation, Kernel

pytestmark = pytest.mark.cuda
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
BY_NAME = {op.name: op for op in OPERATIONS}


def _templates() -> list[Kernel]:
    """One kernel of every template."""
    return [
        *HELPERS,
        chain_kernel(BY_NAME["fadd"]),
        chain_kernel(BY_NAME["lds"], 2),
        chain_kernel(BY_NAME["mufu_rsq"], 1, False, 4, 16),
        uniform_kernel("uniform_int"),
        local_kernel(),
        loaded_latency.stream_kernel(4),
        loaded_latency.stream_kernel(0, 2, 16, "l2"),
        chase.chase_kernel("l2"),
        chase.probe_kernel("l2"),
        chase.lines_kernel(),
        bandwidth.bandwidth_kernel(2, 1),
        bandwidth.bandwidth_kernel(1, 0, 4, 32),
        bandwidth.resident_kernel("l1", 4),
        bandwidth.resident_kernel("l2", 16, store=True),
        atomics.atomic_kernel("atom"),
        atomics.atomic_kernel("red"),
        in_flight.distribution_kernel(2),
        in_flight.in_flight_kernel(),
        in_flight.departures_kernel(20),
        tensor.mma_kernel(tensor.MATRICES[0]),
        tensor.wgmma_kernel(tensor.GROUPS[0], 64),
        launches.empty_kernel(),
        launches.short_blocks_kernel(),
        control.barrier_kernel(),
        control.branch_kernel("uniform"),
        control.branch_kernel("divergent"),
        control.loop_kernel(),
        control.code_kernel(512),
        control.constant_kernel(),
        control.fence_kernel(),
        control.branch_kernel("straight"),
        launches.little_copy_kernel(),
        issue.among_kernel("", 16),
        issue.among_kernel("ldg", 32),
        issue.banks_kernel("same2"),
        scattered.packets_kernel("both", 16),
        atomics.reductions_kernel(old=True),
        loaded_latency.stream_kernel(0, 8, 16),
        local_kernel(address="int"),
        issue.stalls_kernel("imad_wide", 9),
        block_lifetime.life_kernel(2, 1),
        block_lifetime.loads_kernel(1),
        control.fetch_kernel(512),
        block_lifetime.together_kernel(),
        waiting.queue_kernel("mufu", 3),
        issue.readers_kernel("lds"),
        waiting.barrier_kernel(True, 4, True),
        waiting.strips_kernel(16),
        waiting.straight_kernel(512),
    ]


def _one_of_each() -> list[Kernel]:
    """One kernel of every operation, and all those of other templates that are not chains or long loops of code."""
    chains = ("instruction", "pair", "mix", "control.code")
    others = [k for e in entries() for k in e.kernels if not e.name.startswith(chains)]
    mixes = [k for e in entries() if e.name in ("mix.load.a32", "mix.sfu.a3", "mix.shared.a4") for k in e.kernels]
    return [*HELPERS, *(chain_kernel(op) for op in (*OPERATIONS, *PAIRS)), *others, *mixes]


def test_templates_make_the_machine_code_they_mean() -> None:
    built = build(_templates(), "sm_90")
    assert built.errors == {}
    assert len(built.cubins) == len(_templates())


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_all_templates_on_every_architecture(arch: str) -> None:
    built = build(_one_of_each(), arch)
    assert built.errors == {}
    assert len(built.cubins) > 120


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_all_kernels(arch: str) -> None:
    assert build([*HELPERS, *(k for e in entries() for k in e.kernels)], arch).errors == {}


def test_a_wrong_kernel_is_named_with_what_was_wanted_and_found() -> None:
    add = chain_kernel(OPERATIONS[0], length=8)
    programs = checked([add], compiled([add], "sm_90")[0])
    program = programs[add.name]
    for wrong, text in (
        (Expectation({"FADD": 9}), "wanted 9 of FADD in the timed loop, found 8"),
        (Expectation({"FMUL": 8}), "wanted a loop with FMUL, found none"),
        (Expectation({"FADD": 8}, 1), "wanted at most 1 further instructions"),
    ):
        with pytest.raises(CheckError, match=text):
            check(Kernel(add.name, add.text, wrong), program)


def test_changed_machine_code_is_what_was_meant() -> None:
    kernels = [issue.banks_kernel("same4"), issue.banks_kernel("mixed"), control.branch_kernel("straight")]
    programs = checked(kernels, compiled(kernels, "sm_90")[0])
    same, mixed, straight = (programs[kernel.name].instructions for kernel in kernels)
    for code, parities in ((same, {1}), (mixed, {2})):
        fused = [{int(o.text.split(".")[0][1:]) % 2 for o in i.operands[1:]} for i in code if i.opcode == "FFMA"]
        assert fused and {len(found) for found in fused} == parities
    assert not [i for i in straight if i.opcode == "BSYNC"]
    with pytest.raises(WarplensError, match=r"nothing to change for `drop BSYNC\.5`"):
        compiled([replace(kernels[0], patch="drop BSYNC.5")], "sm_90")


def test_conflicts_of_register_banks_are_refused() -> None:
    meant, plain = issue.banks_kernel("same4"), chain_kernel(BY_NAME["ffma_2"], 4)
    (program,) = checked([meant], compiled([meant], "sm_90")[0]).values()
    assert len(list(bank_conflicts(timed_loop(meant, program)))) == meant.expect.inside["FFMA"]
    unmeant = replace(meant, expect=replace(meant.expect, conflicts=False))
    with pytest.raises(CheckError, match=r"wanted no conflicts of register banks .*, found 192, such as"):
        check(unmeant, program)
    (program,) = checked([plain], compiled([plain], "sm_90")[0]).values()
    assert len(list(bank_conflicts(timed_loop(plain, program)))) <= 4  # 512 of FFMA with two registers, by reuse


def test_eight_loads_of_sixteen_bytes_are_under_way_at_once() -> None:
    skip_before((13, 4), "waits for one of the loads before the last is issued")
    kernel = loaded_latency.stream_kernel(0, 8, 16)
    loop = timed_loop(kernel, checked([kernel], compiled([kernel], "sm_90")[0])[kernel.name])
    loads = [i for i in loop if i.opcode == "LDG"]
    assert {i.name for i in loads} == {"LDG.E.128"} and len({i.writes for i in loads}) == 8
    assert not any(i.control.waits for i in loads[1:8] if i.control)  # none of the first eight waits for another


def test_spills_and_stray_traffic_are_refused() -> None:
    spilling = Kernel(
        "spilling",
        "KERNEL(spilling, 1024) { volatile float x[64]; PASSES { START LOOP { x[turn % 64] += value; } STOP } "
        "record(records, c0, c1, 1); }\n",
        Expectation({"FADD": 1}),
    )
    stray = Kernel(
        "stray",
        "KERNEL(stray, 1024) { float x = value; PASSES { START LOOP { x += ((volatile float *)data)[turn]; } STOP } "
        "KEEP(x == 1.5f) record(records, c0, c1, 1); }\n",
        Expectation({"FADD": 1}, 30),
    )
    errors = build([spilling, stray], "sm_90").errors
    assert "wanted no local memory" in errors["spilling"]
    assert "wanted no other memory access in the timed loop, found LDG" in errors["stray"]
