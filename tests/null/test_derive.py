"""From the committed journal to the machine file that ships, and what both must agree with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from warplens.cli import main
from warplens.core.errors import WarplensError
from warplens.laboratory import instructions, launches, scattered
from warplens.laboratory.bandwidth import derive_dram
from warplens.laboratory.control import plateaus
from warplens.laboratory.derive import _KEPT, derive
from warplens.laboratory.loaded_latency import derive_dram_latency, loaded_latency
from warplens.laboratory.samples import Samples, counts, load
from warplens.machine import Machine, list_machines, load_machine
from warplens.machine.loader import load_file
from warplens.machine.writer import toml_of

from . import journals
from .fake_gpu import ATTRIBUTES

pytestmark = journals.TOGETHER
ROOT = Path(__file__).parents[2]
JOURNAL = Path("data/h200/journal/measured.jsonl.xz")
ALSO = Path("data/h200/journal/measured_again.jsonl.xz")
# What the journal gives too: the H200's file has it from counters and from other programs (docs/reference/data.md).
KEPT = set(_KEPT)
ARITHMETIC = {"chip.processing_elements", "sm.warps_per_scheduler_max"}  # of the vendor's facts
BY_TRACES = {  # whole numbers of a rule (test_orders, ...) and ncu's times, not the journal's
    "launch.cold_start_one_seconds",
    "instructions.constant.peak_ops_per_cycle_per_scheduler",
    "sm.issues_counted", "sm.issue_counts_cycles", "sm.reconverge_interval_cycles",
    "instruction_cache.port_cycles",
}  # fmt: skip


@pytest.fixture
def in_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def samples() -> Samples:
    return journals.samples("measured")


@pytest.fixture(scope="module")
def unknown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Machine]:
    """A journal of a GPU that no file describes, and what follows from it."""
    head, *rest = journals.events("measured_quick")
    file = tmp_path_factory.mktemp("unknown") / "measured.jsonl"
    put(file, [{**head, "gpu": "NVIDIA Example 9000"}, *rest])
    return file, derive(file)


@pytest.mark.parametrize("machine", list_machines(), ids=lambda m: m.id)
def test_a_machine_that_is_written_is_read_back_the_same(machine: object, tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(toml_of(machine))  # type: ignore[arg-type]
    assert load_file(file) == machine


@pytest.mark.usefixtures("in_root")
def test_the_h200s_file_is_what_its_journal_gives(tmp_path: Path) -> None:
    file = tmp_path / "h200.toml"
    assert main(["machine", "derive", str(JOURNAL), "--also", str(ALSO), "--out", str(file)]) == 0
    assert file.read_text() == (ROOT / "src/warplens/machine/files/h200.toml").read_text()


def test_vendor_facts_stay_and_measured_numbers_say_where_from() -> None:
    machine = load_machine("h200")
    assert machine.sources["instructions.fp32.peak_ops_per_cycle_per_scheduler"].source == "vendor"
    assert machine.sources["memory.pin_bytes_per_second"].source == "vendor"
    for key in ("cache.l2_partitions", "cache.dram_bytes", "sm.reconverge_cycles", "packets.store_seconds"):
        assert machine.sources[key].ref.startswith(f"{JOURNAL}: ")
    measured = {key for key, s in machine.sources.items() if s.source != "vendor"}
    others = {key for key in measured if not machine.sources[key].ref.startswith(f"{JOURNAL}: ")}
    assert others == KEPT | ARITHMETIC | BY_TRACES
    own = {key: s for key, s in machine.sources.items() if s.ref.startswith(f"{JOURNAL}: ")}
    assert len(own) > 800
    assert all(s.source == "measured" and s.date == "2026-11-16" for s in own.values())


def test_every_measured_number_has_its_spread() -> None:
    """Over the repetitions, and what the other run has: but for what the driver says and counts of machine code."""
    sources = load_machine("h200").sources
    measured = {key for key, s in sources.items() if s.source == "measured" and not key.endswith(".instructions")}
    measured -= BY_TRACES
    assert {key for key in measured if "spread" not in sources[key].ref} == {"chip.clock_hz", "cache.l2_bytes"}
    lists = {key for key in measured if "another run: " not in sources[key].ref}
    assert all(key.startswith(("throughput.", "random_access.")) for key in lists)


def test_a_gpu_without_a_file_gets_one_from_its_driver(unknown: tuple[Path, Machine], tmp_path: Path) -> None:
    file, machine = unknown
    assert (machine.id, machine.compute_capability, machine.chip.sm_count) == ("example-9000", "9.0", 132)
    assert machine.sm.warps_max == 64
    assert machine.cache.l1_latency_cycles == pytest.approx(34, abs=0.1)
    (tmp_path / "x.toml").write_text(toml_of(machine))
    assert load_file(tmp_path / "x.toml") == machine
    known = load_machine("h200").sources
    wanted = {key for key, source in known.items() if source.source != "vendor"}
    assert wanted - set(machine.sources) == ARITHMETIC | BY_TRACES  # the quick form gives every other field
    with pytest.raises(WarplensError, match=r"is of an NVIDIA Example 9000, the base file of an NVIDIA H200: name"):
        derive(file, load_machine("h200"))


@pytest.mark.parametrize(
    ("values", "good"),
    [
        ({"warps_least_n": 8, "warps_most_n": 8, "span_cycles_n": 1}, True),
        ({"warps_least_n": 4, "warps_most_n": 8}, False),  # the blocks were not there at once
        ({"warps_least": 16, "warps_most": 16}, False),
        ({"warps_least": 8, "warps_most": 8, "off_clock": 1}, False),
        ({"off_clock_2n": 1}, False),
        ({"seconds": 1.0}, True),
        ({"seconds_n": 1.0, "seconds_2n": 1.9}, True),
        ({"seconds_n": 1.0, "seconds_2n": 1.0}, False),  # twice as much took no longer
        ({"nanoseconds_n": [1, 1], "nanoseconds_2n": [2, 1]}, False),
    ],
)
def test_samples_that_are_not_what_was_meant_do_not_count(values: dict[str, float], good: bool) -> None:
    assert counts({"warps": 8}, values) is good


def test_what_a_further_line_adds_is_the_mean_over_many_places() -> None:
    def taken(many: float) -> tuple[dict[str, int], dict[str, float]]:
        return {"few": 1, "many": 32, "pairs": 22}, {"few_cycles": 700.0, "many_cycles": many}

    run = Samples([{"is": "head", "reference_ghz": 2.0}])
    run.entries = {
        "mix.load.a0": [({"warps": warps}, {"mean_cycles_per_count": 690.0}) for warps in (4, 16, 64)],
        "chase.further": [taken(many) for many in (784.0, 812.0, 868.0)],
    }
    found = {one.key: one.value for one in derive_dram_latency(run)}
    assert found["memory.extra_transaction_cycles"] == pytest.approx((3 + 4 + 6) / 3, abs=0.005)


def test_what_l2_holds_is_the_largest_footprint_at_its_latency() -> None:
    """Up to l2_bytes by atomics; half of that by loads."""
    whole, cycles = 60 << 20, {"atomic": 390.0, "load": 290.0}
    run = Samples([{"is": "head", "facts": {"attributes": {"l2_bytes": whole}}}])
    run.entries["resident.l2"] = [
        ({"kind": kind, "bytes": size}, {"mean_cycles": cycles[kind] + 300 * max(0.0, 1 - held / size)})
        for kind, held in (("atomic", whole), ("load", whole // 2))
        for size in range(whole // 5, 2 * whole, whole // 10)
    ]
    assert {n.key: n.value for n in scattered.derive_residence(run)} == {
        "cache.l2_resident_bytes": whole, "cache.l2_hit_by_all_bytes": whole // 2,
    }  # fmt: skip


def test_an_entry_that_was_begun_again_counts_from_there() -> None:
    def sample(x: float) -> dict[str, object]:
        return {"is": "sample", "entry": "a", "point": {"k": 1}, "values": {"x": x}}

    begin, done = {"is": "begin", "entry": "a"}, {"is": "done", "entry": "a"}
    found = Samples([{"is": "head"}, begin, sample(1), begin, sample(2), sample(4), done, begin, sample(9)])
    assert found.take("a", lambda p, v: v["x"], "k")[1].all == (2, 4)  # 9 was never done, 1 was begun anew


def test_a_loaded_latency_is_found_again() -> None:
    a, b, c = (680.0, 700.0), 40.0, 4.7e12
    curves = [[(x, a[i] + b * x / (c - x)) for x in (1e11, 1e12, 2e12, 3e12, 4e12, 4.5e12)] for i in range(2)]
    fit = loaded_latency(curves)
    assert fit.c == pytest.approx(c, rel=2e-3)
    assert fit.b == pytest.approx(b, rel=0.05)
    assert fit.a == pytest.approx(a, rel=0.01)


def test_levels_of_a_rising_curve() -> None:
    assert plateaus([(1, 1.0), (2, 1.02), (4, 1.6), (8, 2.4), (16, 2.4), (32, 5.0), (64, 5.1)]) == [
        (2, 1.0), (16, 2.4), (64, 5.0)]  # fmt: skip


def test_what_is_wrong_with_a_journal_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("none.jsonl", None), ("empty.jsonl", ""), ("other.jsonl", "hello\nyou\n\n")):
        file = tmp_path / name
        if text is not None:
            file.write_text(text)
        assert main(["machine", "derive", str(file)]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and name in err


def small(**head: Any) -> list[dict[str, Any]]:
    """A journal with a head that is complete but for what is said, and one entry."""
    facts = {"uuid": "aa", "attributes": ATTRIBUTES}
    first = {
        "is": "head",
        "format": 2,
        "gpu": "NVIDIA H200",
        "date": "2026-11-15",
        "reference_ghz": 1.98,
        "facts": facts,
    }
    sample = {
        "is": "sample",
        "entry": "chase.l1",
        "point": {"bytes": 1024, "loads": 1},
        "values": {"mean_warp_cycles": 34},
    }
    done = {"is": "done", "entry": "chase.l1", "fingerprint": "f"}
    return [
        {k: v for k, v in (first | head).items() if v is not None},
        {"is": "begin", "entry": "chase.l1"},
        sample,
        done,
    ]


def put(file: Path, events: list[dict[str, Any]]) -> str:
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(file)


@pytest.mark.parametrize(
    ("events", "text"),
    [
        (small(gpu=None), "head: gpu: missing"),
        (small(format=9), "format 9 of the journal is not known"),
        (small(reference_ghz=0), "head: reference_ghz: must be a number > 0"),
        (small(facts={"attributes": {}}), "does not say what the driver says"),
        ([*small(), {"is": "sample", "entry": "a", "values": {}}, {"is": "end"}], "line 5 is not an event"),
        ([*small(), {"is": "done", "entry": "a"}], "line 5 is not an event"),
        (
            [*small()[:2], {"is": "sample", "entry": "chase.l1", "point": {}, "values": {}}, small()[3]],
            "caches cannot be derived from these samples (KeyError",
        ),
    ],
)
def test_a_journal_that_lacks_something_is_one_line(
    events: list[dict[str, Any]], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = put(tmp_path / "good.jsonl", small()), put(tmp_path / "bad.jsonl", events)
    for arguments in (["derive", bad], ["agree", good, bad]):
        assert main(["machine", *arguments]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and "bad.jsonl" in err and text in err


@pytest.mark.parametrize("key", ["memory_bytes", "attributes.warp_size", "attributes.memory_clock_khz"])
def test_a_head_without_the_drivers_facts_makes_no_new_file(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts: dict[str, Any] = {"uuid": "aa", "memory_bytes": 8 << 30, "attributes": dict(ATTRIBUTES)}
    *outer, last = key.split(".")
    del (facts[outer[0]] if outer else facts)[last]
    bad = put(tmp_path / "bad.jsonl", small(gpu="NVIDIA Example 9000", facts=facts))
    assert main(["machine", "derive", bad]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "bad.jsonl: the journal's head lacks what the driver says" in err
    assert last in err


def test_a_part_of_a_journal_makes_a_file_of_a_new_gpu(tmp_path: Path) -> None:
    """Of a GPU that no file describes, measured with --only; its driver says nothing of memory's clock."""
    told = {"uuid": "aa", "memory_bytes": 8 << 30, "attributes": {**ATTRIBUTES, "memory_clock_khz": 0, "l2_bytes": 0}}
    machine = derive(Path(put(tmp_path / "x.jsonl", small(gpu="NVIDIA Example 9000", facts=told))))
    assert machine.cache.l1_latency_cycles == 34 and machine.shared_memory is None
    assert machine.memory.pin_bytes_per_second is None and machine.cache.l2_bytes is None
    (tmp_path / "x.toml").write_text(toml_of(machine))
    assert load_file(tmp_path / "x.toml") == machine


