"""Packets and atomics in the H200's file: what a program of its own measured on another day, and what follows."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from warplens.kernel.profile import Profile, Traffic
from warplens.machine import load_machine
from warplens.models.limits import atomic_cycles

SCRIPT = Path(__file__).parents[2] / "data" / "h200" / "derive_packets.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("derive_packets", SCRIPT)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_packets_are_as_another_program_has_them(script: ModuleType) -> None:
    """Within what its launches take of its times, 3 of 50 to 200 us, and what L2 differs from GPU to GPU."""
    packets = load_machine("h200").packets
    for key, (value, _) in script.packets(script.table()["rows"]).items():
        assert getattr(packets, key) == pytest.approx(value, rel=0.06), key


def test_atomics_by_lines_are_as_another_program_has_them(script: ModuleType) -> None:
    """Above it, by its launches; by a tenth where it counts most which parts of L2 so few lines fall into."""
    machine, made = load_machine("h200"), script.table()
    for what, name in (("atomic", "global"), ("reduction", "global_reduce")):
        for lines in script.LINES:
            value, _ = script.passes(made["rows"], what, lines, made["clock_hz"])
            given = machine.atomics[f"{name}_lines_{lines}"].peak_ops_per_cycle_per_sm
            assert 0.99 < given / value < (1.11 if lines == 128 else 1.05), (name, lines)


def test_atomics_on_fewer_lines_take_longer() -> None:
    machine = load_machine("h200")

    def cycles(lines: int) -> float:
        traffic = [Traffic(name="bins", written_footprint_bytes=128.0 * lines, atomic_passes=1e6)]
        profile = Profile(
            grid_blocks=1, warps_per_block=1, emulated_blocks=1, exact=True, counts={"executed": []}, traffic=traffic
        )
        return atomic_cycles([], profile, machine)

    assert cycles(1) > 1.5 * cycles(8) > 4 * cycles(64) > 8 * cycles(4096)
    # One line is in one slice of L2: 1e6 turns at 1.35 a nanosecond (reductions of one lane to one word).
    assert cycles(1) / machine.chip.clock_hz == pytest.approx(1e6 / 1.35e9, rel=0.02)


def test_stores_to_parts_of_sectors_beyond_l2() -> None:
    """A column of words per block: the first store to a sector fetches it, those that fill it up do not."""
    points = json.loads(SCRIPT.with_name("neighbours.json").read_text())["points"]
    h200 = load_machine("h200")
    rate, packets = h200.scattered.dram_partial_store_bytes_per_second, h200.packets
    assert rate and packets.store_seconds and packets.partial_sector_seconds
    packet, alone = 1e12 * (packets.store_seconds + packets.partial_sector_seconds), 32e12 / rate
    for p in points:
        if p["kind"] == "store" and p["rows"] == 256 and p["gap_words"] <= 8:
            missing = p["gap_words"] / 8 if p["columns"] > 100_000 else 0.0
            expected = packet + missing * (alone - packet)
            if p["blocks"] == 1056:
                assert expected == pytest.approx(p["picoseconds_each"], rel=0.25), p
