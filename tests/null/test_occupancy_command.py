"""`warplens occupancy` of a kernel: the answer first, what to change, a map, and one line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from warplens.api import occupancy_table
from warplens.cli import main
from warplens.core.errors import WarplensError
from warplens.machine import Needs, list_machines, load_machine
from warplens.machine import occupancy_table as table_of
from warplens.program.program import Program, Resources


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    code = main(["occupancy", *arguments])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def test_the_answer_is_the_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run("--registers", "40", "--gpu", "a100", capsys=capsys).splitlines()
    # 40 x 32 = 1280 registers per warp: 12 warps on each of 4 schedulers
    assert lines[0] == "6 blocks of 256 threads, 48 warps per SM (75%), limited by registers"
    assert lines[1] == "  a kernel on NVIDIA A100 80GB SXM"
    assert lines[2] == "  40 registers per thread, 0 B shared memory and 0 barriers per block"
    assert "warps 8, blocks 32, registers 6" in lines[3]
    assert lines[4].strip() == "100% (8 blocks) with at most 32 registers per thread"
    assert next(line for line in lines if line.startswith("  128 ")).split()[:5] == [
        "128",
        "12",
        "48",
        "75%",
        "registers",
    ]
    assert sum("◆" in line for line in lines) == 2  # the kernel's own point, and the legend
    assert max(map(len, lines)) <= 110


def test_the_map_is_the_answer_at_its_own_point(capsys: pytest.CaptureFixture[str]) -> None:
    t = json.loads(run("--registers", "100", "--block", "200", "--shared", "9000", "--json", capsys=capsys))
    row, column = t["map"]["threads_per_block"].index(200), t["map"]["registers_per_thread"].index(104)
    assert t["map"]["warps_per_sm"][row][column] == t["answer"]["warps_per_sm"] == t["by_registers"]["100"]
    assert t["rows"]["200"] == t["answer"] and set(t["rows"]) >= {str(n) for n in range(32, 513, 32)}
    assert t["by_shared_bytes"]["0"] >= t["answer"]["warps_per_sm"]
    assert t["steps"]["200"] == t["most"] and t["most"]["fraction"] > t["answer"]["fraction"]


def test_several_gpus_and_ties(capsys: pytest.CaptureFixture[str]) -> None:
    out = run("--registers", "90", "--shared", "30000", "--block", "128", "--gpu", "a100,h200", capsys=capsys)
    assert "limited by registers and shared memory" in out and "on NVIDIA H200" in out
    assert "at most 80 registers per thread and at most 26880 B shared memory per block" in out
    assert max(map(len, out.splitlines())) <= 110
    tables = json.loads(run("--registers", "90", "--gpu", "a100,h200", "--json", capsys=capsys))["occupancies"]
    assert [t["machine"] for t in tables] == ["a100", "h200"]


@pytest.mark.parametrize("machine", list_machines(), ids=lambda m: m.id)
def test_every_machine_answers_or_names_what_it_lacks(machine: object, capsys: pytest.CaptureFixture[str]) -> None:
    name = getattr(machine, "id", "")
    code = main(["occupancy", "--registers", "20", "--shared", "2000", "--gpu", name])
    out, err = capsys.readouterr()
    if name in ("huang-synthetic", "volkov-table-3.3"):
        assert code == 2 and "occupancy needs sm.blocks_max, sm.threads_per_block_max, sm.registers" in err
    else:
        assert code == 0 and " warps per SM (" in out.splitlines()[0] and max(map(len, out.splitlines())) <= 110


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a workload or a .cu, .ptx or .cubin, or give --registers"),
        (("--registers", "40", "--block", "2048"), "a block of 2048 threads: NVIDIA H200 takes at most 1024"),
        (("--registers", "40", "--block", "0"), "there must be at least one"),
        (("--registers", "300"), "300 registers per thread: NVIDIA H200 has at most 255"),
        (("--registers", "-1"), "must not be below zero"),
        (("--registers", "255", "--block", "1024"), "with 64 registers per thread one would fit"),
        (("--registers", "40", "--shared", "300000"), "NVIDIA H200 allows at most 232448"),
        (("--registers", "40", "--dynamic-shared", "-1"), "must not be below zero"),
        (("--registers", "40", "--gpu", ","), "--machine names no machine"),
        (("--registers", "40", "--gpu", "a100,t4", "--html", "x.html"), "--html takes one machine"),
        (("saxpy", "--block", "64"), "--block is for a .cu, .ptx or .cubin"),
        (("saxpy", "--registers", "64"), "--registers is for a .cu, .ptx or .cubin"),
        (("nowhere.cubin",), "No such file"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["occupancy", *arguments])
    out, err = capsys.readouterr()
    assert code == 2 and out == "" and message in err and err.count("\n") == 1


def _program(**resources: object) -> Program:
    return Program("k", "k(int*)", "sm_80", [], Resources(**resources))  # type: ignore[arg-type]


def test_launch_bounds_choose_the_block_and_end_the_table() -> None:
    t = occupancy_table(_program(registers=40, static_shared_bytes=1000, barriers=1, threads_max=128), "a100")
    assert t.block == 128 and list(t.rows) == [32, 64, 96, 128]
    assert t.needs == Needs(40, 1000, 1, 128, None) and t.kernel == "k(int*)"
    assert occupancy_table(_program(registers=40), "a100").block == 256
    fixed = occupancy_table(_program(registers=40, threads_max=192, threads_required=(64, 3, 1)), "a100")
    assert fixed.block == 192 and list(fixed.rows) == [192]
    with pytest.raises(WarplensError, match="compiled for blocks of at most 128 threads, not 256"):
        occupancy_table(_program(threads_max=128), "a100", block=256)
    with pytest.raises(WarplensError, match="compiled for blocks of 192 threads, not 64"):
        occupancy_table(_program(threads_required=(64, 3, 1)), "a100", block=64)


def test_barriers_of_the_kernel_count() -> None:
    t = occupancy_table(_program(registers=24, barriers=16), "h200", block=64)
    assert (t.answer.blocks_per_sm, t.answer.limiter) == (64 // 16, "barriers")
    assert t.one_more is not None and t.one_more.at_most == {"barriers": 64 // 5}
    assert occupancy_table(_program(registers=24, barriers=16), "a100", block=64).answer.limiter == "warps"


def test_a_what_if_replaces_the_compilers_numbers() -> None:
    program = _program(registers=80, static_shared_bytes=40000)
    assert occupancy_table(program, "a100").answer.limiter == "registers"
    less = occupancy_table(program, "a100", registers=32, shared_bytes=0, dynamic_shared_bytes=512)
    assert less.answer.fraction == 1 and less.needs.shared_bytes_per_block == 512
    bigger = load_machine("a100").with_values(sm__registers=131072)
    assert table_of(bigger, Needs(64)).answer.fraction == 1


def test_code_for_another_architecture_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    from warplens.report.occupancy import of_kernel
    from warplens.report.terminal import console

    for gpu, noted in {"a100": False, "h200": True}.items():
        for part in of_kernel(occupancy_table(_program(registers=40), gpu), load_machine(gpu)):
            console(110).print(part)
        assert ("the registers are those of code for sm_80" in capsys.readouterr().out) == noted


def test_html_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "o.html"
    out = run("--registers", "40", "--gpu", "a100", "--html", str(path), capsys=capsys)
    text = path.read_text()
    assert out.endswith(f"report: {path}\n") and len(text) < 1_500_000
    assert '<p class="answer">6 blocks of 256 threads, 48 warps per SM (75%), limited by registers</p>' in text
    assert text.count("<figure>") == 3 and "≤ 32 registers" in text
