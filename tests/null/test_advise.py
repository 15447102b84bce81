"""The advisor: overlays keep what they should keep, and advice on measured kernels says what was measured."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

import warplens as wl
from warplens.advisor import REMEDIES, benefits
from warplens.advisor.advice import Advised
from warplens.advisor.case import Case, Proposal, Refusal, Site
from warplens.advisor.dataflow import address_instructions, freed, from_data, indirect
from warplens.advisor.differences import difference
from warplens.advisor.memory import _dense
from warplens.advisor.overlay import regrouped, with_fewer, with_launch
from warplens.advisor.precision import lower_precision
from warplens.advisor.resources import raise_occupancy
from warplens.advisor.rewrite import (
    Copy,
    Repeat,
    as_written,
    dropped,
    fewer_blocks,
    joined_iterations,
    joined_threads,
    rewritten,
    without,
)
from warplens.advisor.schedule import Scheduler
from warplens.api import verbs
from warplens.cli import main
from warplens.core.errors import WarplensError
from warplens.core.units import seconds
from warplens.papers.validation.kernels import Launch, launches
from warplens.papers.validation.ladders import REDUCTIONS, Outcome, Step, _order, climb, ladder_launches, ladders
from warplens.report import analysis
from warplens.report.benefits import rendered
from warplens.report.page.curves import occupancy_curve
from warplens.report.side_by_side import gpus
from warplens.report.terminal import console, headline
from warplens.workload import Workload
from warplens.workload.profile import Fewer, L1Contention, Profile

GPU = wl.load_machine("h200")
CALL = wl.load_launch(Path(__file__).parents[2] / "examples" / "saxpy.toml")


@cache
def measured(name: str) -> Launch:
    return next(x for x in launches() if x.name == name)


def counted(name: str) -> tuple[Workload, Profile]:
    workload = measured(name).workload
    assert workload.profile is not None
    return workload, workload.profile


@cache
def advised(name: str) -> Advised:
    return wl.advise(measured(name).workload, GPU)


def profile(workload: Workload) -> Profile:
    assert workload.profile is not None
    return workload.profile


def test_a_way_that_is_not_changed_leaves_the_workload_as_it_is() -> None:
    workload, _ = counted("matmul_tiled16")
    same = rewritten(workload, lambda path: [([(as_written(s), s.times) for s in path.segments], 1.0)])
    assert same == workload


def test_what_is_coalesced_is_named_in_the_order_of_the_accesses_whatever_the_hashes() -> None:
    like = counted("matmul_tiled16")[0].code[0]
    kinds = ["store", "load", "load_random", "shared", "int", "fp32", "sfu", "branch"]
    sites = [Site(i, replace(like, kind=kind), *[32.0] * 11) for i, kind in enumerate(kinds)]
    assert list(_dense(sites)) == list(range(len(kinds)))


def test_it_is_said_why_another_model_answers_than_our_own() -> None:
    workload, known = counted("matmul_tiled16")
    too_long = workload.with_values(profile=replace(known, paths=[], blocks=[]))
    for work, said in ((workload, False), (too_long, True)):
        for found in (wl.compare(work, GPU).headline, wl.predict(work, GPU)):
            assert found is not None
            text = "\n".join(map(str, headline(found, CALL, GPU)))
            assert ("not by our own model" in text and "too long to keep" in text) is said
        assert "not by our own model" not in "\n".join(map(str, headline(wl.predict(work, GPU, "roofline"), CALL, GPU)))


def test_our_own_answer_stays_where_a_limit_denies_it_and_says_which_and_by_how_much() -> None:
    workload, _ = counted("matmul_tiled16")
    found = wl.compare(workload, GPU)
    ours = {
        n: replace(p, flags=["unphysical: 1.2 times the peak of issue"])
        for n, p in found.predictions.items() if n.startswith("warplens")
    }  # fmt: skip
    flagged = replace(found, predictions={**found.predictions, **ours}).headline
    assert flagged is not None and flagged.model == "warplens" and flagged.seconds == ours["warplens"].seconds
    assert "1.2 times the peak of issue" in "\n".join(map(str, headline(flagged, CALL, GPU)))


def test_what_is_dropped_is_gone_from_ways_and_counts_and_the_rest_stays() -> None:
    workload, before = counted("matmul_tiled16")
    barriers = {i for i, x in enumerate(workload.code) if x.opcode == "BAR"}
    made = dropped(workload, barriers)
    after = profile(made)
    gone = sum(before.counts["executed"][i] for i in barriers)
    assert after.total("executed") == pytest.approx(before.total("executed") - gone)
    assert after.total("wavefronts") == pytest.approx(before.total("wavefronts"))
    assert not any(made.code[i].opcode == "BAR" for path in after.paths for i in path.walk())


def test_who_reads_what_a_dropped_instruction_waited_for_waits_instead() -> None:
    workload, _ = counted("svm_coalesced")
    code = workload.code
    x = next(i for i, x in enumerate(code) if x.control and x.control.waits and "R" in x.text and x.reads)
    run = tuple(Copy(i) for i in range(x, len(code)))
    read = set(code[x].reads)
    found = next(
        (c for c in without(run, {x}, code) if read & set(code[c.origin].reads)), None
    )  # the next that reads one of its operands
    control = code[x].control
    assert found is not None and control is not None and control.wait_mask
    mask = found.mask if found.mask is not None else (code[found.origin].control or control).wait_mask
    assert mask & control.wait_mask == control.wait_mask


def test_changed_code_is_ordered_by_what_needs_what() -> None:
    workload, _ = counted("black_scholes")
    code, scheduler = workload.code, Scheduler(workload.code, GPU)
    run = tuple(Copy(i) for i in range(0, len(code), 2))  # half of the instructions: none stays where it was
    made = [c for part in scheduler.ordered(run) for c in part]
    assert sorted(c.origin for c in made) == [c.origin for c in run]
    fences = [c.origin for c in made if code[c.origin].kind in ("branch", "exit", "store", "barrier")]
    assert fences == sorted(fences)
    written: dict[str, int] = {}
    for place, c in enumerate(made):  # nobody reads what comes only later in the part, if it came before in the code
        for register in code[c.origin].reads:
            earlier = [k for k in run if k.origin < c.origin and register in code[k.origin].writes]
            assert not earlier or register in written
        written |= dict.fromkeys(code[c.origin].writes, place)


def test_a_pointer_that_a_loop_counts_up_is_an_address() -> None:
    workload, _ = counted("cutoff_baseline")
    counts = {
        i for i, x in enumerate(workload.code) if x.text.startswith(("IADD3 R7, P1, R2, 0x40", "IADD3.X R3, RZ, R3"))
    }
    assert len(counts) == 2 and counts <= address_instructions(workload.code)
    assert counts <= freed(workload.code, {i for i, x in enumerate(workload.code) if x.opcode == "LDG"})


def test_a_tile_of_neighbours_that_l1_serves_is_not_advised() -> None:
    found = advised("stencil2d_naive").named("keep-in-shared")
    assert found is not None and not found.helps
    assert found.speedup == pytest.approx(
        measured("stencil2d_naive").seconds / measured("stencil2d_tiled").seconds, rel=0.2
    )


def test_joined_iterations_do_the_same_work_with_fewer_accesses() -> None:
    workload, before = counted("svm_coalesced")
    loads = {i for i, x in enumerate(workload.code) if x.opcode == "LDG"}
    made = joined_iterations(workload, 2, lambda i: Repeat(1, 2.0) if i in loads else Repeat(2), lambda segment: True)
    after = profile(made)
    for column in ("useful_bytes", "sectors", "l2_sectors"):  # what is moved stays
        assert after.total(column) == pytest.approx(before.total(column))
    requests = sum(before.counts["requests"][i] for i in loads)
    assert after.total("requests") < before.total("requests") - 0.4 * requests  # nearly half of the loads
    arithmetic = [
        sum(n for x, n in zip(w.code, p.counts["executed"], strict=True) if x.kind == "fp32")
        for w, p in ((workload, before), (made, after))
    ]
    assert arithmetic[1] == pytest.approx(arithmetic[0])


def test_joined_threads_are_fewer_and_do_the_same_work() -> None:
    workload, before = counted("vector_add")
    made = joined_threads(workload, 4, lambda i: Repeat(4))
    after = profile(made)
    assert after.grid_blocks * 4 == before.grid_blocks
    for column in before.counts:
        assert after.total(column) == pytest.approx(before.total(column), rel=1e-9)


@pytest.mark.parametrize(
    ("before", "after", "remedy"),
    [
        ("bank.bank4", "bank", "remove-conflicts"),
        ("matmul_tiled16.conflicts", "matmul_tiled16", "remove-conflicts"),
        ("mb.mb2-uncoalesced", "mb.mb2-coalesced", "coalesce"),
        ("itilp", "itilp.ilp4", "more-ilp"),
        ("spill.limit32", "spill", "avoid-spills"),
    ],
)
def test_a_remedy_that_was_applied_bought_about_what_is_said(before: str, after: str, remedy: str) -> None:
    found = advised(before).named(remedy)
    assert found is not None and found.helps
    assert found in advised(before).advice[:3]
    assert found.speedup == pytest.approx(measured(before).seconds / measured(after).seconds, rel=0.2)


def test_advice_is_in_order_and_every_refusal_has_its_reason() -> None:
    made = advised("matmul_tiled16.conflicts")
    helping = [a.helps for a in made]
    assert helping == sorted(helping, reverse=True)
    assert [a.speedup for a in made.helpful] == sorted((a.speedup for a in made.helpful), reverse=True)
    assert {a.name for a in made} == set(REMEDIES)
    assert all(a.reason for a in made if not a.helps)
    assert all(a.assumption and a.bound_after for a in made.helpful)
    conflicts = made.named("remove-conflicts")
    assert conflicts is not None
    assert str(conflicts.where[0]) == "matmul_tiled.cu:23"  # sum += a_tile[y][k] * b_tile[x][k]


@pytest.mark.parametrize("name", ["matmul_tiled16.conflicts", "svm_naive", "mb.mb2-uncoalesced"])
def test_the_best_together_are_better_than_the_best_alone(name: str) -> None:
    made = advised(name)
    assert made.combinations
    for both in made.combinations:
        assert len(both.name.split("+")) >= 2 and both.name.startswith(made.advice[0].name)
        assert both.speedup > made.advice[0].speedup and both.helps


def test_what_buys_nothing_beside_the_best_is_not_put_together_with_it() -> None:
    made = advised("mb.mb7-uncoalesced")
    assert len(made.helpful) > 1 and not made.combinations
    assert f"with {made.advice[0].name.replace('-', ' ')} done, no other remedy helps further" in made.notes


def test_registers_that_were_chosen_among_too_few_are_not_kept_without_spills() -> None:
    """The kernel compiled with enough of them has hardly a conflict of banks: 0.5 % of its time."""
    tight = measured("spill.limit48")
    case = Case(tight.workload, GPU, wl.predict(tight.workload, GPU, "warplens-fast"))
    free = REMEDIES["avoid-spills"](case)
    assert isinstance(free, Proposal)
    without_banks = GPU.with_values(sm__register_banks=None)
    for workload in (free.workload, measured("spill").workload):
        with_banks, without = (wl.predict(workload, gpu, "warplens").seconds for gpu in (GPU, without_banks))
        assert with_banks == pytest.approx(without, rel=0.01)
    now = wl.predict(tight.workload, GPU, "warplens").seconds
    assert now != pytest.approx(wl.predict(free.workload, GPU, "warplens").seconds, rel=0.5)


def test_remedies_for_which_the_code_is_too_long_are_said_not_to_be_tried() -> None:
    made = verbs.advised(measured("saxpy").workload, GPU, simulated=0, most_code=1)
    left = [a for a in made.advice if a.reason == "not tried, as the code is long"]
    assert 0 < len(left) < len(REMEDIES) == len(made.advice)
    assert made.notes == (
        f"the code is long: {len(left)} of {len(REMEDIES)} remedies were not tried; `warplens advise` does",
    )
    assert not made.combinations and not wl.advise(measured("saxpy").workload, GPU, simulated=0).notes


def test_a_stored_workload_without_counts_for_fewer_blocks_says_so() -> None:
    workload, profile = counted("svm_naive")
    older = workload.with_values(profile=replace(profile, l1_contention=None))
    found = wl.advise(older, GPU, simulated=0).named("lower-occupancy")
    assert found is not None and not found.helps
    assert found.reason == "what L1 keeps for fewer blocks was not counted; `warplens analyze` counts it"


def test_fewer_blocks_take_the_hits_that_were_counted_for_them() -> None:
    workload, before = counted("svm_naive")
    accesses = [i for i, n in enumerate(before.counts["sectors"]) if n]
    sectors = [before.counts["sectors"][i] for i in accesses]
    none = [0.0] * len(accesses)
    all_hit = {"l1_hit_sectors": sectors, "l2_sectors": none, "l2_hit_sectors": none, "replays": none}
    traffic = [replace(t, l2_read_bytes=1.0) for t in before.traffic]
    fewer = [
        Fewer(blocks_per_sm=n, l1_bytes=1e5 * n, accesses=accesses, counts=all_hit, traffic=traffic) for n in (8, 4)
    ]
    known = L1Contention(lost_share=0.9, times_l1=3.0, l2_sectors=before.total("l2_sectors"), fewer=fewer)
    crowded = workload.with_values(profile=replace(before, l1_contention=known))
    assert with_fewer(workload, 4) == workload and with_fewer(crowded, 12) == crowded  # nothing was counted for these
    for blocks, counted_for in ((8, 8), (5, 8), (4, 4), (1, 4)):
        made = profile(with_fewer(crowded, blocks))
        assert made.l1_bytes == 1e5 * counted_for and made.l1_contention is None
        assert made.l1_hit_share == 1 and made.total("executed") == before.total("executed")
        assert {t.l2_read_bytes for t in made.traffic} == {1.0}
    changed = crowded.with_values(profile=replace(profile(crowded), counts=profile(with_fewer(crowded, 4)).counts))
    assert with_fewer(changed, 4) == changed  # its accesses are others now
    case = Case(crowded, GPU, wl.predict(crowded, GPU, "warplens-fast"))
    answer = REMEDIES["more-loads-in-flight"](case)
    assert isinstance(answer, list)
    side_by_side = answer[0]
    assert len(side_by_side.workload.code) > len(workload.code)
    made = profile(with_fewer(side_by_side.workload, 4))  # of copies together what was counted of the access
    assert made.total("l1_hit_sectors") == pytest.approx(made.total("sectors")) and made.total("l2_sectors") == 0
    assert (
        profile(regrouped(crowded, 2)).l1_contention is None and profile(fewer_blocks(crowded, 2)).l1_contention is None
    )
    found = wl.advise(crowded, GPU, simulated=0).named("lower-occupancy")
    assert found is not None and found.changes["blocks_per_sm"] in (8, 4) and "100% L1 hits" in found.title


def test_a_workload_that_was_not_counted_gets_no_advice() -> None:
    with pytest.raises(WarplensError, match="profile"):
        wl.advise("saxpy", GPU)


def test_the_command_line_advises_on_a_saved_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bank.json"
    measured("bank.bank4").workload.save(file)
    assert main(["advise", str(file), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["advice"][0]["name"] == "remove-conflicts"
    assert data["advice"][0]["where"][0]["line"] == 10
    assert data["benefits"]["b_serial"] > 0
    assert main(["advise", str(file)]) == 0
    out = capsys.readouterr().out
    assert "what would help" in out and "remove the bank conflicts" in out and "bank.cu:10" in out
    assert main(["advise", str(tmp_path / "saxpy.cu")]) == 2
    assert "saxpy.cu: No such file" in capsys.readouterr().err
    assert main(["advise"]) == 2
    assert "Name a kernel's file (.cu, .ptx, .cubin, .py) or a launch file" in capsys.readouterr().err


def test_every_launch_of_the_ladders_was_measured_and_every_remedy_is_ours() -> None:
    known = ladder_launches()
    for ladder in ladders():
        for step in ladder.steps:
            assert step.before in known and step.after in known
            assert set(step.remedies) <= set(REMEDIES)


def test_what_is_close_bad_and_named() -> None:
    step = Step("a", "b", ("coalesce",))

    def outcome(measured: float, predicted: float | None, rank: int | None = None) -> Outcome:
        return Outcome(ladder="x", step=step, part="train", measured=measured, predicted=predicted, rank=rank)

    assert outcome(2.0, 2.39).close and not outcome(2.0, 2.41).close and not outcome(2.0, None).close
    assert outcome(0.99, 1.11).bad and not outcome(1.01, 1.5).bad and not outcome(0.5, 1.09).bad
    assert outcome(2.0, 2.0, 3).named and not outcome(2.0, 2.0, 4).named and not outcome(2.0, 2.0).named


def test_variants_in_order_and_what_the_choice_costs() -> None:
    names = ("reduction_k0_k2", "reduction_k0_k2.k1", "reduction_k0_k2.k2")
    order = _order("three", names, ladder_launches(), GPU, False)
    assert order.in_order and order.rank_correlation == pytest.approx(1.0) and order.chosen_percent == 0


def test_the_benefit_chart_of_the_reductions_has_the_papers_shape() -> None:
    """Figure 14: from K0 on the benefits shrink, and what is left of K6 is memory."""
    found = [benefits(ladder_launches()[name].workload, GPU) for name in REDUCTIONS]
    made = [b for b in found if b is not None]
    assert len(made) == 7
    first, last = made[0], made[-1]
    assert last.memory_bound and not first.memory_bound
    assert all(b.b_itilp == 0 and b.b_memlp == 0 for b in made)  # the paper's too: ITILP is at its peak
    assert last.b_fp < 0.1 * first.b_fp  # the instructions beside the additions go
    executed = [b.t_exec for b in made]
    assert executed == sorted(executed, reverse=True)


def test_the_least_time_of_memory_is_what_dram_takes_for_the_bytes() -> None:
    """Sim's T_mem_min, whatever the width of the accesses: a bound below T_mem at the pins' rate (A.6)."""
    workload = wl.load_workload("hong-kim-matmul-tiled")
    terms = wl.predict(workload, GPU, "sim2012").terms
    moved = workload.dram_bytes() * workload.total_warps
    seconds = terms["T_mem_min"].value / GPU.chip.clock_hz
    assert seconds == pytest.approx(moved / (GPU.memory.pin_bytes_per_second or 0), rel=0.02)
    assert terms["T_mem_min"].value <= 1.001 * terms["T_mem"].value


def test_warps_for_which_there_are_no_blocks_are_not_said_to_be_there() -> None:
    """An SM would hold eight blocks of cutoff_binned and gets four; of saxpy's it has all that it holds."""
    said = {}
    for name in ("cutoff_binned", "saxpy"):
        workload, _ = counted(name)
        answer = raise_occupancy(Case(workload, GPU, wl.predict(workload, GPU, "warplens-fast")))
        said[name] = answer.reason if isinstance(answer, Refusal) else ""
    assert said["cutoff_binned"] == "the grid has no more blocks for an SM"
    assert said["saxpy"] == "occupancy is 100 % already (64 warps per SM)"


