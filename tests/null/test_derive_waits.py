"""What is derived from waiting: numbers that are put into made-up samples are found again."""

from __future__ import annotations

import math
from typing import Any

import pytest

from warplens.laboratory import waiting
from warplens.laboratory.samples import Samples, Step
from warplens.laboratory.waiting import QUEUED, ROWS, WORDS

from .fake_gpu import ATTRIBUTES

IN_FLIGHT = ATTRIBUTES["sm_count"] * ATTRIBUTES["threads_per_sm_max"]


def found(step: Step, entry: str, rows: list[tuple[dict[str, Any], dict[str, float]]]) -> dict[str, Any]:
    samples = Samples([{"is": "head", "reference_ghz": 2.0, "facts": {"attributes": ATTRIBUTES}}])
    samples.entries = {entry: rows}
    return {number.key: number.value for number in step(samples)}


def test_sources_are_read_when_the_next_may_go() -> None:
    rows = [({"warps": 1, "links": 20, "chains": 3}, {"mean_cycles_per_count_n": 25 + 60 * 14.0,
             "mean_cycles_per_count_2n": 25 + 120 * 14.0})]  # fmt: skip
    assert found(waiting.derive_sources, "wait.sources.mufu_rsq", rows) == {"instructions.sfu.read_cycles": 14}


def test_what_waits_before_shared_memory_is_what_was_issued_less_what_is_done() -> None:
    rows = [({"count": n, "warps": 4}, {"longest": max(4.0 * n, 32.0 * (4 * n - 44))}) for n in QUEUED["lds"]]
    assert found(waiting.derive_queues, "wait.queue.shared", rows) == {"sm.queued_per_scheduler": 11}


@pytest.mark.parametrize("late", [0, 4, 5])
def test_the_place_before_the_sfu_is_free_some_cycles_late(late: int) -> None:
    """The first is taken at once, the second waits; the n-th goes when the one before was taken, at 8 (n - 2)."""
    issued = {n: (2 if n == 2 else 8 * (n - 2) + late) for n in QUEUED["mufu"]}
    rows = [({"count": n, "warps": 1}, {"issuing": at + 2.0}) for n, at in issued.items()]
    assert found(waiting.derive_queues, "wait.queue.sfu", rows) == {"sm.sfu_queue_release_cycles": late}


def test_a_barrier_holds_the_data_path_for_what_turns_take_longer() -> None:
    rows = []
    for store, held in ((False, 4), (True, 10)):
        for accesses in (4, 8):
            for barrier in (False, True):
                span = 16 * 100 * (4 * accesses + held * barrier)  # 16 blocks of 4 warps, 100 turns
                point = {"store": store, "accesses": accesses, "barrier": barrier, "turns": 100, "blocks": 16}
                rows.append((point, {"mean_span_cycles_n": 5000.0 + span, "mean_span_cycles_2n": 5000.0 + 2 * span}))
    assert found(waiting.derive_barriers, "wait.barrier", rows) == {"sm.barrier_data_path_cycles": 7}
    assert found(waiting.derive_barriers, "wait.barrier", rows[:4]) == {}  # stores were not measured


def test_what_split_sectors_take_is_found_again() -> None:
    seconds, blocks, warps = 7e-11, 7e6, 2e7
    rows = []
    for words in (16, 32, 64, 256, 1024):
        for turns in (2, 4, 8, 16, 32, 64, 512):
            between = 4 * 4 * IN_FLIGHT * math.sqrt(turns)
            own = min(1.0, 32 / words)
            left = own / (1 + (blocks / between) ** 2) + (1 - own) / (1 + (warps / between) ** 2)
            for shift in (1, 8):
                row = 6e-11 + (seconds * left * max(1.0, 32 / words) if shift == 1 else 0)
                half = row * WORDS * ROWS / 2 / 32
                point = {"words": words, "turns": turns, "shift": shift}
                rows.append((point, {"seconds_n": half, "seconds_2n": 2 * half}))
    made = found(waiting.derive_split_sectors, "wait.strips", rows)
    assert made["scattered.split_sector_seconds"] == pytest.approx(seconds, rel=0.02)
    assert made["scattered.split_blocks_bytes"] == pytest.approx(blocks, rel=0.03)
    assert made["scattered.split_warps_bytes"] == pytest.approx(warps, rel=0.03)


def test_what_of_long_code_is_kept_and_what_the_rest_takes() -> None:
    rows = []
    for links in (1024, 4096, 6144, 8192, 12288):
        for flushed in (False, True):
            cycles = 4 * links + 5000 + (400 + 11 * max(0, links - 6144) if flushed else 0)
            rows.append(({"links": links, "flushed": flushed, "chains": 1}, {"seconds": cycles / 2e9}))
    made = found(waiting.derive_cold_code, "wait.code", rows)
    assert made == {"instruction_cache.kept_bytes": 16 * 6144, "instruction_cache.cold_interval_cycles": 11}
