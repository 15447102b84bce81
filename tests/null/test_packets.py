"""Packets and atomics in the H200's file: what a program of its own measured on another day, and what follows."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from warplens.laboratory import atomics, scattered
from warplens.laboratory.agree import MEMORY
from warplens.laboratory.atomics import LINES
from warplens.laboratory.samples import Samples
from warplens.machine import load_machine
from warplens.models.warplens.limits import atomic_cycles
from warplens.workload.profile import Profile, Traffic

from . import journals

pytestmark = journals.TOGETHER

SCRIPT = Path(__file__).parents[2] / "data/experiments/l2_packets/derive_packets.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("derive_packets", SCRIPT)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


# What packets.json.gz gave, and the machine file had, before the laboratory measured the same.
PACKETS = {
    "load_request_seconds": 3.66e-12, "load_reply_seconds": 6.29e-12, "load_sector_seconds": 3.54e-12,
    "store_seconds": 6.44e-12, "store_sector_seconds": 5.33e-12, "partial_sector_seconds": 7.04e-12,
}  # fmt: skip
ADDITIONS = {
    "global": (0.00514, 0.01, 0.0397, 0.103, 0.204, 0.269, 0.293),
    "global_reduce": (0.00516, 0.01, 0.0402, 0.121, 0.254, 0.349, 0.386),
}
OTHER = {"global": "atomic", "global_reduce": "reduction"}  # what its rows are called


def less(made: dict[str, Any], seconds: float) -> list[dict[str, Any]]:
    """The rows of the other program with so much taken off each of its times."""
    shorter = [(row, row["us"] / (row["us"] - 1e6 * seconds)) for row in made["rows"]]
    return [{k: v * by if k.endswith("_per_ns") else v for k, v in row.items()} for row, by in shorter]


def as_samples(made: dict[str, Any]) -> Samples:
    """The other program's times as if the laboratory had taken them."""
    head = {"is": "head", "reference_ghz": made["clock_hz"] / 1e9, "facts": {"attributes": {"sm_count": 132}}}
    samples, launch = Samples([head]), {"accesses": 4, "trips": 32, "threads": 264 * 1024, "lanes": 32}
    for row in made["rows"]:
        if row["what"] in ("load", "store", "both") and row["bytes"] == 16 << 20 and row["blocks"] == 264:
            point = {"width": row["width"], "apart": row["stride"], "place": 32 * row["stride"], **launch}
            values: dict[str, Any] = {"seconds_n": 0.0, "seconds_2n": 1e-6 * row["us"]}
            samples.entries.setdefault(f"packets.{row['what']}", []).append((point, values))
        lines = {1 if n == 1 else 32 * n: n for n in LINES}.get(row.get("words"))
        if lines and row["blocks"] == 264 and row["lanes"] == (1 if lines < 64 else 8):
            adds = 264 * 32 * row["lanes"] * 4 * (8 if row["words"] < 1024 else 32)
            point = {"old": row["what"] == "atomic", "lines": lines, "adds": adds}
            values = {"nanoseconds_n": [0.0], "nanoseconds_2n": [1e3 * row["us"]]}
            samples.entries.setdefault("atomic.lines", []).append((point, values))
    return samples


def test_both_derivations_give_what_the_other_program_measured(script: ModuleType) -> None:
    """The laboratory's steps, given its times, the script that it has: the numbers that the file had."""
    made = script.table()
    samples = as_samples(made)
    ours = {n.key: n.value for step in (scattered.derive_packets, atomics.derive_additions) for n in step(samples)}
    assert len(ours) == len(PACKETS) + 14
    for key, (value, _) in script.packets(made["rows"]).items():
        assert value == pytest.approx(PACKETS[key], rel=0.002), key
        assert ours[f"packets.{key}"] == pytest.approx(PACKETS[key], rel=0.005), key
    for name, before in ADDITIONS.items():
        for lines, rate in zip(script.LINES, before, strict=True):
            value, _ = script.passes(made["rows"], OTHER[name], lines, made["clock_hz"])
            assert value == pytest.approx(rate, rel=0.006), (name, lines)
            assert ours[f"atomics.{name}_lines_{lines}.peak_ops_per_cycle_per_sm"] == pytest.approx(rate, rel=0.006)


def test_packets_are_as_another_program_has_them(script: ModuleType) -> None:
    """On another H200; its times are of single launches, from event to event: less an empty one."""
    machine = load_machine("h200")
    launch = machine.launch.empty_between_events_seconds
    assert launch is not None
    for key, (value, _) in script.packets(less(script.table(), launch)).items():
        assert getattr(machine.packets, key) == pytest.approx(value, rel=MEMORY / 100), key


def test_atomics_by_lines_are_as_another_program_has_them(script: ModuleType) -> None:
    """The same. It has one place for its words: with 128 lines that counts, and it has one of the slow ones."""
    machine, made = load_machine("h200"), script.table()
    assert machine.launch.empty_between_events_seconds is not None
    rows = less(made, machine.launch.empty_between_events_seconds)
    for name, what in OTHER.items():
        for lines in script.LINES:
            value, _ = script.passes(rows, what, lines, made["clock_hz"])
            given = machine.atomics[f"{name}_lines_{lines}"].peak_ops_per_cycle_per_sm
            if lines != 128:
                assert given == pytest.approx(value, rel=0.015), (name, lines)
    samples = journals.samples("measured_quick")
    for name, what in OTHER.items():
        places = [
            point["adds"] / (longer - shorter) / made["clock_hz"] * 1e9 / 132
            for point, values in samples.entries["atomic.lines"]
            if point["lines"] == 128 and point["old"] == (name == "global")
            for shorter, longer in zip(values["nanoseconds_n"], values["nanoseconds_2n"], strict=True)
        ]
        value, _ = script.passes(rows, what, 128, made["clock_hz"])
        assert (max(places) > 1.2 * min(places)) == (name == "global")
        assert min(places) == pytest.approx(value, rel=MEMORY / 100), name


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
    points = json.loads(SCRIPT.with_name("columns.json").read_text())["points"]
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
