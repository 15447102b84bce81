"""Workload files and listings: they load, save, come back, and refuse what is wrong by name."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from warplens.core.errors import FileError, WarplensError
from warplens.machine import list_machines, load_machine
from warplens.models import MODELS, Prediction, predict, predict_all
from warplens.models.plausibility import flagged
from warplens.papers.validation.kernels import launches
from warplens.program import parse_listing
from warplens.workload import Access, Workload, list_workloads, load_workload, mix, parse_workload
from warplens.workload.loader import FOLDER

from .test_machines import mutated


def test_the_papers_workloads_are_there() -> None:
    names = set(list_workloads())
    expected = {
        "volkov-add-load", "volkov-add-sfu", "volkov-add-shared", "volkov-table-3.2", "volkov-listing-1.1",
        "volkov-listing-3.1", "volkov-listing-3.3", "volkov-listing-3.5", "hong-kim-figure12", "hong-kim-mb1",
        *(f"hong-kim-mb{i}-{kind}" for i in range(2, 8) for kind in ("coalesced", "uncoalesced")),
        *(f"hong-kim-{b}" for b in ("sepia", "linear", "svm", "matmul-naive", "matmul-tiled", "blackscholes")),
        "hong-kim-svm-naive", "hong-kim-svm-optimized",
        *(f"kothapalli-{k}" for k in ("experiment-1", "experiment-2", "matmul", "list-ranking", "histogram")),
        *(f"sim-itilp-ilp{i}" for i in (1, 2, 3)), *(f"sim-sfu-{i}" for i in range(9)), "saxpy",
    }  # fmt: skip
    assert expected <= names


@pytest.mark.parametrize("name", list_workloads())
def test_every_workload_gets_an_answer_or_a_reason_on_every_machine(name: str) -> None:
    workload = load_workload(name)
    assert workload.source
    for machine in list_machines():
        try:
            answers = predict_all(workload, machine)
        except WarplensError:
            continue  # a block that does not fit on this GPU
        assert list(answers) == list(MODELS)
        for answer in answers.values():
            if isinstance(answer, Prediction):
                assert answer.terms
                physical = answer.seconds is None or np.isfinite(answer.seconds)
                assert physical or answer.flags, answer
            else:
                assert re.search("needs|speaks|gives no time|fits|at most|has no answer", answer), answer


@pytest.mark.parametrize("name", list_workloads())
def test_saved_workloads_come_back(name: str, tmp_path: Path) -> None:
    workload = load_workload(name)
    workload.save(tmp_path / "w.json")
    assert load_workload(tmp_path / "w.json") == workload


def test_arrays_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(WarplensError, match="arrays"):
        mix(np.arange(1.0, 4.0)).save(tmp_path / "w.json")
    assert not list(tmp_path.iterdir())


def test_mixes_take_any_alpha() -> None:
    assert load_workload("volkov-add-load", alpha=5).executed() == {"fp32": 5.0, "load": 1.0}
    assert load_workload("volkov-adds-only").executed()["fp32"] == 1
    assert mix(0.5, other="sfu").executed() == {"fp32": 0.5, "sfu": 1.0}
    assert mix(np.array([2.0, np.inf])).executed()["load"].tolist() == [1.0, 0.0]  # type: ignore[union-attr]
    with pytest.raises(WarplensError, match="alpha"):
        mix(-1.0)
    with pytest.raises(WarplensError, match="alpha"):
        mix(float("nan"))
    with pytest.raises(WarplensError, match="needs a workload with a"):
        load_workload("saxpy", alpha=3)
    with pytest.raises(WarplensError, match="no field 'sauce'"):  # the first, whatever the hashes
        load_workload("saxpy").with_values(sauce=1, salt=2, bread=3, oil=4, egg=5)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"name": "x", "instrctions": {"fp32": 1}}, "w.toml: instrctions: unknown key; did you mean 'instructions'?"),
        ({"name": "x", "instructions": {"fp32": -1}}, "w.toml: instructions.fp32: must be zero or more, not -1"),
        ({"name": "x", "instructions": {"fp33": 1}}, "w.toml: instructions.fp33: unknown class; did you mean 'fp32'?"),
        ({"name": "x", "instructions": {"fp32": float("nan")}}, "w.toml: instructions.fp32: must be finite, not nan"),
        ({"name": "x"}, "nothing to predict"),
        ({"file": "x.cu", "grid": 1, "block": 32, "arg": []}, "w.toml: a launch file, where a workload is wanted"),
        ({"grid": 1, "block": 32, "node": []}, "w.toml: a graph, where a workload is wanted"),
        ({"name": "x", "instructions": {"fp32": 0}}, "all counts zero"),
        (
            {"name": "x", "instructions": {"load": 3}},
            "instructions.load: memory accesses are counted under [[access]]",
        ),
        ({"name": "x", "mix": {"alpha": 1}, "ilp": 2}, "remove 'ilp'"),
        ({"name": "x", "kernel": [{"name": "k", "instructions": {"fp32": 1}}], "mlp": 2}, "remove 'mlp'"),
        ({"instructions": {"fp32": 1}}, "w.toml: name: missing"),
        ({"name": "x", "instructions": {"fp32": 1}, "launch": {"grid": 0, "block": 32}}, "launch.grid"),
        ({"name": "x", "instructions": {"fp32": 1}, "launch": {"grid": [1, 2, 3, 4], "block": 32}}, "launch.grid"),
        (
            {"name": "x", "instructions": {"fp32": 1}, "access": [{"count": 1, "space": "outer"}]},
            "unknown name 'outer'",
        ),
        ({"name": "x", "warp": [{"listing": "FADD R1, R1, R2\nFROB R1"}]}, "line 2: unknown opcode 'FROB'"),
        ({"name": "x", "warp": [{"listing": "LD R1, [R1] ; latency=fast"}]}, "latency must be a number"),
        ({"name": "x", "warp": [{"listing": "LD R1, [R1] ; latency=-5"}]}, "above 0 and at most 1e6"),
        ({"name": "x", "warp": [{"listing": "LD R1, [R1] ; latency=0"}]}, "above 0 and at most 1e6 cycles, not 0"),
        ({"name": "x", "warp": [{"listing": "  # nothing\n"}]}, "without instructions"),
        ({"name": "x", "mix": {"alpha": 1}, "instructions": {"fp32": 1}}, "mix"),
        ({"name": "x", "ilp": 0.5, "instructions": {"fp32": 1}}, "ilp"),
        ([1, 2], "w.toml: file: must be a table, not a list"),
    ],
)
def test_refusals_name_file_and_key(tree: object, message: str) -> None:
    with pytest.raises(WarplensError) as caught:
        parse_workload(tree, "w.toml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_says_which_field_it_lacks() -> None:
    bare = load_machine("volkov-table-3.3")
    with pytest.raises(
        WarplensError, match=r"volkov needs instructions\.load\.latency_cycles, which machine volkov-table"
    ):
        predict(mix(32.0), bare, "volkov")
    with pytest.raises(WarplensError, match="volkov-contention needs contention, which machine c2050 does not give"):
        predict(mix(32.0), load_machine("c2050"), "volkov-contention")
    with pytest.raises(WarplensError, match="volkov needs instructions or access"):
        predict(load_workload("kothapalli-matmul"), load_machine("gtx280"), "volkov")
    with pytest.raises(WarplensError, match="unknown model 'volkv'; did you mean 'volkov'"):
        predict(mix(32.0), load_machine("gtx280"), "volkv")
    with pytest.raises(WarplensError, match="unknown workload 'saxpi'; did you mean 'saxpy'"):
        load_workload("saxpi")


def test_listing_operands() -> None:
    code = parse_listing(
        "@!P0 LD R3, [R2+0x10] ; latency=7\nST [R4], R3 # done\n"
        "label: ISETP.LT P1, R3, c[0x0][0x28]\n@P1 BRA label ; taken"
    )
    assert [(i.kind, i.writes, i.reads) for i in code] == [
        ("load", ("R3",), ("P0", "R2")),
        ("store", (), ("R4", "R3")),
        ("int", ("P1",), ("R3",)),
        ("branch", (), ("P1",)),
    ]
    assert code[0].latency_cycles == 7 and code[3].taken


def test_counts_of_a_workload() -> None:
    w = Workload(
        name="x",
        instructions={"fp32": 10.0},
        divergent={"fp32": 2.0, "int": 1.0},
        accesses=[
            Access(count=3.0, transactions=2.0, hit_fraction=0.5),
            Access(count=4.0, space="shared"),
            Access(count=1.0, kind="store", coalesced=False, transactions=32.0, transaction_bytes=32.0),
        ],
        barriers=2.0,
        iterations=10.0,
    )
    assert w.executed() == {"fp32": 120.0, "int": 10.0, "load": 30.0, "shared": 40.0, "store": 10.0, "barrier": 20.0}
    assert w.total() == 230
    assert w.memory_instructions() == 40
    assert w.memory_instructions(coalesced=False) == 10
    assert w.dram_bytes() == 10 * (3 * 2 * 128 * 0.5 + 32 * 32)


@pytest.mark.parametrize("name", ["hong-kim-figure12", "volkov-listing-3.3", "kothapalli-program", "volkov-add-load"])
def test_mutated_workload_files_never_cause_a_traceback(name: str, tmp_path: Path) -> None:
    text = (FOLDER / f"{name}.toml").read_text()
    chance, machine, refused = random.Random(7), load_machine("fermi"), 0
    for round_number in range(250):
        path = tmp_path / f"{round_number}.toml"
        path.write_bytes(mutated(text, chance))
        try:
            predict_all(load_workload(path), machine)
        except WarplensError as error:
            assert "\n" not in str(error).strip()
            refused += 1
    assert refused > 40


@pytest.mark.parametrize(("share_of_pins", "possible"), [(1.0, True), (1.01, False)])
def test_only_more_than_the_pins_give_is_impossible_where_blocks_are_uneven(
    share_of_pins: float, possible: bool
) -> None:
    workload, machine = load_workload("saxpy"), load_machine("a100")
    launch, pins = workload.launch, machine.memory.pin_bytes_per_second
    assert launch is not None and pins is not None
    launch = replace(launch, grid=1000)  # 9.3 on each of 108 SMs, 10 on the busiest
    workload = replace(workload, launch=launch)
    seconds = workload.dram_bytes() * launch.blocks * launch.warps_per_block / pins / share_of_pins
    made = predict(workload, machine, "roofline")
    assert made.cycles is not None and made.throughput_warps_per_cycle is not None
    cycles = seconds * machine.chip.clock_hz
    rate = made.throughput_warps_per_cycle * made.cycles / cycles
    answer = flagged(replace(made, cycles=cycles, throughput_warps_per_cycle=rate), workload, machine)
    assert (not answer.flags) == possible


def test_few_sms_may_have_more_than_their_part_of_the_dram() -> None:
    workload, machine = load_workload("saxpy"), load_machine("a100")
    assert workload.launch is not None
    half, all_of_them = (replace(workload, launch=replace(workload.launch, grid=blocks)) for blocks in (54, 108))
    made = predict(all_of_them, machine, "roofline")
    assert made.throughput_warps_per_cycle is not None and not made.flags
    faster = replace(made, throughput_warps_per_cycle=1.5 * made.throughput_warps_per_cycle)
    assert not flagged(faster, half, machine).flags
    assert flagged(faster, all_of_them, machine).flags


@pytest.mark.parametrize("name", ["reduction_k0_k2", "resize.large"])
def test_whole_numbers_their_products_and_fixed_conversions_have_units_of_their_own_in_machine_code(name: str) -> None:
    launch = next(x for x in launches() if x.name == name)
    machine = load_machine("h200")
    ours = predict(launch.workload, machine, "warplens-fast")
    all_on_one = predict(launch.workload, machine, "volkov")  # the worksheet's units, slower than what was measured
    assert not ours.flags
    assert all_on_one.seconds is not None and all_on_one.seconds > 1.2 * launch.seconds
    assert ours.throughput_warps_per_cycle is not None
    twice = replace(ours, throughput_warps_per_cycle=2 * ours.throughput_warps_per_cycle, flags=[])
    assert flagged(twice, launch.workload, machine).flags


def test_a_saved_kernel_that_was_cut_or_changed_is_refused_in_one_line(tmp_path: Path) -> None:
    saved = tmp_path / "w.json"
    next(x for x in launches() if x.name == "matmul_tiled16").workload.save(saved)
    whole = json.loads(saved.read_text())
    assert load_workload(saved).profile is not None
    size = len(whole["code"])

    def refused(change: Callable[[dict[str, Any]], object]) -> str:
        tree = json.loads(saved.read_text())
        change(tree)
        with pytest.raises(FileError) as caught:
            parse_workload(tree, "w.json")
        return str(caught.value)

    def counts(tree: dict[str, Any]) -> Any:
        return tree["profile"]["counts"]

    assert refused(lambda t: counts(t).pop("queue")) == "w.json: profile.counts.queue: missing"
    short = f"{size - 1} numbers for {size} instructions"
    assert refused(lambda t: counts(t)["lines"].pop()) == f"w.json: profile.counts.lines: {short}"
    less = refused(lambda t: counts(t)["executed"].__setitem__(0, -5))
    assert less == "w.json: profile.counts.executed.0: must be a number >= 0, not -5"
    assert "code.0.kind: unknown name 'fp33'" in refused(lambda t: t["code"][0].update(kind="fp33"))
    boards = refused(lambda t: t["code"][0]["control"].update(write_scoreboard=77, read_scoreboard=None))
    assert "code.0.control.write_scoreboard: must be a whole number <= 5, not 77" in boards
    assert "code.0.line: must be a whole number >= 0, not -99" in refused(lambda t: t["code"][0].update(line=-99))