def test_half_the_bytes_are_as_many_sectors_where_each_lane_has_its_own() -> None:
    for name, share in (("mb.mb4-uncoalesced", 1.0), ("saxpy", 0.5)):
        workload, _ = counted(name)
        case = Case(workload, GPU, wl.predict(workload, GPU, "warplens-fast"))
        made = lower_precision(case)
        assert isinstance(made, Proposal) and made.workload.profile is not None
        site = max(case.global_sites, key=lambda s: s.sectors)
        assert made.workload.profile.counts["sectors"][site.index] == pytest.approx(share * site.sectors)


@pytest.mark.parametrize("key", ["line:10.conflict", "occupancy", "machine.sms", "launch.registers", "machine"])
@pytest.mark.parametrize("value", ["a100", None, True, float("nan")])
def test_what_if_refuses_what_is_no_number(key: str, value: object) -> None:
    with pytest.raises(WarplensError, match=re.escape(key)):
        wl.what_if(measured("bank.bank4").workload, GPU, {key: value})  # type: ignore[dict-item]


def test_a_prediction_without_a_model_is_the_command_lines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    workload = measured("bank.bank4").workload
    assert wl.predict(workload, GPU).model == "warplens"
    workload.save(tmp_path / "w.json")
    for given in (str(tmp_path / "w.json"), "saxpy"):
        assert main(["predict", given, "--json"]) == 0
        said = json.loads(capsys.readouterr().out)["prediction"]
        found = wl.predict(given)
        assert (said["model"], said["seconds"]) == (found.model, pytest.approx(found.seconds))
        compared = wl.compare(given).headline
        assert compared is not None and compared.model == found.model
    assert wl.predict("saxpy", "gtx980").model != "warplens"


