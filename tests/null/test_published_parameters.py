"""The papers' own parameters: derived from samples, set by hand, and asked for where a machine lacks them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warplens.core.errors import WarplensError
from warplens.laboratory.published import derive_costs, derive_departures, derive_gamma
from warplens.laboratory.samples import Samples
from warplens.machine import Machine, load_machine
from warplens.models import predict
from warplens.models.prediction import Prediction
from warplens.papers.validation.kernels import launches
from warplens.simulator.overlay import overlay
from warplens.workload import Workload, load_workload
from warplens.workload.workload import Access, Launch


def samples(entries: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]]) -> Samples:
    run = Samples([{"is": "head", "reference_ghz": 2.0}])
    run.entries = entries
    return run


def value(p: Prediction, term: str) -> float:
    return float(p.terms[term].value)


def kernel(**given: Any) -> Workload:
    accesses = [Access(4.0, **{"transactions": 4.0, "transaction_bytes": 32.0, **given.pop("access", {})})]
    return Workload(name="made", launch=Launch(1024.0, 256.0), instructions={"fp32": 40.0}, accesses=accesses, **given)


# --- from samples ----------------------------------------------------------------------------------------


def test_a_departure_delay_is_what_more_of_the_same_takes() -> None:
    def lines(warps: int, cycles: float) -> tuple[dict[str, Any], dict[str, Any]]:
        point = {"warps": warps, "trips": 32, "loads": 8, "lines": 32}
        return point, {"mean_warp_cycles_n": 1000.0, "mean_warp_cycles_2n": 1000.0 + cycles * 32 * 8 * warps * 32}

    def loads(warps: int, cycles: float) -> tuple[dict[str, Any], dict[str, Any]]:
        point = {"warps": warps, "lines": 1, "blocks": 1}
        return point, {"issued": [0.0] * 40, "all_back": 700.0 + 40 * warps * cycles}

    entries = {
        "published.departure": [lines(8, 1.25), lines(32, 1.0)],
        "in_flight.dram": [loads(8, 2.0), loads(16, 2.0)],
    }
    found = {one.key: one.value for one in derive_departures(samples(entries))}
    assert found == {
        "hong_kim.departure_del_coal_cycles": 2.0,
        "hong_kim.departure_del_uncoal_cycles": 1.0,
        "sim.departure_delay_cycles": 1.0,
    }


def test_gamma_is_the_cost_of_a_barrier_over_that_of_the_memory_instructions_around_it() -> None:
    gamma, latency = 0.05, 700.0

    def taken(warps: int, products: int, barrier: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        instructions = 9 + products + barrier
        more = gamma * warps * latency * 2 / instructions if barrier else 0.0  # (8), times warps
        point = {"sms_used": 132, "blocks": 1, "warps": warps, "trips": 64, "products": products, "barrier": barrier}
        cycles = 64 * (900.0 + more)
        return {**point, "instructions": instructions}, {"mean_warp_cycles_n": 0.0, "mean_warp_cycles_2n": cycles}

    shapes = [(warps, products) for warps in (1, 8, 32) for products in (1, 16)]
    alone = [({"warps": warps}, {"mean_cycles_per_count": latency + 6}) for warps in (4, 64)]
    run = samples({
        "mix.load.a0": alone,
        "published.barrier": [taken(*shape, barrier) for shape in shapes for barrier in (False, True)],
    })  # fmt: skip
    (found,) = derive_gamma(run)
    assert (found.key, found.value) == ("sim.gamma", gamma)
    assert "least squares over 6 launches" in found.how


def test_factors_are_the_cycles_of_an_sm_over_those_of_an_addition() -> None:
    def chain(cycles: dict[int, float], **facts: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Links that take a warp so long, by warps per SM."""
        made = []
        for warps, each in cycles.items():
            trip = {"mean_cycles_per_count_n": 10 * each, "mean_cycles_per_count_2n": 20 * each}
            rates = {"rate_n": warps / (10 * each), "rate_2n": warps / (20 * each), "sms_n": 1.0, "sms_2n": 1.0}
            made.append(({"warps": warps, "stride": 1, "links": 10, "chains": 1, **facts}, {**trip, **rates}))
        return made

    def divided(warps: int, each: float) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"warps": warps, "trips": 4, "links": 8}, {"mean_warp_cycles_n": 0.0, "mean_warp_cycles_2n": 32 * each}

    entries = {f"instruction.{name}{chains}": chain({1: 4.0, 64: cycles})
               for name, cycles in (("fadd", 16.0), ("imad", 32.0), ("lds", 64.0))
               for chains in ("", ".ilp2", ".ilp4")}  # fmt: skip
    run = samples({**entries, "published.imod": [divided(1, 100.0), divided(32, 160.0)]})
    found = {one.key: one.value for one in derive_costs(run)}
    assert found["hong_kim.imul_factor"] == pytest.approx(2.0)
    assert found["hong_kim.imod_factor"] == pytest.approx(160 / 32 / 0.25)  # cycles of the SM over an addition's
    assert found["kothapalli.imul_cycles"] == pytest.approx(4 * 2)
    assert found["kothapalli.shared_cycles"] == pytest.approx(4 * 4)
    assert "hong_kim.shared_factor" not in found


