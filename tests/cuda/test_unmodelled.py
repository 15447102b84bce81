"""What is not modelled is named with its line, and the interval is wider or there is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from warplens import api
from warplens.api.counting import profiled
from warplens.cli.main import main
from warplens.emulator import ops
from warplens.emulator.decode import decode
from warplens.machine import load_machine
from warplens.models import Prediction
from warplens.models.warplens import intervals as confidence
from warplens.models.warplens.intervals import uncertainty
from warplens.program import Options, toolchain
from warplens.program.cubin import link, parse_cubin
from warplens.program.disassembly import parse_disassembly
from warplens.program.instruction import Instruction
from warplens.workload import Workload
from warplens.workload.counted import RULES, sleep_seconds, unmodelled, workload_of
from warplens.workload.launch import Argument, KernelCall, load_launch

from .corpus import compiled, parts
from .programs import options_of, programs

# Instructions that the emulator runs as nothing, and that are modelled all the same: they wait by scoreboard or for the
# cycles of the machine file, or they order accesses that are in order.
IDLE = frozenset(
    ("NOP", "DEPBAR", "MEMBAR", "LDGDEPBAR", "ERRBAR", "CGAERRBAR", "CCTLL", "CCTLT", "UCCTL", "FENCE", "PMTRIG",
     "ENDCOLLECTIVE", "WARPGROUP", "WARPGROUPSET", "WARPARRIVE", "UTMACCTL", "UTMACMDFLUSH", "ACQSHMINIT", "UMEMSETS",
     "SYNCS")
)  # fmt: skip
pytestmark = pytest.mark.cuda
ROOT = Path(__file__).parents[2]
FILE = Path(__file__).parent / "kernels" / "unmodelled.cu"
LINES = FILE.read_text().splitlines()


def array(name: str = "x", element: str = "f32", count: int = 1 << 16, fill: str = "random") -> Argument:
    return Argument(type=f"{element}*", name=name, count=count, fill=fill)


X, N = array(), Argument(type="i32", name="n", value=1000)
ZEROS = array("word", "i32", 64, "zeros")
# Arguments; how each finding begins and by how much it widens the interval (None: there is none); a word of its line.
CASES: dict[str, tuple[list[Argument], list[tuple[str, float | None]], str]] = {
    "sleeps": ([X], [("__nanosleep", 2)], "__nanosleep(1000000)"),
    "sleeps_so_long": ([X, N], [("__nanosleep", None)], "__nanosleep(n)"),
    "prints": ([X], [("printf", None)], "printf"),
    "allocates": ([X], [("malloc", None), ("free", None)], "malloc"),
    "clusters": ([X], [("__cluster_dims__(2, 1, 1)", None)], ""),
    "reads_beyond": ([X, Argument(type="i32", value=8)], [("__constant__ memory", None)], "table[n"),
    "reads_unwritten": ([X], [("shared memory that is read before it is written", None)], "i < n"),
    "waits_for_clock": ([X, N], [("a branch that depends on a clock", None)], ""),
    "waits_for_time": ([X, N], [("a branch that depends on a clock", None)], ""),
    "waits_for_barrier": ([X], [("a wait for a barrier (mbarrier)", None)], ""),
    "waits_for_flag": (
        [array("flag", "i32", 64, "ones"), X],
        [("a loop until another thread has written", None), ("a volatile load", 1.5)],
        "flag[0] == 0",
    ),
    "takes_lock": ([ZEROS, X], [("a loop until another thread has written", None)], "atomicCAS(lock"),
    "adds_by_swap": ([ZEROS, X], [("a loop until another thread has written", None)], "atomicCAS(sum"),
    "loads_volatile": ([X, array("y")], [("a volatile load", 1.5)], "a += x[i & 7]"),
    "fences_system": ([X], [("__threadfence_system", 1.5)], "__threadfence_system()"),
    "fences_often": ([X], [("a fence", 1.25)], "__threadfence()"),
    "adds_system": ([array("x", "i32")], [("an atomic of system scope", 1)], "atomicAdd_system"),
    "depends": ([X], [("griddepcontrol.wait", 1), ("griddepcontrol.launch_dependents", 1)], ""),
    "takes_trips": ([array("n", "i32", fill=""), X], [("the contents of n", None)], "i < n[threadIdx.x]"),
    "filters": ([X], [("the contents of variable ntaps", None)], "k < ntaps"),
    "looks_up": ([X], [("the contents of variable places", None)], "places[threadIdx.x]"),
    "stores_bulk": ([X], [("a bulk copy (TMA)", None)], ""),
    "stores_tensor": ([X], [("a copy by tensor map (TMA)", None)], ""),
    "prefetches": ([X], [("a prefetch", 1.25)], "prefetch.global"),
    "samples": ([Argument(type="u64", value=0), X], [("a texture", None)], "tex2D"),
    "takes_work": ([ZEROS, X], [("a work queue", None)], "atomicAdd(next"),
}
ORDINARY = {
    "stores_time": [array("x", "i64")],
    "writes_first": [array("x", "i32", fill="random_int(0, 200)"), array("y")],
    "writes_bytes_first": [array("x", "u8"), array("y")],
    "counts": [array("x", "i32"), ZEROS],
    "sums": [X, array("y")],
    "takes_trips": [array("n", "i32", fill="random_int(0, 9)"), X],
    "calls_itself": [array("x", "i32")],
    "weighs": [X],
}


def analysed(name: str, arguments: list[Argument], blocks: int = 264) -> tuple[Workload, Prediction]:
    call = KernelCall(kernel=name, grid=blocks, block=128, arguments=arguments)
    program, h200 = programs(FILE, options_of(call))[name], load_machine("h200")
    workload = workload_of(program, call, profiled(program, call, h200, "fast"), h200)
    return workload, api.predict(workload, h200, "warplens-fast")


@pytest.mark.parametrize("name", CASES)
def test_it_is_named_and_the_interval_is_wider_or_there_is_none(name: str) -> None:
    arguments, findings, words = CASES[name]
    workload, p = analysed(name, arguments)
    assert [(u.thing, u.factor) for u in workload.unmodelled] == findings
    first = workload.unmodelled[0]
    if words:
        assert words in LINES[int(first.where.removeprefix("line ").removeprefix("lines ").partition(",")[0]) - 1]
    assert all(any(note.startswith(u.text) for note in p.notes) for u in workload.unmodelled)
    plain = confidence.interval(p, workload.with_values(unmodelled=[]), load_machine("h200"))
    assert isinstance(plain, confidence.Interval)
    if first.factor is None:
        assert p.interval_seconds is None
        assert p.interval_about.startswith(f"no interval: not modelled: {first.thing}")
    else:
        factor = 1.0
        for _, each in findings:
            factor *= each or 1.0
        assert p.interval_seconds == pytest.approx((plain.low / factor, plain.high * factor))
        assert (f"widened {factor:.3g} times" in p.interval_about) == (factor > 1)


@pytest.mark.parametrize("name", ORDINARY)
def test_nothing_is_said_of_what_is_modelled(name: str) -> None:
    assert analysed(name, ORDINARY[name])[0].unmodelled == []


@pytest.mark.parametrize("file", ["saxpy.toml", "matmul/matmul_tiled16.toml", "reduction/reduction_k6.toml"])
def test_ordinary_kernels_have_the_interval_of_the_measured_errors(file: str) -> None:
    call, h200 = load_launch(ROOT / "examples" / file), load_machine("h200")
    workload = api.count(None, call, h200, effort="fast")
    p, known = api.predict(workload, h200, "warplens-fast"), confidence.shipped().models["warplens-fast"]
    assert workload.unmodelled == [] and p.seconds is not None
    expected = confidence.around(float(p.seconds), p.bound, workload.name, known, *uncertainty(workload))
    assert isinstance(expected, confidence.Interval)
    assert (p.interval_seconds, p.interval_about) == ((expected.low, expected.high), expected.about)


def test_a_sleep_takes_the_time_that_it_asks_for() -> None:
    # What an H200 takes for one, by its clock of 1.98 GHz, is inside the interval: 1.048 ms.
    points = json.loads((ROOT / "data/experiments/fences/nanosleep.json").read_text())["points"]
    measured = [x["mean_cycles"] / 1.98e9 for x in points if x["asked_ns"] == 1_000_000]
    assert all(each == pytest.approx(1.048e-3, rel=1e-3) for each in measured)
    workload, fast = analysed("sleeps", [X])
    slow = api.predict(workload, "h200", "warplens")
    for p in (fast, slow):
        assert p.seconds is not None and p.interval_seconds is not None
        assert 1.0e-3 < float(p.seconds) < 1.01e-3
        assert p.interval_seconds[0] < min(measured) and max(measured) < p.interval_seconds[1]
    sleep = next(x for x in workload.code if x.opcode == "NANOSLEEP")
    assert sleep_seconds(sleep) == pytest.approx(1e-3)
    assert sleep_seconds(replace(sleep, modifiers=("SYNCS",))) == 0


def test_an_assertion_that_no_emulated_block_fails_is_named_and_changes_nothing() -> None:
    # Of 2^20 blocks a part is emulated; x is not below zero in any of them.
    call = KernelCall(kernel="asserts", grid=1 << 20, block=128, arguments=[array(count=1 << 27)])
    program, h200 = programs(FILE, options_of(call))["asserts"], load_machine("h200")
    made = profiled(program, call, h200, "fast")
    found = unmodelled(program, made)
    assert not made.exact
    assert [(u.thing, u.factor, u.says) for u in found] == [
        ("assert", 1.0, "called by no block that was emulated: not counted")
    ]
    assert unmodelled(program, replace(made, exact=True)) == []


def test_text_json_page_and_saved_workload_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch = tmp_path / "l.toml"
    launch.write_text(
        f'file = "{FILE}"\nkernel = "prints"\ngrid = 264\nblock = 128\n'
        'arg = [{ name = "x", type = "f32*", count = 65536, fill = "random" }]\n'
    )
    line = next(i for i, text in enumerate(LINES, 1) if "printf" in text)
    said, reason = f"line {line}: printf: ", f"no interval: not modelled: printf (line {line})"
    page, saved = tmp_path / "p.html", tmp_path / "w.json"
    assert main(["analyze", "--launch", str(launch), "--fast", "--html", str(page), "--save", str(saved)]) == 0
    text = capsys.readouterr().out
    assert text.count(said) == 1 and reason in text and "90 % sure" not in text
    html = page.read_text()
    assert said in html and reason in html and "no interval: no interval" not in html
    assert main(["analyze", "--launch", str(launch), "--fast", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["prediction"]["interval_seconds"] is None and reason in data["prediction"]["interval_about"]
    assert any(note.startswith(said) for note in data["prediction"]["notes"])
    for command in ("predict", "simulate", "advise", "compare"):
        assert main([command, str(saved)]) == 0
        assert said in " ".join(capsys.readouterr().out.split()), command


SPACE = """
gpus = ["h200"]
models = ["warplens-fast"]
[[kernel]]
launch = "l.toml"
[kernel.parameter]
threads = [64, 128]
[kernel.set]
block = "threads"
"""


def test_every_command_that_predicts_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch, space, saved = (tmp_path / name for name in ("l.toml", "s.toml", "w.json"))
    launch.write_text(
        f'file = "{FILE}"\nkernel = "allocates"\ngrid = 264\nblock = 128\n'
        'arg = [{ name = "x", type = "f32*", count = 65536, fill = "random" }]\n'
    )
    space.write_text(SPACE)
    line = next(i for i, text in enumerate(LINES, 1) if "malloc" in text)
    said = f"line {line}: malloc: the driver's code"
    api.count(None, load_launch(launch), "h200", effort="fast").save(saved)

    def run(*arguments: object) -> tuple[str, Any]:
        assert main([str(a) for a in arguments]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert main([*(str(a) for a in arguments), "--json"]) == 0
        return text, json.loads(capsys.readouterr().out)

    text, data = run("check", saved, "--max-time", "1s", "--model", "warplens-fast", "--against", saved)
    assert text.count(said) == 1 and data["notes"][0].startswith(said)
    text, data = run("whatif", saved, "--set", "launch.registers=64", "--model", "warplens-fast")
    assert text.count(said) == 1 and "compare with care" not in text
    assert all(data[side]["notes"][0].startswith(said) for side in ("before", "after"))
    text, data = run("diff", saved, saved)
    assert text.count(said) == 1 and "compare with care" not in text and data["after"]["notes"]
    text, _ = run("analyze", launch, "--gpu", "h200,h100", "--fast")
    assert text.count(said) == 1 and text.count(f"no interval: not modelled: malloc (line {line})") == 1
    text, data = run("tune", space, "--model", "warplens-fast", "--share", "1", "--no-cache", "--workers", "1")
    assert text.count(said) == 1 and data["notes"][0].startswith(said)
    text, data = run("sweep", space, "--no-cache", "--workers", "1")
    assert f"note: 2 points: {said}" in text and any(said in note for note in data["notes"])
    rows = (space.with_suffix(".sweep") / "results.jsonl").read_text().splitlines()
    assert [json.loads(row)["note"].startswith(said) for row in rows] == [True, True]


def _has_a_word(x: Instruction) -> bool:
    """Whether the table says something of an instruction, or that there is nothing to say."""
    ruled = x.opcode in IDLE or any(rule.fits(x) for rule in RULES)
    return ruled or x.opcode == "NANOSLEEP" or (x.opcode == "CCTL" and "IVALL" in x.modifiers)


@pytest.mark.parametrize(
    ("arch", "which"),
    [("sm_90", 0), ("sm_90a", 0), pytest.param("sm_90", 1, marks=pytest.mark.slow),
     *(pytest.param(a, which, marks=pytest.mark.slow) for a in ("sm_80", "sm_100", "sm_120") for which in (0, 1))],
)  # fmt: skip
def test_every_opcode_is_modelled_or_in_the_table(arch: str, which: int, tmp_path: Path) -> None:
    """What the emulator runs as nothing has a rule; what it does not know is arithmetic of a known class, or has one.

    Of arithmetic that it does not know the answer tells the share. Accesses that it does not know have no requests, and
    are named for that.
    """
    file, silent = compiled(parts(arch)[which], arch, tmp_path / "corpus.cubin"), set[str]()
    cubin = parse_cubin(file.read_bytes(), file.name)
    for function in parse_disassembly(toolchain.run("nvdisasm", "-c", "-hex", file)):
        program = link(function, cubin)
        for x, group in zip(program.instructions, decode(program).table[:, ops.GROUP].tolist(), strict=True):
            unknown = group == ops.UNKNOWN and x.kind == "other"
            if (group == ops.NOTHING or unknown) and not _has_a_word(x):
                silent.add(x.name)
    assert silent == set()


def test_a_function_that_calls_itself_has_no_bound_on_its_stack() -> None:
    program = programs(FILE, Options(arch="sm_90"))["calls_itself"]
    assert program.resources.frame_bytes < 1 << 20  # a toolkit writes 2^32 - 1
