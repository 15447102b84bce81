"""What the page of `analyze --html` is made of: counts that add up, and the notebook's small tables."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

import warplens as wl
from warplens.papers.validation.kernels import launches
from warplens.report.benefits import chart, rows, steps
from warplens.report.page.code import code, judge
from warplens.report.page.content import Content, Touches, gather
from warplens.report.page.curves import Point, _met
from warplens.report.page.markup import Markup, tag, text
from warplens.report.page.pictures import roofline, say_occupancy
from warplens.report.page.svg import Scale, decades, ticks
from warplens.report.simulation import read_source
from warplens.workload import Workload

GPU = wl.load_machine("h200")


def measured(name: str) -> Workload:
    return next(x for x in launches() if x.name == name).workload


@cache
def content(name: str) -> Content:
    workload = measured(name)
    comparison = wl.compare(workload, GPU)
    assert comparison.headline is not None
    return gather(comparison.headline, comparison, workload, GPU, None)


def test_the_shares_of_instructions_add_up_and_their_counts_are_the_profiles() -> None:
    c = content("matmul_tiled8.conflicts")
    assert sum(r.share for r in c.instructions) == pytest.approx(1.0)
    assert all(sum(r.stalls.values()) == pytest.approx(r.share) for r in c.instructions)
    profile = c.workload.profile
    assert profile is not None
    warps = profile.grid_blocks * profile.warps_per_block
    assert sum(r.runs_per_warp for r in c.instructions) == pytest.approx(profile.total("executed") / warps)
    conflicts = {r.touches.conflict_degree for r in c.instructions if r.touches and r.touches.space == "shared"}
    assert conflicts == {1.0, 2.0}  # the tile on its side: two passes where one would do
    loads = [r.touches for r in c.instructions if r.touches and r.text.split()[-1] and "LDG" in r.text]
    assert all(t.sectors == 4 and t.useful_share == pytest.approx(1.0) for t in loads)  # 8 x 4 bytes fill a sector


def test_the_roofline_counts_the_flops_of_a_matrix_product() -> None:
    c = content("matmul_tiled8.conflicts")
    r = c.roofline
    assert r is not None and r.unit == "flop"
    assert r.operations == 2 * 1024**3  # n^3 products and sums
    assert [roof.name for roof in r.roofs] == ["fp32"]
    assert r.roofs[0].per_second == pytest.approx(2 * 128 * GPU.chip.sm_count * GPU.chip.clock_hz)
    assert r.operations_per_second < r.roofs[0].per_second
    for level in r.levels:
        assert level.bytes / (r.operations / r.operations_per_second) < level.bytes_per_second


def test_a_kernel_without_floating_point_is_shown_by_its_integer_operations() -> None:
    r = content("histogram_private.n256k").roofline
    assert r is not None and r.unit == "integer operation" and [roof.name for roof in r.roofs] == ["int"]


def test_the_curve_meets_the_bounds() -> None:
    c = content("matmul_tiled8.conflicts").curve
    assert c is not None and c.needed_warps is not None and c.band is not None
    assert 0 < c.needed_warps < c.now.warps_per_sm == 64
    assert c.band[0] <= 1 <= c.band[1]
    for point in c.points:
        assert point.predicted <= 1.0001 * min(point.by_latency, point.by_throughput)
    rising = [p.by_latency for p in c.points]
    assert rising == sorted(rising)


def test_warps_of_the_timeline_do_one_thing_at_a_time() -> None:
    t = content("matmul_tiled8.conflicts").timeline
    assert t is not None and len(t.warps) == 16 and t.warps_on_sm == 64
    for warp, slices in t.warps.items():
        assert slices[0].first_cycle == 0 and slices[-1].end_cycle == t.cycles
        assert all(a.end_cycle == b.first_cycle for a, b in pairwise(slices))
        assert sum(t.shares(warp).values()) == pytest.approx(1.0)
    issued = sum(s.what == "selected" for slices in t.warps.values() for s in slices)
    assert 0 < issued <= t.cycles  # one scheduler issues one instruction a cycle


def test_a_warp_that_has_ended_is_idle_until_the_next_block() -> None:
    t = content("reduction_k0_k2.k2").timeline
    assert t is not None
    idle = [t.cycles - sum(s.end_cycle - s.first_cycle for s in slices) for slices in t.warps.values()]
    assert max(idle) > 100  # the first block ends, and the next one takes its time to come


def test_markup_escapes_all_that_is_not_markup() -> None:
    assert text("<b>") == "&lt;b&gt;" and text(Markup("<b>")) == "<b>"
    made = tag("a", "<x>", tag("i", "&"), href='"><script>', hidden=False, data_x=1.5)
    assert made == '<a href="&quot;&gt;&lt;script&gt;" data-x="1.5">&lt;x&gt;<i>&amp;</i></a>'


def test_scales_and_ticks() -> None:
    assert Scale(1, 100, 0, 10, log=True)(10) == 5 and Scale(0, 4, 0, 100)(9) == 225  # beyond the picture
    assert ticks(0, 64, 8) == [0, 10, 20, 30, 40, 50, 60]
    assert decades(0.01, 1000) == [0.01, 0.1, 1, 10, 100, 1000] and decades(3, 30) == [5, 10, 20]


@pytest.mark.parametrize("evil", ["<script>alert(1)</script>", "a\u202eb"])
def test_notebooks_show_names_as_text(evil: str) -> None:
    workload = measured("saxpy").with_values(name=evil)
    p = wl.predict(workload, GPU, "warplens-fast")
    found = wl.advise(workload, GPU, simulated=0)
    changed = wl.what_if(workload, GPU, {"occupancy": 16}, model="warplens-fast")
    others = (changed, wl.diff(workload, workload, GPU), wl.compare(workload, GPU, simulated=False))
    for thing in (workload, p, found, found[0], found[-1], *others):
        shown = thing._repr_html_()  # type: ignore[union-attr]
        assert "<script" not in shown and "\u202e" not in shown and shown.startswith("<div>")
    assert "limited by dram bandwidth" in p._repr_html_()  # type: ignore[attr-defined]
    assert "occupancy = 16" in changed._repr_html_() and f"{changed.speedup:.2f}x" in changed._repr_html_()  # type: ignore[attr-defined]
    many = wl.predict(wl.mix(8.0), GPU, "volkov", warps_per_sm=[4.0, 8.0])  # type: ignore[arg-type]
    assert "2 configurations" in many._repr_html_()  # type: ignore[attr-defined]


def test_the_sentence_on_occupancy_says_what_the_curve_does() -> None:
    """The curve comes within 5 % of the throughput bound at 48 warps, long after the bounds have met at 15."""
    c = content("matmul_tiled8.conflicts").curve
    assert c is not None
    points = [Point(n, n / 15.0, 1.0, p, 1.0) for n, p in ((16.0, 0.55), (32.0, 0.85), (48.0, 0.95), (64.0, 1.0))]
    met = _met(points, lambda x: x.by_latency / x.by_throughput - 1)
    reached = _met(points, lambda x: x.predicted / x.by_throughput - 0.95)
    assert met == pytest.approx(15.0) and reached == pytest.approx(48.0)
    drawn = replace(c, points=points, now=points[-1], needed_warps=met, reached_warps=reached)
    said = str(tag("p", *say_occupancy(drawn)))
    assert "within 5 % of the throughput bound from" in said and ">48 warps per SM<" in said
    assert "bounds meet at" in said and ">15 warps<" in said and "Latency is hidden" not in said
    never = str(tag("p", *say_occupancy(replace(drawn, now=points[1], reached_warps=None))))
    assert "now it has 85%" in never


def test_a_card_says_of_full_sectors_in_too_many_lines_what_the_remedy_says() -> None:
    """4 sectors of 32 bytes, all asked for, fill one line of 128; in two lines they are what `coalesce` would mend."""
    full = {"space": "global", "requests_per_warp": 1.0, "threads": 32.0, "bytes_per_thread": 4.0, "wavefronts": 2.0,
            "l1_hits": 0.0, "l2_hits": 1.0}  # fmt: skip
    said, good = judge(Touches(**full, sectors=4.0, lines=2.0))  # type: ignore[arg-type]
    assert said == "4 sectors, 100% of their bytes asked for, in 2 lines where 1 would do" and not good
    said, good = judge(Touches(**full, sectors=4.0, lines=1.0))  # type: ignore[arg-type]
    assert said == "4 sectors, 100% of their bytes asked for" and good
    assert not judge(Touches(**full, sectors=8.0, lines=2.0))[1]  # type: ignore[arg-type]  # half of their bytes


def test_a_triton_source_is_shown(tmp_path: Path) -> None:
    source = tmp_path / "kernel.py"
    source.write_text("import triton\n\nx = tl.load(p)\n")
    c = content("matmul_tiled8.conflicts")
    assert read_source(str(source)) == ["import triton", "", "x = tl.load(p)"]
    assert "kernel.py" in code(replace(c, workload=replace(c.workload, source=str(source))))


def test_levels_of_the_roofline_are_named_at_their_points() -> None:
    c = content("matmul_tiled8.conflicts")
    assert c.roofline is not None
    drawn = roofline(c)
    for level in c.roofline.levels:
        assert f">{level.name}</text>" in drawn


def test_the_chart_of_benefits_goes_from_a_by_its_arrows_to_the_ideal() -> None:
    """Sim et al. 2012, Figure 4: x is the cost of memory, y of computation; A' is A less T_overlap, Equation (16)."""
    workload = measured("saxpy")
    found = wl.advise(workload, GPU, simulated=0)
    b = found.benefits
    assert b is not None
    a, moved, *_, ideal = steps(b)
    assert a == (b.t_mem, b.t_comp)
    assert moved == pytest.approx((b.t_mem - b.t_overlap, b.t_comp)) and sum(moved) == pytest.approx(b.t_exec)
    assert ideal == pytest.approx((min(moved[0], b.t_mem_min), b.t_fp))
    drawn = chart(b, GPU)
    assert all(f">{part}</td>" in drawn for row in rows([b]) for part in map(text, row))
    assert all(f">{text(name)}</text>" in drawn for name in ("A", "A'", "ideal"))


def test_the_chart_of_benefits_says_that_parameters_are_missing() -> None:
    machine = wl.load_machine("gtx980")
    assert machine.sim is None
    drawn = chart(None, machine)
    assert "has no [sim] section" in drawn and "<svg" not in drawn
