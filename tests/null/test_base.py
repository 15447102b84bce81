"""Machines that take numbers from a measured one: each by its rule, none of them missing, none of them flattering."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import warplens as wl
from warplens.core.errors import WarplensError
from warplens.machine import Machine, evidence, list_machines, load_machine, taken
from warplens.machine.loader import FOLDER, load_file, parse
from warplens.papers.validation.kernels import launches
from warplens.report import terminal
from warplens.workload import Workload

MODERN = [m.id for m in list_machines() if m.base]
KERNELS = ("saxpy", "transpose_tiled", "reduction_k6", "sgemm_tiled", "softmax_block", "gather", "hgemm_mma",
           "histogram_global", "black_scholes")  # fmt: skip
TAKEN = ("memory.sustained_bytes_per_second", "cache.l2_bytes_per_second", "cache.l2_latency_cycles",
         "cache.l1_latency_cycles", "instructions.load.latency_cycles")  # fmt: skip


def at(thing: Any, dotted: str) -> Any:
    for key in dotted.split("."):
        thing = thing[key] if isinstance(thing, dict) else getattr(thing, key)
    return thing


def tree_of(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{name}.toml").read_text())


def without(name: str, dotted: str) -> Machine:
    """Return a machine whose file lacks one number."""
    tree = tree_of(name)
    *path, last = dotted.split(".")
    table = tree
    for key in path:
        table = table[key]
    del table[last]
    return parse(tree, name)


def counted(name: str) -> Workload:
    return next(x.workload for x in launches() if x.name == name)


def within_l2(workload: Workload) -> Workload:
    """Return a workload all of whose sectors are found in L2."""
    profile = workload.profile
    assert profile is not None
    counts = {**profile.counts, "l2_hit_sectors": list(profile.counts["l2_sectors"])}
    traffic = [replace(t, dram_read_bytes=0.0, dram_written_bytes=0.0) for t in profile.traffic]
    return workload.with_values(profile=replace(profile, counts=counts, traffic=traffic))


def test_what_a_machine_rests_on_is_known() -> None:
    rests = {m.id: evidence(m) for m in list_machines()}
    assert MODERN == ["t4", "a100", "a40", "rtx3090", "rtx4090", "h100", "h100-pcie", "b200", "rtx5090"]
    assert [name for name, kind in rests.items() if kind == "measured"] == ["h200"]
    assert [name for name, kind in rests.items() if kind == "data sheet"] == MODERN
    assert all(rests[name] == "paper" for name in ("gtx980", "c2050", "gtx680", "8800gtx", "hong-kim-example"))
    assert all(not taken(load_machine(name)) for name, kind in rests.items() if kind != "data sheet")
    console = terminal.console(140)
    with console.capture() as shown:
        console.print(*terminal.machines(list_machines()))
    lines = {line.split()[0]: line for line in shown.get().splitlines() if line.strip()}
    assert " measured " in lines["h200"] and " data sheet " in lines["a100"] and " paper " in lines["gtx980"]


@pytest.mark.parametrize("name", MODERN)
def test_a_number_that_is_taken_says_from_where_and_by_which_rule(name: str) -> None:
    machine = load_machine(name)
    assert len(taken(machine)) > 200
    for key in taken(machine):
        source = machine.sources[key]
        assert source.source == "derived" and source.ref.startswith("h200, ") and ": " in source.ref, key


def test_rules() -> None:
    a100, h200, h100 = load_machine("a100"), load_machine("h200"), load_machine("h100")
    assert a100.latency_cycles("shared") == h200.latency_cycles("shared")  # cycles of an SM
    assert a100.launch.empty_kernel_seconds == h200.launch.empty_kernel_seconds  # time of a launch
    share = 1.776 / 4.645  # of what DRAM gives, the A100's to the H200's
    ours, theirs = (m.bandwidth["dram_r1w1_8"].bytes_per_second or 0.0 for m in (a100, h200))
    assert ours == pytest.approx(share * theirs, rel=1e-3)
    rate = 5.4 / 9.571  # of L2
    assert a100.packets.load_sector_seconds == pytest.approx((h200.packets.load_sector_seconds or 0) / rate, rel=1e-3)
    assert h100.memory.sustained_bytes_per_second == pytest.approx(4.645 / 4.8 * 3.35e12, rel=1e-3)
    assert h100.cache.l2_bytes_per_second == h200.cache.l2_bytes_per_second  # as many SMs at the same clock
    assert h100.instructions["sfu"] == h200.instructions["sfu"] and h100.tensor == h200.tensor  # the same SM
    # what only Hopper's SM has is in no other file: products of warp groups, its vendor's limits
    assert not any(key.startswith("group_") for key in a100.tensor) and a100.sm.barriers is None


def test_rules_miss_what_others_published_by_less_than_a_third_in_nine_of_ten() -> None:
    """The third by which intervals are wider rests on this."""
    ratios = [
        at(without(name, key), key) / at(load_machine(name), key)
        for name in MODERN
        for key in TAKEN
        if load_machine(name).sources[key].source == "paper"
    ]
    near = [3 / 4 <= ratio <= 4 / 3 for ratio in ratios]
    assert len(ratios) >= 20 and sum(near) / len(near) >= 0.9


@pytest.mark.parametrize("name", MODERN)
def test_no_modern_machine_reads_its_data_sheets_bandwidth(name: str) -> None:
    """Nor does any mix of reads and writes: the best that was seen anywhere is 98 % of the pins' rate."""
    machine = load_machine(name)
    pins, best = machine.memory.pin_bytes_per_second or 0.0, machine.memory.sustained_bytes_per_second or 0.0
    assert 0.8 * pins < best < 0.98 * pins
    for key, rate in machine.bandwidth.items():
        if key.startswith("dram_"):
            assert (rate.bytes_per_second or 0.0) < 0.991 * pins, key


