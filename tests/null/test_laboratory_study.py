"""The dissertation's tables and figures for a GPU that the laboratory measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import structs

from warplens.cli import main
from warplens.core.errors import WarplensError
from warplens.papers import Item, item_ids, reproduce
from warplens.papers.laboratory import laboratory
from warplens.papers.measured_summary import since_maxwell

from .journals import QUICK, TOGETHER, part

pytestmark = TOGETHER


@pytest.fixture(scope="module")
def items() -> dict[str, Item]:
    return {item.id: item for item in reproduce("volkov", "h200")}


def test_all_that_was_asked_for_is_there(items: dict[str, Item]) -> None:
    tables = {f"volkov-table-{n}-h200" for n in ("4.1", "6.1", "6.2", "6.3", "6.4", "6.5", "6.6", "6.7")}
    numbers = ("4.1", "4.2", "4.5", "4.6", "4.7", "4.8", "4.9", "5.5", "6.3", "6.5")
    figures = {f"volkov-figure-{n}-h200" for n in numbers}
    assert tables | figures | {"volkov-since-maxwell-h200"} <= set(items)
    assert "volkov-table-6.3" in item_ids("h200")


def test_hopper_stands_beside_the_five(items: dict[str, Item]) -> None:
    for number in ("4.1", "6.1", "6.2", "6.3", "6.5", "6.7"):
        (grid,) = items[f"volkov-table-{number}-h200"].grids
        names = [row[0] for row in grid.rows]
        assert names[:5] == ["G80", "GT200", "Fermi", "Kepler", "Maxwell"]
        assert names[5] == "Hopper"
        assert all(len(row) == len(grid.head) for row in grid.rows)


def test_the_numbers_are_the_journals(items: dict[str, Item]) -> None:
    latencies = dict(zip(*_row(items["volkov-table-6.2-h200"], "Hopper"), strict=True))
    assert (latencies["add"], latencies["SFU"]) == ("4", "17")
    assert float(latencies["shared"]) == pytest.approx(23, rel=0.005)
    conflicts = float(latencies["shared, 2-way conflicts"]) - float(latencies["shared"])
    assert conflicts == pytest.approx(2, abs=0.05)  # cycles per way
    peaks = dict(zip(*_row(items["volkov-table-6.1-h200"], "Hopper"), strict=True))
    assert float(peaks["add"]) == pytest.approx(32, rel=0.01)
    assert float(peaks["shared, 2-way conflicts"]) == pytest.approx(4, rel=0.02)


def _row(item: Item, name: str) -> tuple[list[str], list[str]]:
    (grid,) = item.grids
    return grid.head, next(row for row in grid.rows if row[0] == name)


def test_measured_points_lie_near_the_curves(items: dict[str, Item]) -> None:
    adds = next(plot for plot in items["volkov-figure-4.1-h200"].plots if "infinite" in plot.title)
    model = next(s for s in adds.series if s.name == "two bounds")
    curve = dict(zip(model.x, model.y, strict=True))
    points = next(s for s in adds.series if s.kind == "points")
    assert len(points.x) > 8
    for n, rate in zip(points.x, points.y, strict=True):
        assert rate == pytest.approx(curve[n], rel=0.03), n


def test_histograms_have_a_share_of_all(items: dict[str, Item]) -> None:
    plots = items["volkov-figure-6.5-h200"].plots
    assert len(plots) == 7
    for plot in plots:
        assert sum(plot.series[0].y) == pytest.approx(1.0, abs=0.01)


def test_figures_are_measured_and_modelled(items: dict[str, Item]) -> None:
    for number in ("4.1", "4.2", "4.5", "4.6", "4.7", "4.8", "4.9", "5.5", "6.3", "6.5"):
        for plot in items[f"volkov-figure-{number}-h200"].plots:
            measured = [
                s for s in plot.series if "measured" in s.name or "per thread" in s.name or s.name == "latencies"
            ]
            models = [s for s in plot.series if s not in measured and s.name not in ("peak", "warps that fit")]
            assert any(len(s.x) for s in measured) and models, (number, plot.title)


def test_the_cusp_is_measured_where_one_load_per_warp_is_not_enough(items: dict[str, Item]) -> None:
    plot = items["volkov-figure-4.6-h200"].plots[0]
    one, several = (next(s for s in plot.series if s.name == name) for name in
                    ("measured", "measured, several chains per warp"))  # fmt: skip
    assert min(several.x) == 1 and max(one.x) == 512 and min(one.x) > 64
    assert min(several.y) > 64 >= max(one.y)


def test_streams_are_near_the_contention_model(items: dict[str, Item]) -> None:
    rows = {row.what: row.ours for row in items["volkov-figure-5.5-h200"].rows}
    assert len(rows) == 9 and rows["1 load(s) of 4 bytes: model off by, in the mean"] < 3
    assert max(rows.values()) < 15


def test_what_changed_follows_from_the_numbers() -> None:
    lab = laboratory("h200")
    (text,) = since_maxwell(lab).notes
    assert "Arithmetic latency fell (6 to 4 cycles) and is hidden with fewer warps" in text
    assert "There is still a cusp by the two bounds" in text and "needs fewer warps than hiding memory" in text
    assert "245 at alpha = 16, 23 at 512; at alpha = 23, 32, 45 no number of warps and chains attains it: 88.1" in text
    slow = lab.machine.with_values(instructions__fp32__latency_cycles=40.0, instructions__load__latency_cycles=100.0)
    (text,) = since_maxwell(structs.replace(lab, machine=slow)).notes
    assert "Arithmetic latency rose (6 to 40 cycles) and is hidden with more warps" in text
    assert "Memory latency fell (368 to 100 cycles)" in text and "needs more warps than hiding memory" in text


def test_it_can_be_written(items: dict[str, Item], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "volkov-table-6.5", "--gpu", "h200", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["items"][0]["grids"][0]["head"][0] == ""
    assert main(["reproduce", "volkov-table-6.5", "--gpu", "h200"]) == 0
    assert "Hopper, L2 cache" in capsys.readouterr().out


def test_other_gpus_have_no_journal() -> None:
    with pytest.raises(WarplensError, match="no journal of GeForce GTX 980"):
        list(reproduce("volkov", "gtx980"))


def test_the_quick_form_makes_all_of_them() -> None:
    made = list(reproduce("volkov", str(QUICK)))
    assert len(made) == len(item_ids("h200"))
    assert not [note for item in made for note in item.notes if "not made" in note or "are not from" in note]
    (text,) = (note for item in made if item.id == "volkov-since-maxwell-h200" for note in item.notes)
    assert "at alpha = 4, 32 no number of warps with one chain each, the only one measured, attains it" in text


def test_a_part_of_a_journal_makes_what_it_can(tmp_path: Path) -> None:
    adds = part(tmp_path / "part.jsonl", "instruction.fadd")
    made = {item.id: item for item in reproduce("volkov", str(adds))}
    assert len(made) == len(item_ids("h200"))
    assert any("not made: the journal lacks" in note for note in made["volkov-since-maxwell-h200"].notes)
    assert any(f"are not from {adds}" in note for note in made["volkov-table-6.5-h200"].notes)
