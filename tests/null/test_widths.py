"""Accesses of 64 and 128 bits where no run says what they touch: as fast as the laboratory measured them."""

from __future__ import annotations

import pytest

import warplens as wl
from warplens.kernel import Workload, parse_listing
from warplens.kernel.graph import Graph, GraphNode
from warplens.kernel.loader import parse_workload
from warplens.machine import load_machine

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
        return wl.simulate(Graph(grid=132, block=1024, nodes=nodes), "h200").cycles

    assert cycles(16) - cycles(4) == pytest.approx(32 * 64 * 3, rel=0.02)  # three turns more of each access


def test_all_registers_of_a_group_are_written_and_read() -> None:
    load, store, matrices = parse_listing("LDS.128 R4, [R9]\nSTG.E.64 [R2], R4\nLDSM.16.M88.2 R4, [R8]\n")
    assert load.writes == ("R4", "R5", "R6", "R7") and load.reads == ("R9",)
    assert store.writes == () and store.reads == ("R2", "R4", "R5")
    assert matrices.writes == ("R4", "R5")