@pytest.mark.parametrize("name", MODERN)
@pytest.mark.parametrize("kernel", KERNELS)
def test_no_limit_is_missing_and_none_is_beaten(kernel: str, name: str) -> None:
    machine, workload = load_machine(name), counted(kernel)
    here, there = (wl.predict(workload, m, "warplens-fast") for m in (machine, load_machine("h200")))
    profile = workload.profile
    assert profile is not None and here.seconds is not None
    executes = {x.kind for x, n in zip(workload.code, profile.counts["executed"], strict=True) if n}
    # HFMA2.MMA goes to double precision's units where products have half the cores; elsewhere it stays on the cores
    expected = {limit for limit in there.limits if limit != "fp64" or "fp64" in executes}
    assert expected <= set(here.limits)
    assert all(here.limits[limit] > 0 for limit in expected if there.limits[limit] > 0)
    moved = profile.dram_read_bytes + profile.dram_written_bytes
    assert moved / float(here.seconds) < (machine.memory.sustained_bytes_per_second or 0.0)
    near = wl.predict(within_l2(workload), machine, "warplens-fast")
    saved = 1 - (machine.cache.l2_pair_saving_fraction or 0.0)
    for kind in ("load", "store"):  # they pass one another: loads come back while stores go there
        asked = sum(profile.counts["l2_sectors"][i] for i, x in enumerate(workload.code) if x.kind == kind)
        assert near.seconds is not None
        assert 32 * saved * asked / float(near.seconds) < (machine.cache.l2_bytes_per_second or 0.0)


def test_an_answer_says_how_many_numbers_are_taken() -> None:
    notes = wl.predict(counted("saxpy"), "a100", "warplens-fast").notes
    many = len(taken(load_machine("a100")))
    assert notes == [f"{many} numbers of a100 are derived from the h200's (warplens machine show a100)"]
    assert wl.predict(counted("saxpy"), "h200", "warplens-fast").notes == []


def test_the_interval_of_a_gpu_without_a_launch_is_wider_and_says_so() -> None:
    own, other = (wl.predict(counted("saxpy"), name, "warplens-fast") for name in ("h200", "h100"))
    assert own.interval_seconds and other.interval_seconds and own.seconds and other.seconds
    for side in (0, 1):
        ratios = [p.interval_seconds[side] / float(p.seconds) for p in (own, other) if p.interval_seconds and p.seconds]
        assert abs(ratios[1] - 1) > abs(ratios[0] - 1)
    assert other.interval_seconds[0] < 3 / 4 * float(other.seconds)  # at least by what a number may be off
    assert other.interval_about.endswith("a third wider to either side: no launch was timed on this GPU")
    assert "this GPU" not in own.interval_about


def test_a_time_without_a_launch_has_two_digits() -> None:
    a100, h200 = load_machine("a100"), load_machine("h200")
    assert terminal.timed(242.87e-6, a100) == "about 240 us" and terminal.timed(242.87e-6, h200) == "242.9 us"
    assert terminal.sure((172.4e-6, 381.2e-6), a100) == "90 % sure of 170 to 380 us"
    assert terminal.sure((172.4e-6, 381.2e-6), h200) == "90 % sure of 172 to 381 us"


def test_a_users_file_can_name_a_base(tmp_path: Path) -> None:
    text = (FOLDER / "h100.toml").read_text().replace('id = "h100"', 'id = "mine"')
    (tmp_path / "mine.toml").write_text(text)
    assert taken(load_file(tmp_path / "mine.toml")) == taken(load_machine("h100"))


@pytest.mark.parametrize("base", ["nothing", "a100", "../files/h200", "x.toml"])
def test_a_base_is_a_measured_machine(base: str) -> None:
    with pytest.raises(WarplensError, match=r"x\.toml: base: must be the id of a machine that was measured"):
        parse({**tree_of("h100"), "base": base}, "x.toml")


def test_a_files_own_number_stands() -> None:
    tree = tree_of("h100")
    own = {"value": 9e12, "unit": "B/s", "source": "paper", "ref": "x"}
    tree["cache"]["l2_bytes_per_second"] = own
    made = parse(tree, "x.toml")
    assert (made.cache.l2_bytes_per_second, made.sources["cache.l2_bytes_per_second"].source) == (9e12, "paper")
    assert made.bandwidth["l2_load_16"].bytes_per_second == 9e12  # what rests on it follows


def test_only_close_names_are_offered() -> None:
    with pytest.raises(WarplensError, match="unknown GPU 'mi300x'; known are 8800gtx") as caught:
        load_machine("mi300x")
    assert "did you mean" not in str(caught.value) and "h100-pcie" in str(caught.value)
    with pytest.raises(WarplensError, match="did you mean 'rtx4090'"):
        load_machine("rtx-4090")


@pytest.mark.parametrize(("name", "table"), [("t4", "cache"), ("a40", "sm")])
def test_a_list_of_tables_where_a_table_is_wanted_is_refused(name: str, table: str) -> None:
    tree = tree_of(name)
    tree[table] = [tree[table]]
    with pytest.raises(WarplensError, match=rf"{table}"):
        parse(tree, f"{name}.toml")
