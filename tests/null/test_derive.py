"""From the committed journal to the machine file that ships, and what both must agree with."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.cli import main
from warplens.machine import list_machines, load_machine
from warplens.machine.loader import load_file
from warplens.machine.writer import toml_of
from warplens.measure import journal
from warplens.measure.derive import derive
from warplens.measure.derive_control import plateaus
from warplens.measure.fits import loaded_latency
from warplens.measure.samples import Samples, counts

ROOT = Path(__file__).parents[2]
JOURNAL = Path("data/h200/measured.jsonl.gz")
ALSO = Path("data/h200/measured_again.jsonl.gz")  # a run on another H200


@pytest.fixture
def in_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def samples() -> Samples:
    return Samples(journal.read(ROOT / JOURNAL))


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
    for key in ("cache.l2_partitions", "cache.dram_bytes", "sm.reconverge_cycles", "sm.branch_taken_cycles"):
        assert str(JOURNAL) not in machine.sources[key].ref
    own = [s for s in machine.sources.values() if s.ref.startswith(f"{JOURNAL}: ")]
    assert len(own) > 400
    assert all(s.source == "measured" and s.date == "2026-11-15" for s in own)
    assert sum("spread" in s.ref for s in own) > 300 and sum("another run: " in s.ref for s in own) > 400


def test_a_gpu_without_a_file_gets_one_from_its_driver(tmp_path: Path) -> None:
    events = journal.read(ROOT / "data/h200/measured_quick.jsonl.gz")
    events[0] = {**events[0], "gpu": "NVIDIA Example 9000"}
    file = tmp_path / "measured.jsonl"
    book = journal.Journal(file)
    for event in events:
        book.write(event.pop("is"), **event)
    book.close()
    machine = derive(file)
    assert (machine.id, machine.compute_capability, machine.chip.sm_count) == ("example-9000", "9.0", 132)
    assert machine.sm.warps_max == 64
    assert machine.cache.l1_latency_cycles == pytest.approx(34, abs=0.1)
    (tmp_path / "x.toml").write_text(toml_of(machine))
    assert load_file(tmp_path / "x.toml") == machine


@pytest.mark.parametrize(
    ("values", "good"),
    [
        ({"warps_least_n": 8, "warps_most_n": 8, "span_cycles_n": 1}, True),
        ({"warps_least_n": 4, "warps_most_n": 8}, False),  # the blocks were not there at once
        ({"warps_least": 16, "warps_most": 16}, False),
        ({"warps_least": 8, "warps_most": 8, "off_clock": 1}, False),
        ({"off_clock_2n": 1}, False),
        ({"seconds": 1.0}, True),
    ],
)
def test_samples_that_are_not_what_was_meant_do_not_count(values: dict[str, float], good: bool) -> None:
    assert counts({"warps": 8}, values) is good


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
