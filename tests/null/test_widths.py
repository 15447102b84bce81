"""Accesses of 64 and 128 bits where no run says what they touch: as fast as the laboratory measured them."""

from __future__ import annotations

import numpy as np
import pytest

import warplens as wl
from warplens.core.errors import WarplensError
from warplens.machine import load_machine
from warplens.papers.lemeire_graph import Graph, GraphNode
from warplens.papers.lemeire_simulator import simulate
from warplens.program import parse_listing
from warplens.workload import Workload
from warplens.workload.counted import _access
from warplens.workload.loader import parse_workload
from warplens.workload.profile import Profile
from warplens.workload.workload import Access, wavefronts

NAMES = {"LDS": "lds", "LDS.64": "lds_64", "LDS.128": "lds_128", "STS": "sts", "STS.64": "sts_64", "STS.128": "sts_128"}


def _listing(text: str) -> Workload:
    return parse_workload({"name": "x", "warp": [{"listing": text}]}, "x")


@pytest.mark.parametrize("opcode", NAMES)
def test_rates_of_shared_memory_are_those_measured(opcode: str) -> None:
    """A turn of the banks for each 32 bits: `operations.lds_64` is half of `operations.lds`, `lds_128` a quarter."""
    peak = load_machine("h200").operations[NAMES[opcode]].peak_ops_per_cycle_per_scheduler
    assert peak is not None
    operands = "R8, [R4]" if opcode.startswith("LDS") else "[R4], R8"
    work = _listing(f"{opcode} {operands}\n" * 8)
    measured = 8 * 32 / (4 * peak)  # cycles of the SM for eight of them
    assert wl.simulate(work, "h200", warps_per_sm=32).cycles == pytest.approx(measured, rel=0.02)
    assert wl.predict(work, "h200", "volkov", warps_per_sm=32).cycles == pytest.approx(measured, rel=0.02)
    assert wl.predict(work, "h200", "volkov-contention", warps_per_sm=32).cycles == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("LDS R4, [R4]\n", "lds"),
        ("LDS.64 R4, [R6]\nLOP3 R6, R4, R5\n", "lds_64"),
        ("LDS.128 R4, [R9]\nLOP3 R8, R5, R6, R7\nLOP3 R9, R4, R8\n", "lds_128"),
    ],
)
def test_a_lone_warp_waits_longer_for_wider_loads(text: str, name: str) -> None:
    """The laboratory's chains; the last register of a group is waited for as the first."""
    measured = load_machine("h200").operations[name].latency_cycles
    alone = _listing(text)
    assert 4 * wl.simulate(alone, "h200", warps_per_sm=4).cycles == pytest.approx(measured, rel=0.04)
    bound = wl.predict(alone, "h200", "volkov", warps_per_sm=4).cycles
    assert bound is not None and 4 * bound == pytest.approx(measured, rel=0.04)


def test_wide_loads_move_so_much_more() -> None:
    narrow, wide = (_listing(f"{x} R4, [R2]\nFADD R8, R4, R5\n") for x in ("LD", "LD.128"))
    assert [float(w.dram_bytes()) for w in (narrow, wide)] == [32 * 4, 32 * 16]
    machine = load_machine("h200")
    least = 32 * 16 / machine.dram_bytes_per_second() * machine.chip.sm_count * machine.chip.clock_hz
    assert wl.simulate(wide, "h200", warps_per_sm=64).cycles == pytest.approx(least, rel=0.02)


def test_a_node_of_a_graph_has_a_width() -> None:
    def cycles(width: int) -> float:
        nodes = [GraphNode(operation="shared", bytes_per_thread=width)] * 64
        return simulate(Graph(grid=132, block=1024, nodes=nodes), load_machine("h200")).cycles

    assert cycles(16) - cycles(4) == pytest.approx(32 * 64 * 3, rel=0.02)  # three turns more of each access