# --- set by hand -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["sim.gamma", "hong_kim.issue_cycles", "kothapalli.imod_cycles"])
def test_a_section_that_a_machine_has_not_got_can_be_set(field: str) -> None:
    gtx480 = load_machine("gtx480")
    section, _, key = field.partition(".")
    assert getattr(gtx480, section) is None
    changed, _ = overlay(gtx480, None, {f"machine.{field}": 0.5})
    assert getattr(getattr(changed, section), key) == 0.5
    assert changed.sources[field].source == "derived"
    with pytest.raises(WarplensError, match="has no field 'nonsense'"):
        overlay(gtx480, None, {f"machine.{section}.nonsense": 1.0})


def test_a_section_with_required_keys_takes_them_together() -> None:
    gtx480 = load_machine("gtx480")
    assert gtx480.contention_l2 is None
    whole = {"machine.contention_l2.a_cycles": 200.0, "machine.contention_l2.b_cycles": 9.0,
             "machine.contention_l2.c_bytes_per_second": 1e12}  # fmt: skip
    changed, _ = overlay(gtx480, None, whole)
    assert changed.contention_l2 is not None
    assert changed.contention_l2.b_cycles == 9.0
    part = {"machine.contention_l2.a_cycles": 200.0}
    with pytest.raises(WarplensError, match=r"has no \[contention_l2\]: set machine.contention_l2.b_cycles, machine"):
        overlay(gtx480, None, part)


def test_gamma_may_be_below_one_and_nothing() -> None:
    h200, c2050 = load_machine("h200"), load_machine("c2050")
    assert h200.sim is not None
    assert h200.sim.gamma is not None
    assert h200.sim.gamma < 1
    work = kernel(barriers=2.0)
    costs = [value(predict(work, c2050.with_values(sim__gamma=g), "sim2012"), "O_sync") for g in (0.0, 0.5, 64.0)]
    assert costs[0] == 0
    assert costs[2] == pytest.approx(128 * costs[1])
    with pytest.raises(WarplensError, match=r"sim\.gamma"):
        c2050.with_values(sim__gamma=-1.0)


# --- asked for -------------------------------------------------------------------------------------------


def lacking(machine: Machine, work: Workload, model: str) -> str:
    with pytest.raises(WarplensError) as error:
        predict(work, machine, model)
    return str(error.value)