def test_repetitions_that_cannot_be_counted_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = small()
    events[2]["point"]["repetition"] = "x"
    assert main(["machine", "derive", put(tmp_path / "bad.jsonl", events)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "bad.jsonl: repetitions of these samples cannot be counted" in err


def test_what_another_gpu_left_in_the_folder_does_not_count(tmp_path: Path) -> None:
    """A run on another GPU that was interrupted must not be filled up with the numbers of the first."""
    first, second = small(), small(facts={"uuid": "bb", "attributes": ATTRIBUTES})
    for event in second[1:]:
        event["entry"] = "chase.l2"
    put(tmp_path / "x.jsonl", first + second)
    assert list(load(tmp_path / "x.jsonl").entries) == ["chase.l2"]
    put(tmp_path / "x.jsonl", first + second[:1])  # it measured nothing
    assert list(load(tmp_path / "x.jsonl").entries) == ["chase.l1"]


def test_what_the_driver_does_not_say_is_not_put_in_its_mouth(unknown: tuple[Path, Machine]) -> None:
    sources = unknown[1].sources
    for key in ("sm.schedulers", "sm.issue_width", "sm.issue_interval_cycles", "shared_memory.banks"):
        assert sources[key].source == "vendor" and "Programming Guide" in sources[key].ref
    assert sources["sm.registers"].ref == "driver"


def test_loads_without_light_occupancies_leave_their_latency_out() -> None:
    """A GPU that throttled while few warps ran: the latency is missing, the rest is derived."""
    samples = Samples([{"is": "head"}])
    values = {"rate": 1.0, "mean_cycles_per_count": 900.0}
    samples.entries = {"mix.load.a0": [({"warps": 64, "width": 4}, values)], "bandwidth.dram.r1w0.b4": []}
    assert list(derive_dram_latency(samples)) == [] and list(derive_dram(samples)) == []


def test_packets_that_were_not_measured_cost_nothing_else(samples: Samples) -> None:
    """An entry that came to its end without a sample, as where memory is short, leaves its own numbers out."""
    less = Samples([samples.head])
    less.entries = {**samples.entries, "packets.load": []}
    assert list(scattered.derive_packets(less)) == [] and list(scattered.derive_packets(samples))


def made_up(entry: str, rows: list[tuple[dict[str, Any], dict[str, Any]]]) -> Samples:
    samples = Samples([{"is": "head", "reference_ghz": 2.0, "facts": {"attributes": ATTRIBUTES}}])
    samples.entries = {entry: rows}
    return samples


def _chain(warps: int, links_per_cycle: float, chains: int = 1) -> tuple[dict[str, Any], dict[str, Any]]:
    """A sample of a chain on one SM: N links per trip in one kernel, 2N in the other, and 7 cycles for the loop."""
    trip = 10 * chains / links_per_cycle  # of all warps together
    values = {"sms_n": 1, "sms_2n": 1, "rate_n": 1 / (trip + 7), "rate_2n": 1 / (2 * trip + 7)}
    each = {"mean_cycles_per_count_n": warps * trip + 7, "mean_cycles_per_count_2n": 2 * warps * trip + 7}
    return {"warps": warps, "stride": 1, "links": 10, "chains": chains, "repetition": 0}, {**values, **each}


def test_warps_needed_where_one_chain_does_not_come_to_the_peak() -> None:
    """Of the peak, 4 links per cycle, if it comes to 95 % of that; else of what it comes to, and the words say so."""
    for most, needed in ((4.0, 3.6), (2.0, 1.8)):
        samples = made_up("instruction.fadd", [_chain(n, min(n / 4, most)) for n in range(4, 65, 4)])
        samples.entries.update({f"instruction.fadd.ilp{n}": [_chain(64, 4.0, n)] for n in (2, 4)})
        samples.entries["instruction.fadd"].append(_chain(1, 0.25))
        found = {n.key: n for n in instructions.derive_latencies(samples)}
        at_90 = found["operations.fadd.at_90_percent_warps_per_scheduler"]
        assert at_90.value == pytest.approx(needed, rel=0.01)
        assert ("50 % of the peak that this comes to" in at_90.how) == (most == 2)


def test_independent_instructions_and_the_tail_of_a_grid() -> None:
    samples = made_up("instruction.fadd", [_chain(1, 0.25)])
    samples.entries["instruction.fadd.ilp8"] = [_chain(1, 1.0, 8)]
    found = {n.key: n.value for n in instructions.derive_latencies(samples)}
    assert found["operations.fadd.ilp_latency_cycles"] == found["sm.ilp_latency_cycles"] == 1
    sms = ATTRIBUTES["sm_count"]
    rows = [
        ({"what": "tail", "blocks": blocks, "cycles": 10_000}, {"grid_ns": ns})
        for blocks, ns in ((sms, 5000.0), (sms + 1, 10_200.0), (4 * sms, 5000.0 + 3 * 5400))
    ]
    found = {n.key: n.value for n in launches.derive_tails(made_up("launch.blocks", rows))}
    assert found == {"launch.tail_block_cycles": 400, "launch.wave_cycles": 800}


def test_each_repetition_is_a_journal_of_its_own() -> None:
    samples = made_up("a", [({"repetition": n}, {"x": float(n)}) for n in range(6)])
    samples.entries["b"] = [({"repetition": n}, {"x": 1.0}) for n in range(3)]
    samples.entries["c"] = [({}, {"x": 2.0})]  # taken once: each has it
    parts = samples.repetitions()
    assert [[v["x"] for _, v in part.entries["a"]] for part in parts] == [[0, 3], [1, 4], [2, 5]]
    assert all(len(part.entries["b"]) == len(part.entries["c"]) == 1 for part in parts)
