"""The simulator against the microbenchmarks without global memory: how many points are within 2 %.

    python bench/loops.py                        all points; a quarter of an hour on two cores
    python bench/loops.py instruction.lds pair   the loops whose names begin so
    python bench/loops.py --warps 4,8,16,32      with so many warps on an SM only
    python bench/loops.py --json FILE            every point

Points are those of the laboratory (`warplens measure`: one instruction or two in turn, in one, two or four chains,
with 1 to 64 warps of an SM), products among other instructions, register ports (on all schedulers, and on one alone),
adds before a chain whose instructions yield or not, and half of the loops of register ports in other registers, which
were measured when all rules stood and by which none was chosen (`others`; data/h200). Their machine code, compiled
anew for the laboratory's, is simulated for hundreds of thousands of cycles, as a loop of one chain was measured (what
warps do from turn to turn can be chaotic), products for 64 and 128 turns. What was measured is a mean over all SMs,
of three launches and more: how a loop begins differs from SM to SM and launch to launch, and many go on for ever in
one of several ways. So they begin two to eight times by chance, until these say their mean to 0.3 % (two alike end
it): the laboratory's behind its barrier, with other counts of issues (`papers.validation.begins`; of two warps on a
scheduler they are known), `others` as in some launches, the rest within 64 cycles. Warps begin the loops of products
when they were seen to, in one launch of many (product_begins.json.gz). No time is fitted; some rules of branches, and
how often warps have issued before, were read from turns of some of these loops (tests/null/test_turns.py). Of those
beyond 2 % `spread` counts those whose own repetitions, or SMs, differ by more than 2 %: they have no one time to be
within 2 % of; and `outside` those whose simulated time is not between the fastest and the slowest of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from math import inf, sqrt
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from rich.progress import track

from warplens.laboratory import journal
from warplens.laboratory.catalogue import entries
from warplens.laboratory.checks import checked, compiled, timed_loop
from warplens.machine import load_machine
from warplens.papers.validation.begins import (
    FIRST_LATER,
    SCHEDULERS,
    at_times,
    behind_barrier,
    issues_by_chance,
    issues_of_few,
)
from warplens.papers.validation.mixes import data_file, read
from warplens.papers.validation.simulated import stored_code
from warplens.program.instruction import Instruction
from warplens.simulator.code import Step, Way
from warplens.simulator.from_program import from_program
from warplens.simulator.from_workload import ENDLESS
from warplens.simulator.run import Options, run
from warplens.simulator.steady import steady
from warplens.simulator.units import units

FAMILIES = ("instruction.", "pair.", "issue.")  # of the laboratory
JOURNALS = ("measured.jsonl.xz", "measured_again.jsonl.xz", "measured_third.jsonl.xz")  # the first is compared with
GLOBAL = ("instruction.ldl",)  # local memory lies in global memory
NOT_THESE = ("ldg64", "address_ldg")  # of the register ports: loads of global memory
LIMITS = (2.0, 5.0, 10.0)  # percent
# Cycles for which a loop of one chain runs in the laboratory (`warplens.laboratory.plans`; of four chains four times as
# long), those of register_ports.cu and switches.cu; the turns of products, of which the longer less the shorter counts.
MEASURED, SPENT, TURNS = 480_000.0, 400_000.0, (64, 128)
FEWEST, MOST = 2, 8  # begins, where they are not known
KNOWN = 0.3  # percent: the error of a mean over begins


class Point(Struct, frozen=True):
    """A measured loop: its code, how many turns a body has, blocks of so many warps, and cycles per body and SM."""

    name: str
    code: list[Instruction]
    bodies: float
    warps: int
    threads: int
    measured: float
    fastest: float  # repetition, and where it was looked at SM
    slowest: float
    limit: float  # cycles; none: by turns
    schedulers: int = SCHEDULERS  # that have warps
    before: int = 0  # instructions before the loop
    begins: tuple[tuple[float, ...], ...] = ()  # when its warps were seen to come to them, in some launches

    @property
    def spread(self) -> float:
        """By how many percent its repetitions, or SMs, differ."""
        return 100 * (self.slowest / self.fastest - 1)

    def is_outside(self, percent: float) -> bool:
        """Whether what is so much off is more than a limit off, and not between the fastest and the slowest."""
        cycles = self.measured * (1 + percent / 100)
        return abs(percent) > LIMITS[0] and not self.fastest <= cycles <= self.slowest


def points(names: tuple[str, ...], warps: set[int]) -> Iterator[Point]:
    """Yield the measured points of the loops whose names begin so."""
    for point in (*_laboratory(names), *_products(), *_ports(), *_switches(), *_other_registers()):
        if point.name.startswith(names) and (not warps or point.warps in warps):
            yield point


def _laboratory(names: tuple[str, ...]) -> Iterator[Point]:
    kernels = {
        e.name: e.kernels[0]
        for e in entries()
        if e.name.startswith(FAMILIES) and e.name.startswith(names) and e.name not in GLOBAL
    }
    if not kernels:
        return
    seen: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    others: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    for file in JOURNALS:
        for row in journal.read(data_file(f"h200/journal/{file}")):
            if row["is"] == "sample" and row["entry"] in kernels and row["point"].get("stride") in (None, 1):
                key = row["entry"], row["point"]["warps"], row["point"]["threads"]
                kept = seen if file == JOURNALS[0] else others
                kept[key].append(row["values"]["sms_n"] / row["values"]["rate_n"])
    for name, warps, _, fastest, slowest in read("h200/loop_sms.json.gz")["rows"]:
        others[name, warps, 32 * warps] += [fastest, slowest]
    made = list(kernels.values())
    programs = checked(made, compiled(made, "sm_90")[0])
    code = {name: _before_time_is_up(timed_loop(kernel, programs[kernel.name])) for name, kernel in kernels.items()}
    for (name, warps, threads), cycles in seen.items():
        all_runs = cycles + others[name, warps, threads]
        measured, ends = statistics.median(cycles), (min(all_runs), max(all_runs))
        yield Point(name, code[name], 1.0, warps, threads, measured, *ends, MEASURED)


def _before_time_is_up(code: list[Instruction]) -> list[Instruction]:
    """Return a loop of the laboratory; its predicates hold when its time is up: what they guard does nothing before."""
    return [replace(x, writes=()) if x.guard and x.target is None else x for x in code]


def _other(name: str, row: dict[str, Any], bodies: float, warps: int, cycles: list[float], limit: float) -> Point:
    """Return a point by the cycles per body and SM of its runs, of which the first is compared with."""
    ends = min(cycles), max(cycles)
    return Point(name, stored_code(row["code"]), bodies, warps, 32 * warps, cycles[0], *ends, limit)


def _products() -> Iterator[Point]:
    keys = ("product", "filler", "count")
    loops = {
        tuple(r[k] for k in keys): r for r in read("experiments/register_ports/wide_products_code.json.gz")["loops"]
    }
    samples = json.loads(data_file("experiments/register_ports/wide_products.json").read_text())["samples"]
    seen, again = (
        read("experiments/register_ports/product_begins.json.gz"),
        read("experiments/register_ports/wide_products_again.json.gz")["samples"],
    )
    before = {tuple(r[k] for k in keys): stored_code(r["code"]) for r in seen["loops"]}
    times = {tuple(r[k] for k in (*keys, "warps")): tuple(map(float, r["begins"])) for r in seen["samples"]}
    for s, other in zip(samples, again, strict=True):
        key = tuple(s[k] for k in keys)
        name = f"products.{s['product']}.{s['filler']}{s['count']}"
        cycles = [c / s["warps"] for c in (s["cycles"], *other["cycles"])]
        point = _other(name, loops[key], 8.0, s["warps"], cycles, 0.0)
        code, begins = [*before[key], *point.code], times[*key, s["warps"]]
        yield replace(point, code=code, before=len(before[key]), begins=(begins,))


def _ports() -> Iterator[Point]:
    """Yield loops on all schedulers, and on one alone."""
    loops = {
        (r["other"], r["adds"], r["chained"]): r
        for r in read("experiments/register_ports/register_ports_code.json.gz")["loops"]
    }
    for kind, file, schedulers in (("ports", "again", SCHEDULERS), ("alone", "alone", 1)):
        for s in read(f"experiments/register_ports/register_ports_{file}.json.gz")["samples"]:
            if s["other"] not in NOT_THESE:
                row = loops[s["other"], s["adds"], s["chained"]]
                name = f"{kind}.{s['other']}.{'chained' if s['chained'] else 'free'}{s['adds']}"
                point = _of_all_sms(name, row, s, schedulers)
                yield replace(point, schedulers=schedulers)


def _other_registers() -> Iterator[Point]:
    """Yield loops of the register ports that the compiler gave other registers, with their warps' begins."""
    made = read("experiments/register_ports/other_registers.json.gz")
    loops = {(r["other"], r["adds"], r["chained"]): r for r in made["loops"]}
    for s in made["samples"]:
        if s["other"] in NOT_THESE:
            continue
        row, schedulers = loops[s["other"], s["adds"], s["chained"]], 1 if s["family"] == "alone" else SCHEDULERS
        name = f"others.{s['family']}.{s['other']}.{'chained' if s['chained'] else 'free'}{s['adds']}"
        begins = tuple(_of_lanes(start, schedulers) for start in s["starts"])
        yield replace(_of_all_sms(name, row, s, schedulers), schedulers=schedulers, begins=begins)