def test_all_registers_of_a_group_are_written_and_read() -> None:
    load, store, matrices = parse_listing("LDS.128 R4, [R9]\nSTG.E.64 [R2], R4\nLDSM.16.M88.2 R4, [R8]\n")
    assert load.writes == ("R4", "R5", "R6", "R7") and load.reads == ("R9",)
    assert store.writes == () and store.reads == ("R2", "R3", "R4", "R5")  # .E: an address of 64 bits
    assert matrices.writes == ("R4", "R5")


def test_data_of_an_atomic_are_groups_too() -> None:
    swap, add = parse_listing("ATOMS.CAS.64 R4, [R2], R6, R8\nRED.E.ADD.F64.RN [R2], R6 ; class=store\n")
    assert swap.writes == ("R4", "R5") and set(swap.reads) == {"R2", "R6", "R7", "R8", "R9"}
    assert add.writes == () and set(add.reads) == {"R2", "R3", "R6", "R7"}


def test_bytes_of_a_warp_move_no_whole_line() -> None:
    assert [float(_listing(f"LD{x} R4, [R2]\n").dram_bytes()) for x in (".U8", ".S16", "")] == [32, 64, 128]


def test_the_latency_of_shared_memory_moves_that_of_wider_loads() -> None:
    def cycles(opcode: str, **changes: float) -> float:
        moved = {f"shared.{name}": x for name, x in changes.items()}
        return 4 * wl.simulate(_listing(f"{opcode} R4, [R4]\n"), "h200", warps_per_sm=4, changes=moved).cycles

    for opcode in ("LDS", "LDS.64", "LDS.128"):
        assert cycles(opcode, latency=60) - cycles(opcode) == pytest.approx(60 - cycles("LDS"), abs=0.1)


def test_arrays_of_widths_have_each_its_own_latency() -> None:
    def bound(width: object) -> object:
        work = Workload(name="x", accesses=[Access(1.0, "shared", bytes_per_thread=width)])  # type: ignore[arg-type]
        return wl.predict(work, "h200", "volkov", warps_per_sm=4).cycles

    assert list(bound(np.array([4.0, 8.0, 16.0]))) == [bound(4.0), bound(8.0), bound(16.0)]  # type: ignore[call-overload]
    with pytest.raises(WarplensError, match="one configuration, not arrays"):
        wl.simulate(Workload(name="x", accesses=[Access(1.0, "shared", bytes_per_thread=np.ones(2))]), "h200")


@pytest.mark.parametrize("kind", ["shared_2way", "load_random"])
def test_classes_of_bad_accesses_are_no_faster_than_the_bound(kind: str) -> None:
    """They were as fast as good ones, 32 times faster than `volkov` allows."""
    for gpu in ("h200", "gtx680"):
        machine = load_machine(gpu)
        for warps in (machine.sm.schedulers, machine.sm.warps_max):
            work = _listing(f"LD R4, [R4] ; class={kind}\n")
            bound = wl.predict(work, gpu, "volkov", warps_per_sm=warps).cycles
            assert wl.simulate(work, gpu, warps_per_sm=warps).cycles >= 0.99 * (bound or 0.0)


@pytest.mark.parametrize("width", [0, -1, 3, 17, 10**30, 4.5, None, "8"])
def test_widths_that_no_access_has_are_refused(width: object) -> None:
    nodes = [GraphNode(operation="shared", bytes_per_thread=width)]  # type: ignore[arg-type]
    with pytest.raises(WarplensError, match=r"node\.0\.bytes_per_thread"):
        simulate(Graph(grid=1, block=32, nodes=nodes), load_machine("h200"))


@pytest.mark.parametrize("turns", [1.0, 2.0, 4.0, 7.0])
def test_wide_loads_take_the_turns_that_were_counted(turns: float) -> None:
    """Threads that ask for the same have 128 bits in one turn or two; nothing takes less than that of the data path."""
    (code,) = parse_listing("LDS.128 R4, [R9]")
    counts = {"requests": [10.0], "threads": [320.0], "useful_bytes": [5120.0], "wavefronts": [10 * turns]}
    profile = Profile(grid_blocks=1, warps_per_block=1, emulated_blocks=1, exact=True, counts=counts)
    access = _access(code, 0, profile, 1, 0.0)
    assert wavefronts(access, load_machine("h200")) == pytest.approx(turns)