def test_the_benefit_chart_says_why_memory_has_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    for name, workload in (("sim-sfu-4", wl.load_workload("sim-sfu-4")), ("saxpy", measured("saxpy").workload)):
        found, empty = benefits(workload, GPU), name != "saxpy"
        assert found is not None and (found.t_mem == 0) == empty
        for part in rendered({name: found}):
            console(120).print(part)
        assert ("nothing goes beyond L2" in capsys.readouterr().out) == empty


def test_what_if_changes_a_line_the_machine_the_occupancy() -> None:
    workload = measured("bank.bank4").workload
    found = wl.what_if(workload, GPU, {"line:10.conflict": 1})
    assert found.speedup == pytest.approx(measured("bank.bank4").seconds / measured("bank").seconds, rel=0.1)
    more = wl.what_if(workload, GPU, {"machine.sms": 264}, model="warplens-fast")  # 264 blocks
    assert more.after.limits["shared memory and l1"] == pytest.approx(0.5 * found.before.limits["shared memory and l1"])
    stream = measured("vector_add").workload
    double = wl.what_if(stream, GPU, {"machine.dram": 2 * GPU.dram_bytes_per_second()}, model="warplens-fast")
    assert double.after.limits["dram bandwidth"] == pytest.approx(0.5 * double.before.limits["dram bandwidth"])
    few = wl.what_if(stream, GPU, {"occupancy": 8}, model="warplens-fast")
    assert few.after.warps_per_sm == 8 and few.speedup < 1
    whole = wl.what_if(stream, GPU, {"occupancy": 12.5}, model="warplens-fast")  # blocks of 8 warps
    assert whole.after.warps_per_sm == 8 and whole.after.seconds == few.after.seconds


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("line:999.conflict=1", "line 999 accesses no shared memory"),
        ("line:10.sectors=4", "accesses no global memory"),
        ("machine.dram=0", "above zero"),
        ("launch.registers=3.5", "a whole number"),
        ("machine.dram=nan", "finite"),
        ("machine.dram=1e-300", "must be a number"),
        ("machine.l2=1e300", "must be a number"),
        ("machine.sms=1.5", "a number that is whole, not 1.5"),
        ("line:10.conflict=1e9", "from 0 to 32"),
        ("launch.blocks=100", "warps per SM"),
        ("occupancy=0", "between 1 and 64"),
        ("occupancy=1000", "between 1 and 64"),
        ("nothing=1", "nothing to set under 'nothing'; `warplens whatif --list` has all"),
        ("launch.registers=0", "a whole number from 1 on"),
        ("shared.conflict_degree=1e9", "from 1 to 32"),
        ("line:ten.conflict=1", "the number of a line is wanted"),
        ("gpu=nowhere", "nowhere"),
    ],
)
def test_what_cannot_be_set_is_said_in_one_line(
    change: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bank.json"
    measured("bank.bank4").workload.save(file)
    assert main(["whatif", str(file), "--set", change]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_the_command_line_shows_what_if_and_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for name in ("bank.bank4", "bank"):
        files.append(str(tmp_path / f"{name}.json"))
        measured(name).workload.save(files[-1])
    assert main(["whatif", files[0], "--set", "line:10.conflict=1", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["speedup"] > 3 and data["changes"] == {"line:10.conflict": 1.0}
    assert main(["whatif", files[0], "--set", "gpu=h200", "--set", "occupancy=16"]) == 0
    assert "warps per SM" in capsys.readouterr().out
    assert main(["whatif", files[0], "--set", "gpu=h100"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.search(r": about [\d.]+x (as fast|slower)$", lines[0])
    (time,) = (line for line in lines if line.startswith("time"))
    assert re.fullmatch(r"time +[\d.]+ us +about \d{1,3}(\.\d)? us +[\d.]+x *", time), time
    assert main(["whatif", files[0]]) == 2
    assert "--set" in capsys.readouterr().err
    assert main(["diff", *files, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["speedup"] > 3
    assert "shared memory and l1 limits the slower one" in data["why"]
    assert "times the passes through shared memory and L1" in data["why"]
    assert main(["diff", *files]) == 0
    out = capsys.readouterr().out
    assert "what the grid does" in out and "alone, each limit would take" in out


def test_instructions_that_few_blocks_come_to_are_named_by_their_source_lines() -> None:
    workload, made = counted("matmul_tiled16")
    code = [replace(x, line=10 + i // 4) for i, x in enumerate(workload.code)]
    made = replace(made, unsure=[3, 4, 5, 9])  # lines 10, 11, 11, 12
    assert any("instructions (lines 10, 11, 12) may be off" in line for line in analysis.counted(made, code))
    code[5] = replace(code[5], line=None)
    assert any("instructions (numbers 3, 4, 5, 9) may be off" in line for line in analysis.counted(made, code))


def test_times_that_are_shown_as_the_same_have_no_reason_for_a_difference() -> None:
    workload = measured("stride").workload
    before = wl.predict(workload, GPU, "warplens-fast")
    cycles = {**before.limits, str(before.bound): 2 * float(before.limits[str(before.bound)])}
    after = replace(before, limits=cycles, seconds=1.004 * float(before.seconds or 0.0))
    # 1 / 1.004 is shown as 1.00x: the limit that has doubled made no difference
    assert (
        difference(workload, workload, before, after).why == f"no difference in time; {before.limited_by} limits both"
    )
    launch = replace(before, parts={"launch": 1e9}, seconds=2 * float(before.seconds or 0.0))
    assert difference(workload, workload, launch, replace(launch, seconds=1e-3)).why == "launch limits both"


def test_a_simulation_says_that_the_launch_comes_on_top(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload = measured("stride").workload
    workload.save(file := tmp_path / "w.json")
    p = wl.predict(workload, GPU, "warplens")
    launch = float(p.parts["launch"]) / GPU.chip.clock_hz
    assert main(["simulate", str(file), "--top", "0"]) == 0
    said = f"on the SMs; with the launch, {seconds(launch)}, {seconds(float(p.seconds or 0.0))}"
    assert said in capsys.readouterr().out


def test_why_names_the_bytes_that_drive_a_limit() -> None:
    why = wl.diff(measured("stride").workload, measured("stride.stride1").workload, GPU).why
    assert "l2 bandwidth limits the slower one" in why and "times the bytes asked of L2;" in why


def test_one_kernel_on_several_gpus_is_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    workload = measured("vector_add").workload
    made = [(m, wl.predict(workload, m, "volkov"), None) for m in (GPU, wl.load_machine("a100"))]
    for part in gpus(workload.name, made, {}):
        console(120).print(part)
    out = capsys.readouterr().out
    assert "on 2 GPUs" in out and "NVIDIA H200" in out and "NVIDIA A100" in out and "1.00x" in out
    assert "different models" not in out
    made[1] = made[1][0], wl.predict(workload, made[1][0], "hong-kim"), None
    for part in gpus(workload.name, made, {made[1][0].name: "it lacks something"}):
        console(120).print(part)
    assert "different models" in (out := capsys.readouterr().out) and "it lacks something" in out
    made = [(m, wl.predict(workload, m, "warplens-fast"), None) for m in (GPU, wl.load_machine("a100"))]
    made[1] = made[1][0], replace(made[1][1], notes=["L2 has no limit"]), None
    for part in gpus(workload.name, made, {}):
        console(120).print(part)
    assert "A100 80GB SXM: L2 has no limit" in capsys.readouterr().out  # what makes it look faster is said


def test_what_hangs_on_data_is_no_overhead() -> None:
    """A search in sorted bins: its steps and their conditions stay, whoever unrolls the loop or computes addresses."""
    workload, counts = counted("angular_baseline")
    loads = [i for i, x in enumerate(workload.code) if x.opcode == "LDG" and counts.counts["executed"][i]]
    search = range(loads[-1] - 4, loads[-1] + 7)  # the middle, its address, the load; which half, and whether to go on
    assert "IADD3" in workload.code[search[0]].text and workload.code[search[-1]].opcode == "BRA"
    assert set(search) - {loads[-1]} <= from_data(workload.code, counts.counts["executed"])
    case = Case(workload, GPU, wl.predict(workload, GPU, "warplens-fast"))
    fewer = REMEDIES["fewer-instructions"](case)
    assert isinstance(fewer, Proposal) and not set(fewer.changes["dropped"]) & set(search)


def test_forms_of_one_change_have_one_place() -> None:
    made = wl.advise(measured("black_scholes").workload, GPU, simulated=0)
    threads = {"vector-loads", "more-work-per-thread"}  # four elements per thread, by wide accesses or not
    first = next(a for a in made.helpful if a.name in threads)
    assert threads - {first.name} == {a.name for a in made.forms(first)} and not threads <= {
        a.name for a in made.helpful
    }


def test_what_a_block_goes_on_to_load_is_not_done_once_for_several_elements() -> None:
    for name, why in (
        ("matmul_tiled16", "in front of its barriers|loads more"),
        ("transpose_tiled", "stores what it has"),
    ):
        if (found := wl.advise(measured(name).workload, GPU, simulated=0).named("more-work-per-thread")) is not None:
            assert not found.helps and re.search(why, found.reason)


def test_conditions_of_guards_are_no_values() -> None:
    """K1 of the reduction: who adds is decided by a product of the thread's number, used as an address and a guard."""
    workload, _ = counted("reduction_k0_k2.k1")
    guarded = next(i for i, x in enumerate(workload.code) if x.opcode == "LDS" and x.guard)
    decides = max(
        i for i in range(guarded) if set(workload.code[i].writes) & {workload.code[guarded].guard.lstrip("@!")}
    )
    assert {decides, decides - 1} <= address_instructions(workload.code)


def test_addresses_that_are_loaded_make_a_gather_and_rows_that_begin_anywhere_do_not() -> None:
    workload, counts = counted("gather")
    assert indirect(workload.code, counts.counts["executed"])
    workload, counts = counted("svm_naive")
    assert not indirect(workload.code, counts.counts["executed"])
    assert "come from memory" in next(a.reason for a in wl.advise(counted("gather")[0], GPU, simulated=0)
                                      if a.name == "coalesce")  # fmt: skip


def test_what_is_read_by_loaded_addresses_is_neither_fused_nor_half_the_traffic() -> None:
    workload, before = counted("gather")
    case = Case(workload, GPU, wl.predict(workload, GPU, "warplens-fast"))
    refusal = REMEDIES["fuse"](case)
    assert isinstance(refusal, Refusal) and "known from memory only" in refusal.reason
    made = lower_precision(case)
    assert isinstance(made, Proposal)
    assert profile(made.workload).dram_read_bytes > 0.9 * before.dram_read_bytes  # a sector for each lane still
    assert profile(made.workload).dram_written_bytes == pytest.approx(0.5 * before.dram_written_bytes)


@pytest.mark.slow
def test_advice_comes_true_on_the_ladders() -> None:
    """The issue's goals (docs/explain/how-a-prediction-is-made.md)."""
    made = climb()
    steps = len(made.outcomes)
    variants, reductions = made.orders
    assert variants.rank_correlation >= 0.95 and variants.chosen_percent <= 3
    assert reductions.in_order and reductions.steps_close == reductions.steps == 6
    assert sum(o.bad for o in made.outcomes) < 0.05 * steps
    assert sum(o.close for o in made.outcomes) >= 0.8 * steps


@pytest.mark.slow
def test_the_best_remedy_is_among_the_first_three() -> None:
    best = [o for o in climb().outcomes if o.best]
    assert sum(o.named for o in best) >= 0.85 * len(best)


def test_a_small_grid_is_not_told_that_its_sms_are_full() -> None:
    """Blocks that would fit but are not there: neither full SMs in the advice, nor a curve that goes on."""
    stream = measured("vector_add").workload
    grid = 4 * int(GPU.chip.sm_count)
    few = with_launch(replace(stream, profile=replace(profile(stream), grid_blocks=grid)), grid=grid)
    answer = REMEDIES["raise-occupancy"](Case(few, GPU, wl.predict(few, GPU, "warplens-fast")))
    assert answer == Refusal("the grid has no more blocks for an SM")
    compared = wl.compare(few, GPU, simulated=False)
    points = occupancy_curve(compared.predictions["warplens-fast"], compared, few, GPU).points
    assert [x.warps_per_sm for x in points] == [8, 16, 24, 32]


def test_no_fewer_registers_are_advised_than_are_alive_at_a_time() -> None:
    workload, _ = counted("hgemm_mma.n4096")
    case = Case(workload, GPU, wl.predict(workload, GPU, "warplens-fast"))
    refusal = raise_occupancy(case)
    assert isinstance(refusal, Refusal) and refusal.reason.endswith("it would spill")


def test_blocks_that_were_emulated_alike_are_not_said_to_differ() -> None:
    workload, before = counted("vector_add")
    for last, reason in ((8.0, "no last round"), (16.0, "")):
        known = replace(before, heaviest=True, grid_blocks=66, sampled=[(0, 8.0), (1, 8.0), (2, last)])
        case = Case(workload.with_values(profile=known), GPU, wl.predict(workload, GPU, "warplens-fast"))
        answer = REMEDIES["fix-tail"](case)
        assert reason in answer.reason if isinstance(answer, Refusal) else not reason