def _of_lanes(begins: list[int], schedulers: int) -> tuple[float, ...]:
    """Return when each warp of a block begins, those of other schedulers at once."""
    every = SCHEDULERS // schedulers
    return tuple(float(begins[w // every]) if w % every == 0 else 0.0 for w in range(len(begins) * every))


def _switches() -> Iterator[Point]:
    loops = {
        (r["other"], r["adds"], r["chains"]): r
        for r in read("experiments/register_ports/switches_code.json.gz")["loops"]
    }
    for s in read("experiments/register_ports/switches_again.json.gz")["samples"]:
        row = loops[s["other"], s["adds"], s["chains"]]
        point = _of_all_sms(f"switches.{s['change']}.{s['other']}{s['adds']}.ilp{s['chains']}", row, s, SCHEDULERS)
        if s["change"] == "yield_all":
            code = [replace(x, control=replace(x.control, yields=True)) for x in point.code if x.control]
            point = replace(point, code=code)
        yield point


def _of_all_sms(name: str, row: dict[str, Any], s: dict[str, Any], schedulers: int) -> Point:
    """Return a point by the mean of all SMs and launches, with the fastest and the slowest SM of any launch."""
    cycles = [s[key] / schedulers for key in ("cycles", "fastest", "slowest")]
    return _other(name, row, row["unroll"], schedulers * s["active"].bit_count(), cycles, SPENT)


def simulated(point: Point) -> float:
    """Return by how many percent the simulated time of a point is off."""
    if point.limit:
        rates = [1 / _cycles(point, 0)]
        while not _known_begin(point) and len(rates) < MOST and _percent_unknown(rates) > KNOWN:
            rates.append(1 / _cycles(point, len(rates)))
        cycles = 1 / statistics.mean(rates)
    else:
        short, long = (_cycles(point, 0, turns) for turns in TURNS)
        cycles = (long - short) / (TURNS[1] - TURNS[0]) / point.bodies / point.warps
    return 100 * (cycles / point.measured - 1)


def _known_begin(point: Point) -> bool:
    """Whether it is known how a point begins: one of the laboratory of up to two warps on a scheduler."""
    return point.name.startswith(FAMILIES) and point.threads // 32 <= 2 * SCHEDULERS


def _percent_unknown(rates: list[float]) -> float:
    if len(rates) < FEWEST:
        return inf
    return 100 * statistics.stdev(rates) / sqrt(len(rates)) / statistics.mean(rates)


def _cycles(point: Point, begin: int, turns: int = ENDLESS) -> float:
    """Return the cycles of a body of an SM, or of so many turns, if its warps begin in one of many ways."""
    made, chance = units(load_machine("h200")), Random(f"{point.name} {point.warps} {begin}")
    warps, turn = point.threads // 32, ([(point.before, len(point.code))], turns)
    way = Way([([(0, point.before)], 1), turn] if point.before else [turn])
    laid = from_program(point.code, made, ways=[way], blocks=[[0] * warps] * (point.warps // warps))
    if point.schedulers == 1:  # the warps of the others end at once
        steps, ends = [*laid.steps, Step(label="end")], Way([([(len(laid.steps), len(laid.steps) + 1)], 1)])
        laid = replace(laid, steps=steps, ways=[way, ends], blocks=[[0, 1, 1, 1] * warps])
    if point.name.startswith(FAMILIES):
        issued = [issues_of_few(warps) if _known_begin(point) else issues_by_chance(warps, chance) for _ in laid.blocks]
        laid = behind_barrier(laid, issued, FIRST_LATER)
    elif point.begins:
        laid = at_times(laid, list(point.begins[begin % len(point.begins)]))
    options = Options(limit_cycles=point.limit or None, seed=1 + begin)
    if turns == ENDLESS:
        return steady(replace(laid, steady=True, bodies=point.bodies), made, options).cycles
    return run(laid, made, options, resident=1, blocks=1).end_cycle


def _line(name: str, errors: list[tuple[Point, float]]) -> str:
    off = [abs(e) for _, e in errors]
    beyond = "".join(f"{sum(e > limit for e in off):8}" for limit in LIMITS)
    unsure = sum(abs(e) > LIMITS[0] and p.spread > LIMITS[0] for p, e in errors)
    outside = sum(p.is_outside(e) for p, e in errors)
    worst = max((e for _, e in errors), key=abs)
    return f"{name:24}{len(off):7}{statistics.mean(off):8.2f}{beyond}{unsure:8}{outside:9}{worst:+9.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="loops whose names begin so")
    parser.add_argument("--warps", default="", help="with so many warps of an SM only: 4,8,16")
    parser.add_argument("--json", type=Path, help="write every point to this file")
    parser.add_argument("--loops", action="store_true", help="a line for each loop")
    given = parser.parse_args()
    todo = list(points(tuple(given.names) or ("",), {int(w) for w in given.warps.split(",") if w}))
    if not todo:
        sys.exit("no such loop; python bench/loops.py --help says which there are")
    with ProcessPoolExecutor() as pool:
        each = track(pool.map(simulated, todo, chunksize=8), "loops", len(todo), console=Console(stderr=True))
        errors = list(each)
    if given.json:
        rows = [
            {
                "name": p.name,
                "warps": p.warps,
                "measured": p.measured,
                "percent": round(e, 3),
                "spread": round(p.spread, 3),
                "outside": p.is_outside(e),
            }
            for p, e in zip(todo, errors, strict=True)
        ]
        given.json.write_text(json.dumps(rows, indent=0) + "\n")
    grouped: dict[str, list[tuple[Point, float]]] = defaultdict(list)
    for point, error in zip(todo, errors, strict=True):
        for name in (point.name if given.loops else point.name.split(".")[0], "all"):
            grouped[name].append((point, error))
    grouped["all"] = grouped.pop("all")
    beyond = "".join(f"{f'> {limit:g} %':>8}" for limit in LIMITS)
    print(f"{'loops':24}{'points':>7}{'mean %':>8}{beyond}{'spread':>8}{'outside':>9}{'worst %':>9}")
    for name, group in grouped.items():
        print(_line(name, group))
    loops: dict[str, list[float]] = defaultdict(list)
    for point, error in zip(todo, errors, strict=True):
        loops[point.name].append(abs(error))
    means = {name: statistics.mean(off) for name, off in loops.items()}
    near, worst = sum(mean <= LIMITS[0] for mean in means.values()), max(means, key=means.__getitem__)
    print(f"{near} of {len(means)} loops are within 2 % in the mean; at most {means[worst]:.1f} %: {worst}")


if __name__ == "__main__":
    main()
