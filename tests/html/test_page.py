"""The page of `analyze --html` in a browser: quiet, drawn, reachable, readable, and no place for others' code."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import warplens as wl
from tests.html.browser import PROGRAM, Browser, browser
from warplens.papers import reproduce
from warplens.papers.report import items
from warplens.papers.validation.kernels import launches
from warplens.report.data import to_json
from warplens.report.page.content import data, gather
from warplens.report.page.frame import SECTIONS, page
from warplens.report.page.markup import seconds
from warplens.workload import Workload

pytestmark = pytest.mark.xdist_group("browser")
GPU = wl.load_machine("h200")
NAME = "matmul_tiled8.conflicts"
EVIL = "</title></style></script><script>window.pwned=1</script><img src=x onerror='window.pwned=1'>\"'`&amp;\u202e"


def measured(name: str) -> Workload:
    return next(x for x in launches() if x.name == name).workload


def made(workload: Workload) -> tuple[str, dict[str, Any], float]:
    """Return a page, what --json prints, and the seconds that the page took beyond the answer."""
    comparison = wl.compare(workload, GPU)
    answer = comparison.headline
    assert answer is not None
    advised = wl.advise(workload, GPU, simulated=0)
    began = time.process_time()
    content = gather(answer, comparison, workload, GPU, advised)
    answered = to_json(data(content))
    text = page(content, answered)
    return text, json.loads(answered), time.process_time() - began


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], float]:
    text, data, spent = made(measured(NAME))
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(text)
    return path, data, spent


@pytest.fixture(scope="module")
def shown() -> Iterator[Browser]:
    if PROGRAM is None:
        pytest.skip("no Chromium on this machine")
    with browser() as found:
        yield found


def test_it_is_small_quick_and_asks_for_nothing(honest: tuple[Path, dict[str, Any], float]) -> None:
    path, data, spent = honest
    text = path.read_text()
    assert len(text.encode()) < 2_000_000
    assert spent < 1.0
    assert f"{seconds(data['benefits']['t_exec'] / GPU.chip.clock_hz)}</span>" in text  # as in its chart
    assert "our answer is" not in text and text.count('class="time"') == 1
    assert "http://" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "") and "https://" not in text
    assert all(f'id="{name}"' in text for name in SECTIONS)


def test_a_kernel_of_many_thousand_instructions_stays_under_the_limit() -> None:
    workload = measured("saxpy")
    comparison = wl.compare(workload, GPU)
    assert comparison.headline is not None
    content = gather(comparison.headline, comparison, workload, GPU, None)
    rows = [replace(r, number=i) for i, r in enumerate(content.instructions * 400)]
    content = replace(content, instructions=rows)
    text = page(content, to_json(data(content)))
    assert len(rows) > 9000 and len(text.encode()) < 2_000_000
    assert "instructions where little time goes" in text


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_it_is_quiet_and_drawn(
    shown: Browser, honest: tuple[Path, dict[str, Any], float], width: int, theme: str
) -> None:
    shown.open(honest[0], width, theme=theme)
    assert shown.errors == []
    assert shown.requests == [honest[0].resolve().as_uri()]
    assert shown.value("document.documentElement.scrollWidth") <= width
    drawn = shown.value(
        "[...document.querySelectorAll('svg.picture')].filter(e => e.getBoundingClientRect().width > 250 && "
        "e.getBoundingClientRect().height > 150).map(e => e.querySelectorAll('path, circle, rect').length)"
    )
    assert len(drawn) == 4 and min(drawn) > 10  # occupancy, timeline, roofline, benefits: one width of each
    assert shown.value("document.querySelectorAll('.stack .cell').length") > 8
    bare = shown.value(
        "[...document.querySelectorAll('svg[role=group]')].filter(e => !e.getAttribute('aria-label')).length"
    )
    assert bare == 0
    paper = shown.value("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, paper[4:-1].split(","))) > 600) == (theme == "light")


_CONTRAST = """
(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  canvas.canvas.width = canvas.canvas.height = 1;
  const over = (base, colour) => {
    canvas.fillStyle = `rgb(${base.join(',')})`; canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
  const linear = (v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = (rgb) => { const [r, g, b] = rgb.map(v => linear(v / 255));
    return .2126 * r + .7152 * g + .0722 * b; };
  const behind = (e) => e === null ? [255, 255, 255]
    : over(behind(e.parentElement), getComputedStyle(e).backgroundColor);
  const poor = [];
  for (const e of document.querySelectorAll('main *, nav *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest('.unseen, title') || !e.getClientRects().length) continue;
    const style = getComputedStyle(e), base = behind(e);
    const a = light(over(base, e.closest('svg') ? style.fill : style.color)), b = light(base);
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5))
      poor.push(`${e.tagName}.${e.getAttribute('class')} ${e.textContent.slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return poor;
})()
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_can_be_read(shown: Browser, honest: tuple[Path, dict[str, Any], float], theme: str) -> None:
    shown.open(honest[0], theme=theme)
    assert shown.value(_CONTRAST) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_plots_are_quiet_fit_and_can_be_read(shown: Browser, tmp_path: Path, width: int, theme: str) -> None:
    path = tmp_path / "papers.html"
    path.write_text(items.page(list(reproduce("hong-kim-table-4"))))
    shown.open(path, width, theme=theme)
    assert shown.errors == [] and shown.requests == [path.resolve().as_uri()]
    assert shown.value("document.documentElement.scrollWidth") <= width
    wide = shown.value("[...document.querySelectorAll('svg.picture')].map(e => e.getBoundingClientRect().width)")
    assert sum(w > 300 for w in wide) == 3 and shown.value(_CONTRAST) == []
    strokes = shown.value("[...document.querySelectorAll('.key .series path')].map(e => getComputedStyle(e).stroke)")
    assert len(strokes) == 12 and len(set(strokes)) == 5


def test_numbers_say_where_they_come_from(shown: Browser, honest: tuple[Path, dict[str, Any], float]) -> None:
    shown.open(honest[0])
    assert shown.value("document.getElementById('tip').hidden")
    shown.hover(".answer .time .v")
    assert "cycles by warplens" in shown.value("document.getElementById('tip').textContent")
    assert not shown.value("document.getElementById('tip').hidden")
    shown.hover(".limits li .v")
    assert "shared_memory.access_interval_cycles" in shown.value("document.getElementById('tip').textContent")
    shown.hover(".sass tr[style] code")
    assert "\n" in shown.value("document.getElementById('tip').textContent")  # a line per reason
    assert "\ufffd" not in shown.value("document.getElementById('tip').textContent")
    shown.hover("#roofline svg.wide .spots")
    assert "measured" in shown.value("document.getElementById('tip').textContent")
    box = shown.value("JSON.stringify(document.getElementById('tip').getBoundingClientRect())")
    inside = json.loads(box)
    assert inside["left"] >= 0 and inside["right"] <= 1400 and inside["top"] >= 0 and inside["bottom"] <= 900
    assert (
        shown.value("[...document.querySelectorAll('.v')].filter(e => !e.dataset.why || e.tabIndex !== 0).length") == 0
    )


def test_the_keyboard_reaches_everything(shown: Browser, honest: tuple[Path, dict[str, Any], float]) -> None:
    shown.open(honest[0])
    links = shown.value("document.querySelectorAll('nav a, nav button').length")
    shown.press("Tab", links + 1)
    assert shown.value("document.activeElement.matches('header .v')")
    assert not shown.value("document.getElementById('tip').hidden")
    assert shown.value("document.activeElement.getAttribute('aria-describedby')") == "tip"
    shown.press("Escape")
    assert shown.value("document.getElementById('tip').hidden")
    shown.value("document.querySelector('.sass tbody tr').focus()")
    shown.press("End")
    shown.press("ArrowUp")
    count = shown.value("document.querySelectorAll('.sass tbody tr').length")
    assert shown.value("document.activeElement.id") == f"I{count - 2}"
    assert shown.value("document.querySelectorAll('.sass tbody tr[tabindex=\"0\"]').length") == 1  # one stop for Tab
    line = shown.value("document.activeElement.dataset.line")
    assert shown.value(f"document.querySelector('#L{line}').classList.contains('lit')")
    shown.value("location.hash = '#L23'")
    time.sleep(0.1)
    assert shown.value("document.querySelectorAll('.sass tr.lit').length") > 3
    assert shown.value("[...document.querySelectorAll('a[href^=\"#\"]')].filter("
                       "a => !document.getElementById(a.getAttribute('href').slice(1))).length") == 0  # fmt: skip


def test_the_theme_can_be_changed_and_print_is_light(
    shown: Browser, honest: tuple[Path, dict[str, Any], float]
) -> None:
    shown.open(honest[0], theme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = shown.value(paper)
    shown.value("document.getElementById('theme').click()")
    assert shown.value(paper) != dark
    shown.value("document.getElementById('theme').click()")
    assert shown.value(paper) == dark
    shown.open(honest[0], 800, theme="dark", media="print")
    assert shown.value(paper) == "rgb(255, 255, 255)"
    assert shown.value("getComputedStyle(document.querySelector('nav')).display") == "none"
    shown.value("dispatchEvent(new Event('beforeprint'))")
    assert shown.value("document.querySelectorAll('details:not([open]):not(.unprinted)').length") == 0


def test_the_page_has_what_json_has(shown: Browser, honest: tuple[Path, dict[str, Any], float]) -> None:
    path, data, _ = honest
    shown.open(path)
    assert json.loads(shown.value("document.getElementById('data').textContent")) == data
    text = shown.value("document.body.textContent")
    assert all(a["title"] in text for a in data["advice"] if a["helps"])
    assert all(a["reason"] in text for a in data["advice"] if not a["helps"])
    assert all(name in text for name in (*data["models_seconds"], *data["limits_cycles"]))
    rows = shown.value("document.querySelectorAll('.sass tbody tr').length")
    assert rows == len(data["instructions"])


def test_names_and_source_lines_are_inert(shown: Browser, tmp_path: Path) -> None:
    source = tmp_path / "evil.cu"
    source.write_text("\n".join([EVIL] * 40))
    base = measured("saxpy")
    assert base.profile is not None
    workload = base.with_values(
        name=EVIL, source=str(source), notes=[EVIL],
        code=[replace(x, text=f"{x.text} {EVIL}") for x in base.code],
        profile=replace(base.profile, notes=[EVIL], traffic=[replace(t, name=EVIL) for t in base.profile.traffic]),
    )  # fmt: skip
    path = tmp_path / "page.html"
    path.write_text(made(workload)[0])
    shown.open(path)
    assert shown.errors == [] and shown.requests == [path.resolve().as_uri()]
    assert shown.value("window.pwned") is None
    assert (
        shown.value("document.querySelectorAll('img, iframe, object, main script, main style, [onerror]').length") == 0
    )
    seen = EVIL.replace("\u202e", "\ufffd")  # what turns the writing round is shown as what it is: not printable
    assert shown.value("document.querySelector('h1').textContent") == seen
    assert shown.value("document.title").startswith("</title></style>")
    assert shown.value("document.querySelector('#L1 code').textContent") == seen
    assert seen in shown.value("document.querySelector('#I0 code').textContent")
    shown.hover("#I0 code")
    assert shown.value("window.pwned") is None


def test_the_source_has_the_larger_pane_and_all_of_it_is_seen(
    shown: Browser, honest: tuple[Path, dict[str, Any], float]
) -> None:
    shown.open(honest[0], 1400)
    source, sass = shown.value(
        "['source', 'sass'].map(k => document.querySelector(`.listing.${k}`).closest('.pane').clientWidth)"
    )
    assert source / (source + sass) == pytest.approx(0.6, abs=0.02)
    pane = "document.querySelector('.listing.source').closest('.pane')"
    assert shown.value(f"(p => p.scrollWidth - p.clientWidth)({pane})") <= 1
    edges = shown.value(
        "[...document.querySelectorAll('.listing.source .badge')].map(b => "
        "b.closest('.pane').getBoundingClientRect().right - b.getBoundingClientRect().right)"
    )
    assert edges and min(edges) >= 0  # remedies of a line are inside the pane


def test_a_remedy_says_how_and_whether_results_change(
    shown: Browser, honest: tuple[Path, dict[str, Any], float]
) -> None:
    path, data, _ = honest
    shown.open(path)
    marks = shown.value("[...document.querySelectorAll('.remedies > li > .how')].map(p => p.textContent)")
    helpful = [a for a in data["advice"] if a["helps"] and not a["form_of"]]
    said = ["changes results" if a["changes_results"] else "same results" for a in helpful]
    assert marks == [mark + a["how"] for mark, a in zip(said, helpful, strict=True)]
    assert shown.value("document.querySelectorAll('#remedies > .useless > li').length") == 4


def test_the_papers_models_are_one_folded_section(shown: Browser, honest: tuple[Path, dict[str, Any], float]) -> None:
    shown.open(honest[0])
    assert shown.value("document.querySelectorAll('#models > details:not([open])').length") == 3
    outside = shown.value("[...document.querySelectorAll('section:not(#models)')].map(s => s.textContent).join()")
    assert "Sim et al. 2012" not in outside and "hong-kim" not in outside