def test_a_model_without_its_parameters_says_which_and_how_they_are_found() -> None:
    gtx480 = load_machine("gtx480")
    said = lacking(gtx480, kernel(barriers=1.0), "sim2012")
    assert said == ("sim2012 needs sim.gamma, which machine gtx480 does not give: `warplens machine measure --only "
                    "published` finds it, a machine file states it under [sim]")  # fmt: skip
    assert "needs hong_kim.departure_del_coal_cycles" in lacking(gtx480, kernel(barriers=1.0), "hong-kim")
    hits = kernel(access={"hit_fraction": 0.5})
    assert "needs sim.hit_lat_cycles" in lacking(load_machine("gtx1060"), hits, "sim2012")
    # what Volkov's reading covers has an answer
    assert predict(kernel(), gtx480, "sim2012").cycles
    assert predict(kernel(), gtx480, "hong-kim").cycles
    assert predict(kernel(barriers=1.0), load_machine("h200"), "sim2012").cycles


@pytest.mark.parametrize("name", ["h200", "a100", "rtx4090", "b200"])
def test_machines_that_rest_on_the_h200_have_its_parameters(name: str) -> None:
    machine = load_machine(name)
    for model in ("sim2012", "hong-kim", "kothapalli-max"):
        assert predict(load_workload("hong-kim-figure12"), machine, model).cycles


# --- what they do ----------------------------------------------------------------------------------------


def test_the_mean_access_time_lies_on_the_levels_that_answer() -> None:
    h200 = load_machine("h200")
    l1, l2 = h200.cache.l1_latency_cycles, h200.cache.l2_latency_cycles
    assert l1 is not None
    assert l2 is not None
    amat = [value(predict(kernel(access={"hit_fraction": h}), h200, "sim2012"), "AMAT") for h in (0.0, 0.5, 1.0)]
    full = value(predict(kernel(), h200, "sim2012"), "avg_DRAM_lat")
    assert amat[0] == pytest.approx(full)
    assert amat[2] == pytest.approx(l1)
    assert amat[1] == pytest.approx((l1 + full) / 2)  # nothing counted what passes L1: to DRAM or not at all
    printed = predict(kernel(access={"hit_fraction": 0.5}), load_machine("c2050"), "sim2012")
    assert value(printed, "AMAT") == pytest.approx(0.5 * value(printed, "avg_DRAM_lat") + 18)  # (12) as printed


def test_the_overlap_is_that_of_16_and_17() -> None:
    p = predict(load_workload("sim-sfu-4"), load_machine("c2050"), "sim2012")
    share, zeta = value(p, "F_overlap"), float(value(p, "CWP") <= value(p, "MWP"))
    assert share == pytest.approx((value(p, "N") - zeta) / value(p, "N"))
    assert value(p, "T_overlap") == pytest.approx(min(value(p, "T_comp") * share, value(p, "T_mem")))
    assert value(p, "T_exec") == pytest.approx(value(p, "T_comp") + value(p, "T'_mem"))


def test_m_factor_weighs_what_the_section_names() -> None:
    h200 = load_machine("h200")
    assert h200.hong_kim is not None
    factor = h200.hong_kim.sfu_factor
    assert factor is not None
    plain, special = kernel(), kernel()
    special = special.with_values(instructions={"sfu": 40.0})
    cycles = [value(predict(w, h200, "hong-kim"), "Comp_cycles") for w in (plain, special)]
    assert np.diff(cycles)[0] == pytest.approx(40 * (factor - 1) * 0.25)


def test_loads_that_need_not_wait_are_independent_requests() -> None:
    """examples/micro/loads: eight loads of an unrolled loop, in a chain or not (Hong and Kim, Figure 25)."""
    h200, by_name = load_machine("h200"), {x.name: x for x in launches()}
    dependent, independent = (
        predict(by_name[name].workload, h200, "hong-kim") for name in ("loads", "loads.independent")
    )
    n = value(dependent, "#Active_warps_per_SM (N)")
    assert value(dependent, "N_pw") == n
    assert value(independent, "N_pw") == pytest.approx(n * 7 / (8 - 7), rel=0.02)  # (29): seven of eight
    measured = by_name["loads"].seconds / by_name["loads.independent"].seconds
    assert float(dependent.seconds or 0) / float(independent.seconds or 1) == pytest.approx(n * 7 / n, rel=0.05)
    assert measured == pytest.approx(5.3, abs=0.05)
